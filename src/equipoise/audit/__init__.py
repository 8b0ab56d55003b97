"""Audit: scores in, answer out."""

from equipoise.audit.assess import audit
from equipoise.audit.result import Audit
from equipoise.audit.rows import AuditRow, NotAssessed

__all__ = ["Audit", "AuditRow", "NotAssessed", "audit"]
