"""What a model card says, before it is written as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from equipoise.frontier.selection import SelectionRow

TO_FILL_IN = "to be filled in by the owner"


def to_fill_in(what: str) -> str:
    """What stands where only the owner of a model knows the answer.

    >>> to_fill_in("who answers questions")
    'to be filled in by the owner: who answers questions'
    """
    return f"{TO_FILL_IN}: {what}"


@dataclass(frozen=True)
class AssessedAttribute:
    """A sensitive column; groups are the names of its categories, none where it is continuous."""

    name: str
    kind: Literal["discrete", "continuous"]
    groups: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """Name, kind and groups.

        >>> AssessedAttribute("sex", "discrete", ("F", "M")).in_words
        'sex (discrete: F, M)'
        """
        groups = f": {', '.join(self.groups)}" if self.groups else ""
        return f"{self.name} ({self.kind}{groups})"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The card of one model: facts of the run, and fields that only its owner can fill in.

    The owner's fields hold a text that says so; fill them in with ``dataclasses.replace``.

    Attributes
    ----------
    name, overview : str
        What the model is called, and what it is in a sentence.
    task : "tabular-classification" or "tabular-regression"
        As Hugging Face calls it.
    notion, notion_meaning : str
    mitigation, method_reference, architecture : str
    choice : str
        Which snapshot was chosen, by what wish.
    data, target : str
        Name of the data, and of the column that is predicted.
    training_rows, validation_rows, test_rows : int
    features : tuple of str
    attributes : tuple of AssessedAttribute
    output : str
        What the model gives.
    threshold : float or None
        A decision is score > threshold.
    level : float
        Of intervals and certificates.
    rows : tuple of SelectionRow
        Every number of the report on the chosen model, as the selection has it.
    limitations, tradeoffs : tuple of str
    settings, versions : mapping
    device, command, deploy_command : str
    python : tuple of str
        Lines that load the run and pick this model.
    owner, contact, license, users, use_cases, out_of_scope, risks, citation : str
        For the owner.
    """

    name: str
    overview: str
    task: Literal["tabular-classification", "tabular-regression"]
    notion: str
    notion_meaning: str
    mitigation: str
    method_reference: str
    architecture: str
    choice: str
    data: str
    target: str
    training_rows: int
    validation_rows: int
    test_rows: int
    features: tuple[str, ...]
    attributes: tuple[AssessedAttribute, ...]
    output: str
    threshold: float | None
    level: float
    rows: tuple[SelectionRow, ...]
    limitations: tuple[str, ...]
    tradeoffs: tuple[str, ...]
    settings: Mapping[str, object]
    versions: Mapping[str, object]
    device: str
    command: str
    deploy_command: str
    python: tuple[str, ...]
    owner: str = to_fill_in("person or team that answers for this model")
    contact: str = to_fill_in("where questions and complaints go")
    license: str = to_fill_in("an SPDX identifier, or the terms of use")
    users: str = to_fill_in("who is meant to use this model")
    use_cases: str = to_fill_in("which decisions it is meant for, about whom")
    out_of_scope: str = to_fill_in("what it must not be used for")
    risks: str = to_fill_in("who may be harmed by a wrong score, and what is done about it")
    citation: str = to_fill_in("how to cite this model")

    @property
    def to_fill_in(self) -> tuple[str, ...]:
        """Names of the fields that the owner has not filled in yet."""
        return tuple(
            field.name
            for field in fields(self)
            if str(getattr(self, field.name)).startswith(TO_FILL_IN)
        )
