"""Write the tables and the figure of docs/theory.md from experiments/results/theory.json.

``python -m experiments pages`` replaces what stands between the marks of each table; a test
holds the page to the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import mean
from typing import Any

from benchmarks.page import filled, made_on, markdown
from experiments import RESULTS, ROOT

PAGE = ROOT / "docs" / "theory.md"
PLOT = PAGE.parent / "figures" / "theory-bound.svg"
#: An error one would like to be sure of.
_SMALL = 0.1


def bound_and_error() -> str:
    """Bounds beside measured errors, by number of rows."""
    document = read_results()
    rows = []
    for found in document["bounds"]:
        errors = document["errors"][str(found["n"])]
        rows.append(
            [
                _count(found["n"]),
                f"{mean(errors):.5f}",
                f"{max(errors):.5f}",
                f"{found['estimated']['total']:.2f}",
                f"{found['corrected']:.2f}",
                f"{found['printed']:.0f}",
            ]
        )
    header = [
        "rows",
        "mean error",
        "largest error",
        "ours, complexities estimated",
        "ours",
        "printed",
    ]
    first = document["bounds"][0]
    times = [
        found["corrected"] / max(document["errors"][str(found["n"])])
        for found in document["bounds"]
    ]
    return "\n\n".join(
        [
            markdown(header, rows),
            f"Our bound is {_power(min(times))} to {_power(max(times))} times the largest error. "
            f"No error can exceed {first['largest_possible']:.2f} here; our bound is below that "
            f"from {_power(first['rows_needed'])} rows on, the printed one from "
            f"{_power(first['rows_needed_printed'])}. The smallest objective found is "
            f"{document['least_objective']:.4f}; training on "
            f"{_count(document['settings']['reference_rows'])} rows ended "
            f"{document['reference_above_least']:.5f} above it.",
            made_on(document),
        ]
    )


def terms() -> str:
    """What each term contributes, at the largest number of rows."""
    found = read_results()["bounds"][-1]
    names = {
        "loss_complexity": "task, complexity",
        "loss_confidence": "task, confidence",
        "penalty_complexity": "penalty, complexity",
        "penalty_confidence": "penalty, confidence",
    }
    rows = [[words, f"{found[name]:.3f}"] for name, words in names.items()]
    return markdown([f"term at {found['n']} rows", "value"], rows)


def complexities() -> str:
    """Rademacher complexities from above and from below."""
    rows = []
    for found in read_results()["bounds"]:
        cells = [_count(found["n"])]
        for name in ("predictor", "pair"):
            low, error = found["estimated"][name], found["estimated"][f"{name}_error"]
            cells += [f"{found['closed_form'][name]:.4f}", f"{low:.4f} ± {error:.4f}"]
        rows.append(cells)
    header = ["rows", "predictors, closed form", "estimated", "pairs, closed form", "estimated"]
    return markdown(header, rows)


def paper_sized() -> str:
    """The bound around trained networks of the paper's sizes."""
    found = read_results()["paper_sized"]
    rows = [
        [
            "Lipschitz constant of the trained predictor, by spectral norms",
            f"{found['lipschitz_of_the_fitted']:.1f}",
        ],
        [
            "Lipschitz constant of its class, by Frobenius norms",
            f"{found['lipschitz_of_the_class']:.0f}",
        ],
        ["largest score seen", f"{found['largest_score_seen']:.1f}"],
        ["largest score in the class", f"{found['score_bound']:.0f}"],
        ["largest critic output in the class", f"{found['critic_bound']:.0f}"],
        [f"our bound at {found['n']} rows", f"{found['corrected']:.0f}"],
        ["largest error possible in the class", f"{found['largest_possible']:.0f}"],
        ["rows until the bound is below that", _power(found["rows_needed"])],
        [
            f"rows until the bound is below {_SMALL}",
            _power(found["n"] * (found["corrected"] / _SMALL) ** 2),
        ],
    ]
    return markdown(["", "value"], rows)


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table for table in (bound_and_error, terms, complexities, paper_sized)
}


def draw() -> None:
    """Draw bounds and errors against the number of rows, in grey tones."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    document = read_results()
    sizes = [found["n"] for found in document["bounds"]]
    pyplot.rcParams["svg.hashsalt"] = "theory"
    figure, axes = pyplot.subplots(figsize=(7, 4.6), layout="constrained")
    lines = {
        "printed constants": ([found["printed"] for found in document["bounds"]], "0.55", "-^", 0),
        "our constants": ([found["corrected"] for found in document["bounds"]], "black", "-s", 4),
        "our constants, complexities\nestimated from below": (
            [found["estimated"]["total"] for found in document["bounds"]],
            "black",
            "--D",
            -8,
        ),
    }
    for label, (values, grey, style, up) in lines.items():
        axes.plot(sizes, values, style, color=grey, markersize=5)
        axes.annotate(
            label,
            (sizes[-1], values[-1]),
            xytext=(9, up),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    possible = document["bounds"][0]["largest_possible"]
    axes.axhline(possible, color="0.4", linestyle=":")
    axes.annotate(
        "no error can be larger",
        (sizes[0], possible),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        fontsize="small",
    )
    errors = [document["errors"][str(n)] for n in sizes]
    for n, values in zip(sizes, errors, strict=True):
        # What is 0 is the smallest objective found itself and has no place on this axis.
        shown = [value for value in values if value > 0]
        axes.plot([n] * len(shown), shown, "o", color="0.65", markersize=4)
    means = [mean(values) for values in errors]
    axes.plot(sizes, means, color="0.3", marker="o", markersize=6)
    axes.annotate(
        "error: mean, and\neach sample",
        (sizes[-1], means[-1]),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
    )
    axes.set(xscale="log", yscale="log", xlabel="rows n", ylabel="estimation error")
    axes.set_xlim(sizes[0] / 1.5, sizes[-1] * 16)
    axes.set_xticks(sizes, [_count(n) for n in sizes])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def blocks() -> dict[str, str]:
    """Every table by the name of its mark."""
    return {name: table() for name, table in TABLES.items()}


def main() -> None:
    """Write page and figure."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page, blocks()), encoding="utf-8")
    draw()


def read_results() -> dict[str, Any]:
    """The results."""
    found: dict[str, Any] = json.loads((RESULTS / "theory.json").read_text("utf-8"))
    return found


def _count(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def _power(number: float) -> str:
    """A large number for readers, 3 400 or 2 × 10^10."""
    if number < 1e6:
        return _count(float(f"{number:.2g}"))
    mantissa, exponent = f"{number:.0e}".split("e")
    return f"{mantissa} × 10^{int(exponent)}"
