"""Write the tables and the plot of docs/performance.md from the result files.

``python -m benchmarks.page`` replaces the text between the marks of each table; a test compares the
page with the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import environment
from equipoise.errors import InputError

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PLOT = PAGE.parent / "images" / "scaling.svg"
#: Largest load before a run on a machine that counts as quiet.
QUIET = 0.5


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def made_on(document: dict[str, Any]) -> str:
    """Device and versions of a result file."""
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return f"{document['device']}; {versions}."


def training() -> str:
    """Speed of the engine beside a plain loop."""
    parts = []
    for device in ("cpu", "cuda"):
        document = environment.read(f"training_{device}")
        rows = [["plain loop, 1 member", f"{document['plain_loop_ms']:.2f}", "1"]]
        rows += [
            [
                f"engine, {members} together",
                f"{found['ms']:.3g}",
                f"{found['times_plain_loop']:.1f}",
            ]
            for members, found in document["engine"].items()
        ]
        parts.append(markdown(["run", "ms an iteration", "member-iterations, times"], rows))
        parts.append(made_on(document))
    full = environment.read("training_cuda")["full_run_seconds"]
    parts.append(
        "The paper's plan, 25 members for 20 000 iterations judged every 100, took "
        f"{full:.1f} s on that GPU, from data frame to fronts."
    )
    return "\n\n".join(parts)


def evaluation() -> str:
    """What judging costs."""
    document = environment.read("evaluation")
    length = document["training_iterations"]
    rows = [
        [", ".join(found["attributes"]), f"{found['times_the_training'] * length:.1f}"]
        for found in document["evaluations"]
    ]
    table = markdown(["judged by", "training iterations of 25 members"], rows)
    return f"{table}\n\n{made_on(document)}"


def scaling() -> str:
    """Time and memory against members and rows."""
    document = environment.read("scaling_cpu")
    rows = []
    for size in document["sizes"]:
        counts = str(size["members"]), f"{size['rows']:,}".replace(",", " ")
        rows.append([*counts, f"{size['ms']:.1f}", f"{size['megabytes']:.0f}"])
    table = markdown(["members", "rows", "ms an iteration", "MB of the process"], rows)
    return f"{table}\n\n{made_on(document)}"


def memory() -> str:
    """Peak memory of long tables."""
    document = environment.read("memory")
    parts = ("data", "fit", "predict", "audit")
    rows = [
        [
            run["model"],
            f"{run['rows']:,}".replace(",", " "),
            *(f"{run[f'{p}_gb']:.2f}" for p in parts),
        ]
        for run in document["runs"]
    ]
    header = ["model", "rows", "table made, GB", "fitted, GB", "predicted, GB", "audited, GB"]
    return f"{markdown(header, rows)}\n\n{made_on(document)}"


def utility() -> str:
    """Test AUC of plain training beside gradient boosting."""
    document = environment.read("utility")
    names = list(next(iter(document["test_auc"].values())))
    rows = [
        [data, *(f"{mean(found[name]):.4f}" for name in names)]
        for data, found in document["test_auc"].items()
    ]
    return f"{markdown(['data', *names], rows)}\n\n{made_on(document)}"


def time_to_quality() -> str:
    """How soon the paper's values are reached."""
    document = environment.read("time_to_quality")
    targets = document["settings"]["targets"]
    rows = []
    for name, run in document["runs"].items():
        cells = [name, str(run["members"])]
        for target in targets:
            at = run["reached"].get(target)
            least = f"least {run['least'][target]:.4f} in {run['iterations']}"
            cells.append(f"{at['minutes']:.1f} min, iteration {at['iteration']}" if at else least)
        rows.append(cells)
    header = ["settings", "members", *(f"{name} <= {most}" for name, most in targets.items())]
    return f"{markdown(header, rows)}\n\n{made_on(document)}"


def boosting() -> str:
    """What fairness costs a boosted model."""
    return boosting_cost(environment.read("boosting"))


def boosting_cost(document: dict[str, Any]) -> str:
    """Say in words what boosted trees cost, and whether the limits are met."""
    most, minutes = document["limit_times_plain"], document["limit_minutes"]
    rows = []
    for notion, found in document["cost"].items():
        fits = (f"{found[f'{name}_seconds']:.2f}" for name in ("plain", "same_trees", "fair"))
        times = (f"{found[name]:.1f}" for name in ("times_plain", "times_same_trees"))
        rows.append([notion, *fits, *times])
    header = ("notion", "plain, s", "plain, same trees, s", "fair, s")
    table = markdown([*header, "times plain", "times plain, same trees"], rows)
    largest = max(found["times_plain"] for found in document["cost"].values())
    took = document["many_rows_minutes"]
    many, few = (f"{document[name]:,}".replace(",", " ") for name in ("many_rows", "rows"))
    verdicts = (
        f"One fair member on {few} rows takes at most {largest:.1f} times plain LightGBM; the "
        f"limit of {most:g} is {'met' if largest <= most else 'not met'}.",
        f"{many} rows take {took:.1f} minutes; the limit of {minutes:g} is "
        f"{'met' if took <= minutes else 'not met'}.",
    )
    settings = (
        f"{document['rounds']} rounds, strength {document['strength']:g}, medians of "
        f"{document['repeats']} neighboring pairs of fits. {made_on(document)}"
    )
    return "\n\n".join([table, " ".join(verdicts), settings])


