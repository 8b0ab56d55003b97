"""Sensitive attributes: read from any container, typed by stated rules, encoded for the critic."""

from equipoise.sensitive.alignment import check_aligned
from equipoise.sensitive.inputs import AttributeInputs
from equipoise.sensitive.kinds import Kind, SensitiveColumn
from equipoise.sensitive.table import SensitiveTable

__all__ = ["AttributeInputs", "Kind", "SensitiveColumn", "SensitiveTable", "check_aligned"]
