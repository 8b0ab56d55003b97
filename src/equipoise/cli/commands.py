"""The command line: each command parses, calls one function, and returns its answer.

Docstrings are the help; their first line is shown in the list of commands. Commands import what
they need when they run: nothing that is loaded here may load torch, pandas or scikit-learn, so that
``--help`` answers at once.
"""

# ruff: noqa: B008 (typer reads options from the defaults)

from __future__ import annotations

import csv
import inspect
import io
import sys
import webbrowser
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from equipoise.cli.running import note, run_process
from equipoise.runs import Answer


def names(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names separated by commas, from an option that may be given several times.

    A name that holds a comma is put in double quotes, as in a CSV file.

    >>> names(["age, sex", '"last, first"'])
    ('age', 'sex', 'last, first')
    """
    if texts is None:
        return None
    lines = (io.StringIO(text, newline="") for text in texts)
    rows = (row for each in lines for row in csv.reader(each, skipinitialspace=True))
    return tuple(name for row in rows for name in row if name)


def numbers(text: str | None) -> tuple[float, ...] | None:
    """Strengths separated by commas.

    >>> numbers("0, 0.5,0.9")
    (0.0, 0.5, 0.9)
    """
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        from equipoise.errors import InputError

        raise InputError(
            f"--strengths must be numbers separated by commas, got {text!r}; for example "
            "--strengths 0,0.5,0.9"
        ) from None


def kinds(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Types of columns, ``column=discrete`` or ``column=continuous`` separated by commas.

    >>> kinds(["zip=discrete,age=continuous"])
    {'zip': 'discrete', 'age': 'continuous'}
    """
    if texts is None:
        return None
    found = {}
    for name in names(texts) or ():
        column, _, kind = name.rpartition("=")
        if not column or kind not in ("discrete", "continuous"):
            from equipoise.errors import InputError

            raise InputError(
                "--types must be column=discrete or column=continuous, separated by commas, got "
                f"{name!r}; for example --types zip=discrete"
            )
        found[column] = kind
    return found


def limits(
    name: str, most: float = float("inf")
) -> Callable[[str | None], float | dict[str, float] | None]:
    """Reader of the option ``name``: one limit, or ``column=limit`` separated by commas.

    >>> read = limits("--max-gap", most=1)
    >>> read("0.1"), read("age=0.05,sex=0.1")
    (0.1, {'age': 0.05, 'sex': 0.1})
    """

    def read(text: str | None) -> float | dict[str, float] | None:
        if text is None:
            return None
        from equipoise.errors import InputError, check_number

        parts = [part.rpartition("=") for part in names([text]) or ()]
        columns = [column for column, _, _ in parts]
        single = columns == [""] and not parts[0][1]
        try:
            found = {column: float(number) for column, _, number in parts}
        except ValueError:
            found = {}
        several = len(found) == len(columns) and all(columns)
        if not found or not (single or several):
            raise InputError(
                f"{name} must be one number, or column=number separated by commas with each column "
                f"once, got {text!r}; for example {name} 0.1 or {name} age=0.05,sex=0.1"
            )
        rule = "must be at least 0" if most > 1 else "must lie in [0, 1]"
        for column, limit in found.items():
            remedy = f"{f' for {column}' if column else ''}; for example {name} 0.05"
            check_number(name, limit, rule, lambda limit: 0 <= limit <= most, remedy)
        return found[""] if single else found

    return read


def option(metavar: str, help: str, default: Any = None, **more: Any) -> Any:
    """An option that is named as its parameter is; it is required where the default is ``...``."""
    return typer.Option(default, metavar=metavar, help=help, **more)


def columns(help: str, default: Any = None) -> Any:
    """An option that names columns."""
    return option("COLUMNS", help, default, callback=names)


def separator() -> Any:
    """The option that says what separates values."""
    return option(
        "CHARACTER",
        "Between the values of a text file, such as ';', or '\\t' for a tab.  [default: by its "
        "name, a comma for .csv]",
    )


def engine_option() -> Any:
    """The option that says where a command runs."""
    return option(
        "NAME",
        "local, or ray: on a Ray cluster, for Parquet files of any number of rows; DATA may then "
        "be a pattern in quotes, such as 'data/*.parquet'.",
        "local",
    )


def workers_option() -> Any:
    """The option that limits how many files a cluster works on."""
    return option(
        "N", "Files worked on at a time, with --engine ray.  [default: as many as it has cores]"
    )


def switch(name: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(False, name, help=help)


def flag(name: str, help: str) -> Any:
    """An option without a value whose absence can be told from a refusal."""
    return typer.Option(None, name, help=help)


def data_file(
    default: Any, help: str = "CSV, TSV, Parquet or Arrow file; text files also as .gz."
) -> Any:
    """The argument that names the data."""
    return typer.Argument(default, metavar="DATA", help=help)


if TYPE_CHECKING:
    from equipoise.cluster import Engine

Text = str | None
Whole = int | None
Real = float | None
Place = Path | None
Names = list[str] | None
# Looked at before anything is parsed (see `running`), so that even a misspelled command line is
# answered in the form that was asked for.
AsJson = Annotated[
    bool, typer.Option("--json", help="Answer with one JSON object on standard output.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder that equipoise fit wrote.")
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND",
        help="Types of sensitive columns, such as zip=discrete,age=continuous.",
        callback=kinds,
    ),
]


def fit(
    context: typer.Context,
    data: Place = data_file(None),
    target: Text = option("COLUMN", "Column to predict."),
    sensitive: Names = columns("Sensitive columns, separated by commas; never features."),
    id: Names = columns("Columns that only identify a row; never features."),
    drop: Names = columns("Columns to leave out."),
    features: Names = columns("Columns to predict from.  [default: all others]"),
    task: Text = option("TASK", "classification or regression.  [default: decided by the target]"),
    positive: Text = option(
        "LABEL",
        "Of a target with two labels, the one whose probability is the score.  [default: the "
        "second in sorted order]",
    ),
    category: Names = columns("Columns of numbers that are codes, to be read as categories."),
    weight: Text = option("COLUMN", "How much each row counts; never a feature."),
    group_split: Text = option(
        "COLUMN",
        "Person, household or other group: its rows stay together in training, validation or test "
        "rows. Not a feature unless --features names it.",
    ),
    time_split: Text = option(
        "COLUMN",
        "Numbers or dates: the latest rows are test rows, those before them validation rows. Not a "
        "feature unless --features names it.",
    ),
    sep: Text = separator(),
    notion: Text = option(
        "NOTION",
        "independence (scores alike for all) or separation (alike among people of equal outcome).  "
        "[default: independence]",
    ),
    method: Text = option("NAME", "How dependence is mitigated.  [default: sbp]"),
    predictor: Text = option(
        "KIND",
        "network, boosting (LightGBM's trees), xgboost, or both: network and boosting on one "
        "frontier.  [default: network]",
    ),
    strengths: Text = option(
        "NUMBERS",
        "Weights of the penalty in [0, 1), separated by commas.  [default: nine, from 0 to 0.995]",
        callback=numbers,
    ),
    seeds: Whole = option("N", "Models per strength.  [default: 3]"),
    iterations: Whole = option("N", "Training steps of networks.  [default: 1500]"),
    evaluate_every: Whole = option("N", "Steps of networks between snapshots.  [default: 100]"),
    rounds: Whole = option("N", "Boosting rounds of trees.  [default: 200]"),
    metrics: Names = option(
        "NAMES",
        "Metrics of unfairness, the first to pick a model by.  [default: gap,KS-GSP,SP; for "
        "separation gap given Y,KS-GEO,EO]",
        callback=names,
    ),
    types: Types = None,
    missing_sensitive: Text = option(
        "RULE",
        "error, or skip: rows whose sensitive value is missing count for the task only.  "
        "[default: error]",
    ),
    sensitive_at_prediction: bool | None = flag(
        "--sensitive-at-prediction",
        "The score may see the sensitive columns; predict then needs them. Law or policy may "
        "forbid it.",
    ),
    seed: Whole = option("N", "Same seed, same run.  [default: 0]"),
    engine: Text = option(
        "NAME",
        "local, or ray: train on a Ray cluster, from Parquet files of any number of rows; DATA may "
        "then be a pattern in quotes, such as 'data/*.parquet'.  [default: local]",
    ),
    workers: Whole = option(
        "N", "Processes that train together, with --engine ray, each on one core.  [default: 1]"
    ),
    device: Text = option("NAME", "auto, cpu or cuda, for networks.  [default: auto]"),
    max_gap: Text = option(
        "X",
        "Limit on the gap, 0.1 being 10 points, of the model that fit picks: one for every "
        "sensitive column, or one each, such as age=0.05,sex=0.1. If no model is within it, none "
        "is picked.  [default: 0.1]",
        callback=limits("--max-gap", most=1),
    ),
    max_unfairness: Text = option(
        "X",
        "The same for the first of --metrics where that is another metric.",
        callback=limits("--max-unfairness"),
    ),
    min_utility: Real = option(
        "X", "Least AUC, R2 or D2 absolute error of the model that fit picks."
    ),
    allow_nearest: bool | None = flag(
        "--allow-nearest", "If no model keeps the limits, pick the nearest and mark it."
    ),
    allow_useless: bool | None = flag(
        "--allow-useless", "Pick also among models that are no better than chance."
    ),
    favourable: Text = option(
        "SIDE", "high or low: which scores are good for the person.  [default: high]"
    ),
    decision: Text = option(
        "WORDS", "What a positive decision means, such as 'are invited'.  [default: are selected]"
    ),
    title: Text = option("TEXT", "Heading of the report.  [default: target and data file]"),
    settings: Place = option(
        "FILE", "settings.json of a run to repeat; options given here replace its own."
    ),
    out: Path = option("FOLDER", "Run folder to write.", Path("run")),
    resume: bool = switch("--resume", "Continue the unfinished run in --out."),
    overwrite: bool = switch("--overwrite", "Replace the run in --out."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Train a whole frontier on a data file and write a run folder.

    Prints how every column is read. Then it trains all strengths and seeds at once, evaluates them
    as it goes, picks a model, and writes the folder: report.html to read, the frontier to select
    from, tables, a model card, and settings.json to repeat the run.

    Ctrl-C ends training with what there is. --resume continues from the last checkpoint, also
    after a crash.

    If no model keeps the limits on the validation rows, the folder is written without a model,
    the answer says what the nearest keeps and how to take it, and the exit code is 3.

    Examples
    --------
      equipoise fit people.csv --target hired --sensitive age,sex
      equipoise fit people.csv --target hired --sensitive age,sex --max-gap age=0.05,sex=0.1
      equipoise fit people.csv --target hired --sensitive age,sex --notion separation
      equipoise fit people.csv --target hired --sensitive age,sex --predictor both
      equipoise fit people.parquet --target income --sensitive race --drop zip --id person
      equipoise fit people.csv --sep ';' --target hired --sensitive age --group-split household
      equipoise fit "data/*.parquet" --target hired --sensitive age --engine ray --workers 2
      equipoise fit --resume --out run
      equipoise fit --settings run/settings.json --out again
    """
    from equipoise.runs.fitting import fit_run

    return fit_run(
        data,
        _given(context, but=("data", "settings", "out", "resume", "overwrite")),
        settings=settings,
        out=out,
        resume=resume,
        overwrite=overwrite,
        say=note,
    )


def _with_options_of(
    other: Callable[..., Answer], *, but: Collection[str]
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Give a command the options of another one, besides those it names itself."""

    def add(command: Callable[..., Answer]) -> Callable[..., Answer]:
        own, more = (inspect.signature(each, eval_str=True) for each in (command, other))
        named = {n: each for n, each in own.parameters.items() if each.kind != each.VAR_KEYWORD}
        shared = {n: each for n, each in more.parameters.items() if n not in {*named, *but}}
        parameters = [*named.values(), *shared.values()]
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ |= {name: other.__annotations__[name] for name in shared}
        del command.__annotations__["options"]
        return command

    return add


#: Options of fit that say something about features or trees.
_NOT_FOR_SCORES = (
    *("drop", "features", "category", "predictor", "rounds", "sensitive_at_prediction"),
)


@_with_options_of(fit, but=_NOT_FOR_SCORES)
def adjust(
    context: typer.Context,
    data: Place = data_file(None),
    score: Names = columns(
        "Column of scores, of any model; of three or more classes one each, in sorted order."
    ),
    target: Text = option("COLUMN", "Column of true outcomes."),
    sensitive: Names = columns("Sensitive columns, separated by commas; predict needs them, too."),
    increasing: bool | None = flag(
        "--increasing",
        "For each value of the sensitive columns, a higher score stays higher: nobody is overtaken "
        "by somebody alike with a lower score.",
    ),
    seeds: Whole = option("N", "Models per strength.  [default: 1]"),
    settings: Place = option(
        "FILE", "settings.json of a run to repeat; options given here replace its own."
    ),
    out: Path = option("FOLDER", "Run folder to write.", Path("run")),
    resume: bool = switch("--resume", "Continue the unfinished run in --out."),
    overwrite: bool = switch("--overwrite", "Replace the run in --out."),
    **options: Any,
) -> Answer:
    """Adjust the scores of any model so that they depend less on sensitive columns.

    Trains small networks that see the score and the sensitive columns, one for each strength, and
    writes a run folder as fit does. Law or policy may forbid that a score depends on sensitive
    columns. Take scores of rows that the model was not trained on, such as scores by
    cross-validation. equipoise predict adjusts new scores; its file needs the columns of the
    scores and the sensitive columns.

    Examples
    --------
      equipoise adjust scored.csv --score chance --target hired --sensitive age,sex
      equipoise adjust scored.csv --score chance --target hired --sensitive age,sex --max-gap 0.05
      equipoise adjust scored.csv --score chance --target hired --sensitive age,sex --increasing
    """
    from equipoise.runs.fitting import fit_run

    given = _given(context, but=("data", "settings", "out", "resume", "overwrite"))
    if settings is None and not resume:
        given.setdefault("seeds", 1)
    return fit_run(
        data,
        given,
        settings=settings,
        out=out,
        resume=resume,
        overwrite=overwrite,
        say=note,
        command="adjust",
    )


def select(
    context: typer.Context,
    run: RunFolder,
    max_gap: Text = option(
        "X",
        "Limit on the gap, 0.05 being 5 points; the best utility within it is taken. One for every "
        "sensitive column, or one each, such as age=0.05,sex=0.1.",
        callback=limits("--max-gap", most=1),
    ),
    max_unfairness: Text = option(
        "X", "The same for another metric.", callback=limits("--max-unfairness")
    ),
    min_utility: Real = option(
        "X",
        "Least AUC, R2 or D2 absolute error; alone, the least unfair model that reaches it is "
        "taken.",
    ),
    metric: Text = option("NAME", "That other metric, such as ks-gsp.  [default: the run's first]"),
    attribute: Text = option("COLUMN", "The only sensitive column that counts.  [default: all]"),
    candidates: int = option(
        "N",
        "How many selections you compare by their reports before you take one; certificates then "
        "hold for all of them.",
        1,
    ),
    allow_nearest: bool = switch(
        "--allow-nearest", "If no model keeps the limits, take the nearest and mark it."
    ),
    allow_useless: bool = switch(
        "--allow-useless", "Take also models that are no better than chance, and mark them."
    ),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Take a model from the frontier of a run.

    Picks on the validation rows and reports on test rows, which neither trained nor picked it.
    Afterwards report, model card and predict are about this model. If no model keeps the limits,
    nothing changes, the error names the nearest, and the exit code is 3. Models that are no better
    than chance are not taken.

    Examples
    --------
      equipoise select run --max-gap 0.05
      equipoise select run --max-gap age=0.05,sex=0.1
      equipoise select run --max-unfairness 0.05 --metric ks-gsp --attribute age
      equipoise select run --min-utility 0.8
      equipoise select run --max-gap 0.01 --allow-nearest
    """
    from equipoise.runs.selecting import Choice, select_in_run

    given = _given(context, but=["run"])
    limit = given.pop("max_gap", None)  # as its callback returned it
    return select_in_run(run, Choice(**given), max_gap=limit)


def predict(
    run: RunFolder,
    data: Path = data_file(..., "File with the features; no sensitive column is needed."),
    out: Path = option(
        "FILE", "File to write, .parquet or .csv; with --engine ray, the folder for files.", ...
    ),
    id: Names = columns("Columns to copy beside the scores.  [default: those of the run]"),
    threshold: Real = option(
        "X", "A decision is score > threshold.  [default: that of the selection]"
    ),
    sep: Text = option(
        "CHARACTER",
        "Between the values of a text file.  [default: as at fit for a file of the same ending, or "
        "by its name]",
    ),
    engine: str = engine_option(),
    workers: Whole = workers_option(),
    overwrite: bool = switch("--overwrite", "Replace the file of scores --out."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Score a file of any size with the selected model of a run.

    The model is the one that equipoise select took last, or else the one that fit picked
    (selection.json says which, and why). Rows are read and written piece by piece. A row that
    cannot be scored is written with the reason; if none can be, that is an error.

    Examples
    --------
      equipoise predict run new_people.csv --out scores.parquet
      equipoise predict run new_people.csv --out scores.csv --id person --threshold 0.4
      equipoise predict run "people/*.parquet" --out scores --engine ray
    """
    from equipoise.runs.scoring import predict_with_run

    return predict_with_run(
        run,
        data,
        out,
        id=id,
        threshold=threshold,
        sep=sep,
        overwrite=overwrite,
        engine=cast("Engine", engine),
        workers=workers,
    )


def audit(
    context: typer.Context,
    data: Path = data_file(...),
    score: list[str] = columns("Column of scores, of any model; of several, side by side.", ...),
    sensitive: list[str] = columns("Sensitive columns, separated by commas.", ...),
    target: Text = option(
        "COLUMN", "Column of true outcomes; without it only independence is assessed."
    ),
    threshold: Real = option("X", "A decision is score > threshold.  [default: Youden's J]"),
    notion: Text = option("NOTION", "independence or separation.  [default: both]"),
    positive: Text = option("LABEL", "Label of the target that is the positive outcome."),
    favourable: Text = option(
        "SIDE", "high or low: which scores are good for the person.  [default: high]"
    ),
    decision: Text = option(
        "WORDS", "What a positive decision means, such as 'are invited'.  [default: are selected]"
    ),
    max_gap: Text = option(
        "X",
        "The limit that verdicts are about, 0.1 being 10 points: one for every sensitive column, "
        "or one each, such as age=0.05,sex=0.1.  [default: 0.1]",
        callback=limits("--max-gap", most=1),
    ),
    weight: Text = option("COLUMN", "How much each row counts."),
    types: Types = None,
    missing_sensitive: Text = option(
        "RULE", "error, or skip rows without a sensitive value.  [default: error]"
    ),
    sep: Text = separator(),
    engine: str = engine_option(),
    workers: Whole = workers_option(),
    out: Path = option("FOLDER", "Folder to write the audit to.", Path("audit")),
    overwrite: bool = switch("--overwrite", "Replace the audit in --out."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Assess how unfair the scores in a file are, how certain that is, and for whom.

    The scores may come from any model. Prints a verdict for each attribute and writes audit.html
    to read, audit.csv with every number, and audit.json. Of several columns of scores, audit.html
    shows all side by side, and audit-1.html, audit-2.html, ... show each.

    Examples
    --------
      equipoise audit scored.csv --score risk --target default --sensitive age,sex
      equipoise audit scored.csv --score risk --sensitive age --favourable low --threshold 0.5
      equipoise audit scored.csv --score old,new --target default --sensitive age --max-gap 0.05
      equipoise audit "scores/*.parquet" --score risk --sensitive age --engine ray
    """
    from equipoise.runs.auditing import audit_file

    return audit_file(
        data,
        out,
        overwrite=overwrite,
        scores=score,
        sensitive=sensitive,
        target=target,
        engine=cast("Engine", engine),
        workers=workers,
        options=_given(
            context,
            but=("data", "out", "overwrite", "score", "sensitive", "target", "engine", "workers"),
        ),
    )


def report(
    run: RunFolder,
    open: bool = switch("--open", "Open it in the browser."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Write report and model card of a run again, and print the path of the report.

    The report is one HTML file that needs no network: the answer in two sentences, the frontier
    to explore, how the selected model treats each group, how to deploy it, and what is not
    promised.

    Examples
    --------
      equipoise report run
      equipoise report run --open
    """
    from equipoise.runs.selecting import rewrite_report

    answer = rewrite_report(run)
    if open:
        open_page(Path(answer.document["report"]))
    return answer


def compare(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN", help="Run folders that equipoise fit wrote."
    ),
    out: Path = option("FILE", "Page to write.", Path("compare.html")),
    overwrite: bool = switch("--overwrite", "Replace the page --out of an earlier comparison."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Compare the frontiers of two or more runs.

    Says which run wins within the limit, or that the difference is within chance. Prints the
    hypervolume and the best utility within several limits, for every metric and sensitive column,
    and which settings differ. Writes a page with the fronts drawn over each other.

    Examples
    --------
      equipoise compare run-sbp run-hgr
      equipoise compare a b --out a-and-b.html
    """
    from equipoise.runs.comparing import compare_runs

    return compare_runs(runs, out, overwrite=overwrite)


def datasets(
    name: Text = typer.Argument(
        None, metavar="NAME", help="Describe this one.  [default: list all]"
    ),
    out: Place = option("FILE", "Write the data to this file, .csv or .parquet."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """List public data sets, describe one, or write one as a file to try fit with.

    A description needs no file and downloads none; --out needs the data.

    Examples
    --------
      equipoise datasets
      equipoise datasets adult
      equipoise datasets adult --out adult.csv
    """
    from equipoise.runs.samples import list_datasets, show_dataset

    return list_datasets(out) if name is None else show_dataset(name, out)


def demo(
    out: Path = option("FOLDER", "Folder to write to.", Path("equipoise-demo")),
    overwrite: bool = switch("--overwrite", "Replace the demo in --out."),
    open: bool = switch("--open", "Open the report in the browser."),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Train on the bundled Adult data and write a report, in about a minute on two cores.

    Nine features predict who earned more than 50 000 dollars; the sensitive attributes are age,
    which is continuous, and sex. It prints the commands that do the same.

    Examples
    --------
      equipoise demo
      equipoise demo --out my-demo --open
    """
    from equipoise.runs.samples import demonstrate

    answer = demonstrate(out, overwrite=overwrite, say=note)
    if open:
        open_page(Path(answer.document["report"]))
    return answer


def _given(context: typer.Context, *, but: Collection[str]) -> dict[str, Any]:
    """Options that were given, as their callbacks returned them."""
    others = {*but, "json", "debug"}
    return {
        name: value
        for name, value in context.params.items()
        if value is not None and name not in others
    }


def open_page(path: Path) -> None:
    """Open a page in the browser; where there is none, say so."""
    if not webbrowser.open(path.resolve().as_uri()):
        note(f"note: no browser was found; open '{path}' yourself")


#: In the order of the help. To add one, write its function and its line here.
COMMANDS = (fit, adjust, select, predict, audit, report, compare, datasets, demo)

# Plain help: lines of examples stay as they are, and nothing has to be loaded to draw boxes.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in COMMANDS:
    said = inspect.cleandoc(command.__doc__ or "")
    # typer keeps the line breaks of a paragraph that begins with this character.
    examples = said.replace("Examples\n--------", "\b\nExamples:")
    app.command(help=examples, short_help=said.partition("\n")[0])(command)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"equipoise {version('equipoise')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def equipoise(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_say_version, is_eager=True
    ),
) -> None:
    """Fair supervised learning for any sensitive attribute: from a data file to a decision.

    fit trains the whole curve of utility against unfairness and writes a run folder with a report.
    select takes a model from it, and predict scores files with that model. audit assesses scores
    of any model, and adjust mitigates what it finds. demo shows all but that on census data in
    about a minute.

    Every command answers on standard output (with --json as one JSON object) and prints everything
    else to standard error. Exit codes: 0 answered, 1 something to correct in what was asked (or
    standard output could not be written), 2 a fault of the program, 3 no model keeps the limits.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line that the process was started with, and exit."""
    sys.exit(run_process(app, sys.argv[1:] if arguments is None else arguments))
