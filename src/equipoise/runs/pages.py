"""The pages of a run: report and model card of the model that is selected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from equipoise.frontier import FairFrontier, Selection
from equipoise.report.frontier_page import frontier_page
from equipoise.report.model_card import model_card, to_json, to_markdown
from equipoise.report.run_facts import RunFacts
from equipoise.runs.choice import Choice
from equipoise.runs.folder import CARD, CARD_JSON, FRONTIER, REPORT, Run
from equipoise.runs.names import command_line
from equipoise.storage import write_atomically


def write_pages(
    run: Run, folder: Path, frontier: FairFrontier, selection: Selection, choice: Choice
) -> None:
    """Write report.html, model_card.md and model_card.json of the selected model to ``folder``."""
    facts = replace(facts_of(run), picked=choice.remark)
    card = model_card(selection, facts, frontier)
    texts = {
        REPORT: frontier_page(frontier, selection, facts),
        CARD: to_markdown(card),
        CARD_JSON: to_json(card),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())


def facts_of(run: Run) -> RunFacts:
    """Return what pages say of a run beside its numbers."""
    record = run.record
    predict = command_line("equipoise", "predict", run.folder)
    return RunFacts(
        title=f"Predicting {record.options.target} from {Path(record.data.path).name}",
        data_name=Path(record.data.path).name,
        rows=record.data.rows,
        target=record.options.target,
        command=record.command,
        select_command=command_line("equipoise", "select", run.folder),
        deploy_command=f"{predict} DATA --out scores.parquet",
        python_lines=(
            "from equipoise import load",
            f"frontier = load({str(run.path(FRONTIER))!r})",
        ),
        columns=pd.DataFrame(record.columns),
        settings=record.options.to_document() | {"task": record.task},
        versions=record.versions,
        seed=record.options.seed,
        device=record.device,
    )
