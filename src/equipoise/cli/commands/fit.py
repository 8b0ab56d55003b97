"""``equipoise fit``: train the whole frontier on a data file and write a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer, note
from equipoise.cli.command import AsJson, Command, Debug
from equipoise.cli.values import kinds, names, numbers

_Columns = list[str] | None


def fit(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="CSV, TSV, Parquet or Arrow file; .gz of the text formats."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to predict.")] = None,
    sensitive: Annotated[
        _Columns,
        typer.Option(
            metavar="COLUMNS", help="Sensitive columns, separated by commas; never features."
        ),
    ] = None,
    id: Annotated[
        _Columns, typer.Option(metavar="COLUMNS", help="Columns that only name a row.")
    ] = None,
    drop: Annotated[_Columns, typer.Option(metavar="COLUMNS", help="Columns to leave out.")] = None,
    features: Annotated[
        _Columns,
        typer.Option(
            metavar="COLUMNS", help="Columns to predict from.  [default: all that are left]"
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK", help="classification or regression.  [default: what the target is]"
        ),
    ] = None,
    notion: Annotated[
        str | None,
        typer.Option(
            metavar="NOTION",
            help="independence (scores alike for all) or separation (alike among people of equal "
            "outcome).  [default: independence]",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How dependence is mitigated.  [default: sbp]"),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="network, boosting (LightGBM's trees) or both, on one frontier.  "
            "[default: network]",
        ),
    ] = None,
    strengths: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Weights of the penalty in [0, 1), separated by commas.  [default: nine, from 0 "
            "to 0.995]",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Models per strength.  [default: 5]")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(metavar="N", help="Training steps of networks.  [default: 1500]")
    ] = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps of networks between snapshots.  [default: 100]"),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Boosting rounds of trees.  [default: 400]"),
    ] = None,
    metrics: Annotated[
        _Columns,
        typer.Option(
            metavar="NAMES",
            help="Metrics of unfairness.  [default: KS-GSP,SP or, separation, KS-GEO,EO]",
        ),
    ] = None,
    types: Annotated[
        _Columns,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Types of sensitive columns, such as zip=discrete,age=continuous.",
        ),
    ] = None,
    missing_sensitive: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="error, or skip: rows whose sensitive value is missing count for the task only.  "
            "[default: error]",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Same seed, same run.  [default: 0]")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, cpu or cuda, for networks.  [default: auto]"),
    ] = None,
    max_unfairness: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Most of the first metric, for every sensitive column, that the model picked at "
            "the end may have; the nearest is picked if none keeps it.  [default: 0.1]",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="settings.json of another run: repeat it; options given change it."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Run folder to write.")] = Path("run"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Train a whole frontier on a data file and write a run folder.

    Says how every column is read before it trains, then trains all strengths and seeds at once,
    judges them as it goes, picks a model, and writes the folder: report.html to read, the frontier
    to select from, tables, a model card, and settings.json to repeat it.

    Ctrl-C ends training with what there is; --resume goes on from the last checkpoint, also after
    a crash.
    """
    from equipoise.runs.fitting import FitRequest, fit_run

    given = {
        "target": target,
        "sensitive": names(sensitive),
        "id": names(id),
        "drop": names(drop),
        "features": names(features),
        "task": task,
        "notion": notion,
        "method": method,
        "predictor": predictor,
        "strengths": numbers(strengths, "--strengths"),
        "seeds": seeds,
        "iterations": iterations,
        "evaluate_every": evaluate_every,
        "rounds": rounds,
        "metrics": names(metrics),
        "types": kinds(types),
        "missing_sensitive": missing_sensitive,
        "seed": seed,
        "device": device,
        "max_unfairness": max_unfairness,
    }
    request = FitRequest(
        data=data,
        given={name: value for name, value in given.items() if value is not None},
        settings=settings,
        out=out,
        resume=resume,
        overwrite=overwrite,
    )
    ended = fit_run(request, say=note, verbose=1)
    return Answer(ended.summary(), ended.to_document(), code=1 if ended.interrupted else 0)


COMMAND = Command(
    fit,
    examples=(
        "equipoise fit people.csv --target hired --sensitive age,sex",
        "equipoise fit people.csv --target hired --sensitive age,sex --notion separation",
        "equipoise fit people.csv --target hired --sensitive age,sex --predictor both",
        "equipoise fit people.parquet --target income --sensitive race --drop zip --id person",
        "equipoise fit --resume --out run",
        "equipoise fit --settings run/settings.json --out again",
    ),
)