def busy() -> str:
    """What threads take beside other busy programs."""
    document = environment.read("busy")
    rows = []
    for count, kinds in document["beside"].items():
        for name, found in kinds.items():
            quiet = document["beside"]["0"][name]["threads_ms"]
            threads, one = found["threads_ms"], found["one_thread_ms"]
            times = f"{threads / quiet:.1f}", f"{document['limits'][count]:g}"
            rows.append([name, count, f"{threads:.3g}", f"{one:.3g}", *times])
    header = ("models", "busy programs", "threads, ms", "one thread, ms", "times quiet", "limit")
    plain, load = document["plain_loop"], document["load_before"]
    least = document["least_times_plain_loop"]
    verdict = (
        f"25 of the paper's networks are {plain['times_plain_loop']:.1f} times as fast as a plain "
        f"loop over one of them; the limit of {least:g} is "
        f"{'met' if plain['times_plain_loop'] >= least else 'not met'}."
        if load <= QUIET
        else f"Other programs were busy before this run, too (load {load:g}), so it does not show "
        "whether the limits are met, only that threads are not slower than one thread beside "
        "busy programs."
    )
    made = f"{document['cores']} cores, load {load:g} before. "
    return "\n\n".join([markdown(header, rows), verdict, made + made_on(document)])


def products() -> str:
    """What is possible at all for members together on a few cores."""
    found = environment.read("products")
    rest = found["members_ms"] - found["products_ms"]
    return (
        f"An iteration of {found['members']} members multiplies matrices for {found['gflop']:.2f} "
        f"GFLOP: {found['products_ms']:.1f} ms of one core at {found['gflop_a_second']:.0f} GFLOP "
        f"a second. All else in it (normalization, ReLU, their gradients, some hundred small "
        f"calls) takes {rest:.1f} ms. A plain loop takes {found['plain_loop_ms']:.1f} ms for one "
        f"model. So {found['cores']} cores that never wait would be "
        f"{found['times_if_never_waiting']:.1f} times as fast as the loop, and "
        f"{found['times_if_only_products']:.1f} times if everything but the products were free. "
        f"Milliseconds of the processor. {made_on(found)}"
    )


def defaults() -> str:
    """What a default fit costs beside one model that trains to the end."""
    document = environment.read("defaults")
    rows = [
        [
            f"{fit['model']}, strength {fit['strength']:g}",
            f"{fit['rows']:,}".replace(",", " "),
            f"{fit['one_model_seconds']:.1f}",
            f"{fit['default_seconds']:.1f}",
            f"{fit['times']:.1f}",
        ]
        for fit in document["fits"]
    ]
    header = ("models", "rows", "one model, s", "default, s", "times")
    return f"{markdown(header, rows)}\n\n{made_on(document)}"


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        *(training, busy, evaluation, scaling, memory, utility, time_to_quality, boosting),
        *(defaults, products),
    )
}


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with each block between its marks, ``<!-- name -->`` and ``<!-- end -->``."""
    for name, text in blocks.items():
        marks = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        pairs = list(re.finditer(marks, page, flags=re.DOTALL))
        if len(pairs) != 1:
            raise InputError(
                f"the page must have the marks '<!-- {name} -->' and '<!-- end -->' once, got "
                f"{len(pairs)} pairs; put them where the block belongs"
            )
        (pair,) = pairs
        page = f"{page[: pair.end(1)]}\n{text}\n\n{page[pair.start(2) :]}"
    return page


def blocks() -> dict[str, str]:
    """Every table of docs/performance.md by the name of its mark."""
    return {name: table() for name, table in TABLES.items()}


def draw() -> None:
    """Draw time and memory against members and rows."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    sizes = environment.read("scaling_cpu")["sizes"]
    rows_kept, members_kept = sizes[0]["rows"], sizes[-1]["members"]
    by_members = [size for size in sizes if size["rows"] == rows_kept]
    by_rows = sorted(
        (size for size in sizes if size["members"] == members_kept), key=lambda size: size["rows"]
    )
    figure, axes = pyplot.subplots(2, 2, figsize=(8, 5), sharey="row", layout="constrained")
    for row, (name, label) in enumerate(
        {"ms": "ms an iteration", "megabytes": "MB of the process"}.items()
    ):
        for axis, along, found in zip(
            axes[row], ("members", "rows"), (by_members, by_rows), strict=True
        ):
            axis.plot([f[along] for f in found], [f[name] for f in found], "o-", color="black")
            axis.set(xscale="log", yscale="log", xlabel=along)
        axes[row][0].set_ylabel(label)
    axes[0][0].set_title(f"{rows_kept} rows")
    axes[0][1].set_title(f"{members_kept} members")
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Write page and plot."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), blocks()), encoding="utf-8")
    draw()


if __name__ == "__main__":
    main()
