"""Audit: scores in, answer out."""

from equipoise.auditing.assess import audit
from equipoise.auditing.result import Audit, AuditRow, NotAssessed

__all__ = ["Audit", "AuditRow", "NotAssessed", "audit"]
