"""Audit: scores in, answer out."""

from equipoise.auditing.assess import audit
from equipoise.auditing.result import Audit, AuditRow, NotAssessed
from equipoise.auditing.several import Audits

__all__ = ["Audit", "AuditRow", "Audits", "NotAssessed", "audit"]
