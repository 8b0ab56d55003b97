"""fairlearn's ExponentiatedGradient around LightGBM (Agarwal et al. 2018, A Reductions Approach).

It finds a mixture of classifiers whose randomized decisions keep within a bound on the difference
between groups: demographic parity for independence, equalized odds for separation. Groups must be
discrete, so where there is a continuous attribute it gets the crossing with its quartiles, which
``setting`` says. It has no such constraint for regression: the peer is not offered for crime.

The decisions are randomized, and there are two ways to read a score from the mixture. Both are
judged, as settings of their own, so that no reading is chosen against the peer:
``score=probabilities`` is the mixture (``weights_``) of the members' probabilities, by far the
better one by AUC, though the constraint says nothing of scores away from the members' cut;
``score=decisions`` is the mixture of the members' decisions, the probability that the randomized
decision is positive: coarse, hence poor by AUC, but what the constraint is about.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.paper.plan import Cell
from experiments.peers.peer import (
    Peer,
    PeerRows,
    Scored,
    groups,
    groups_in_setting,
    missing_package,
)
from experiments.peers.plain import PARAMETERS

BOUNDS = (0.002, 0.01, 0.03, 0.1)
TREES, MOST_ITERATIONS = 100, 20


def scored(cell: Cell, rows: PeerRows) -> Iterator[Scored]:
    """One mixture for each bound, read in two ways."""
    for bound in BOUNDS:
        mixture = fitted(cell, rows, bound)
        both = [readings(mixture, x) for x in rows.held_out]
        for reading in ("probabilities", "decisions"):
            yield Scored(
                f"eps={bound:g}, score={reading}{groups_in_setting(rows.sensitive)}",
                (0,),
                tuple(found[reading][None] for found in both),
            )


def fitted(cell: Cell, rows: PeerRows, bound: float) -> Any:
    """The mixture whose decisions differ between groups by ``bound`` at most."""
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient
    from lightgbm import LGBMClassifier

    constraint = DemographicParity if cell.notion == "independence" else EqualizedOdds
    mixture = ExponentiatedGradient(
        LGBMClassifier(n_estimators=TREES, **PARAMETERS),
        constraint(difference_bound=bound),
        eps=bound,
        max_iter=MOST_ITERATIONS,
    )
    with warnings.catch_warnings():
        # What fairlearn does with pandas will not do in a later pandas.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return mixture.fit(rows.x, rows.y, sensitive_features=groups(rows.sensitive))


def readings(mixture: Any, x: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """The two scores (n,) of a mixture on rows x (n, p)."""
    used = [(number, weight) for number, weight in mixture.weights_.items() if weight > 0]
    weights = np.array([weight for _, weight in used])
    scores = np.stack([_probability_of_one(mixture.predictors_[number], x) for number, _ in used])
    # A member decides for the class of the larger probability, for 0 where they are equal.
    return {"probabilities": weights @ scores, "decisions": weights @ (scores > 0.5)}


def _probability_of_one(member: Any, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Probability of class 1, (n,).

    A member may know a single class: fairlearn takes a constant classifier where all rows would
    best be decided alike.
    """
    if 1 not in member.classes_:
        return np.zeros(len(x))
    found: NDArray[np.float64] = member.predict_proba(x)[:, list(member.classes_).index(1)]
    return found


def _versions() -> dict[str, str]:
    import fairlearn
    import lightgbm

    return {"fairlearn": fairlearn.__version__, "lightgbm": lightgbm.__version__}


PEER = Peer(
    name="exponentiated_gradient",
    settings={
        "difference_bound and eps": BOUNDS,
        "max_iter": MOST_ITERATIONS,
        "trees": TREES,
        "parameters": PARAMETERS,
    },
    offers=lambda cell: cell.scenario != "III",
    scored=scored,
    versions=_versions,
    why_not=lambda: missing_package("lightgbm") or missing_package("fairlearn"),
)
