"""Audit: scores in, answer out."""

from equipoise.auditing.assess import audit
from equipoise.auditing.result import Audit
from equipoise.auditing.rows import AuditRow, NotAssessed

__all__ = ["Audit", "AuditRow", "NotAssessed", "audit"]
