"""Runs error-parity and equipy, in an environment that has them: peers_script.py ROWS ANSWERS.

ROWS is an .npz of score, y and group (whole numbers), the positions train to learn from, and the
constraint of error-parity. ANSWERS gets one array for each setting: decisions or, beside equalized
odds, repaired scores of all rows.
"""

import sys

import numpy as np

TOLERANCES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
SHARES = np.linspace(0, 1, 11)


def decisions(rows):
    """Decisions of error-parity, randomized per group, within a tolerance of the constraint."""
    from error_parity import RelaxedThresholdOptimizer

    score, y, group = (rows[name] for name in ("score", "y", "group"))
    train = rows["train"]
    for tolerance in TOLERANCES:
        found = RelaxedThresholdOptimizer(
            predictor=lambda X: X[:, 0],
            constraint=str(rows["constraint"]),
            tolerance=tolerance,
            max_roc_ticks=200,
            seed=0,
        )
        X = score[:, None]
        found.fit(X=X[train], y=y[train], group=group[train])
        yield f"error_parity {tolerance:g}", found(X=X, group=group)


def repaired(rows):
    """Scores of equipy: repair to the barycentre of the groups, part of the way."""
    from equipy.fairness import FairWasserstein

    score, group, train = rows["score"], rows["group"][:, None], rows["train"]
    for share in SHARES:
        found = FairWasserstein(sigma=1e-6)
        found.fit(score[train], group[train])
        yield f"equipy {share:g}", found.transform(score, group, epsilon=1 - share)


if __name__ == "__main__":
    read = dict(np.load(sys.argv[1]))
    np.random.seed(0)  # noqa: NPY002 - both packages draw from the global generator
    answers = dict(decisions(read))
    if read["constraint"] == "equalized_odds":
        answers |= repaired(read)
    np.savez(sys.argv[2], **answers)
