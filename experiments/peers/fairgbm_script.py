"""Train FairGBM on arrays from one file and write scores into another: ``given.npz found.npz``.

Runs in an environment with fairgbm and the NumPy it needs, so it imports nothing else. Given: x
(n, p), y (n,), groups (n,), grid (G, 2) of the multipliers' learning rate and the tolerance, checks
(E,) of rounds, and any of validation, test (m, p). Found: for each of the latter scores (G, E, m).
"""

import sys

import fairgbm
import numpy as np


def main(given, found):
    with np.load(given) as file:
        arrays = dict(file)
    parts = {name: arrays[name] for name in ("validation", "test") if name in arrays}
    scores = {name: [] for name in parts}
    checks = [int(check) for check in arrays["checks"]]
    for rate, tolerance in arrays["grid"]:
        model = fairgbm.FairGBMClassifier(
            n_estimators=max(checks),
            multiplier_learning_rate=float(rate),
            constraint_type="FPR,FNR",
            constraint_fpr_tolerance=float(tolerance),
            constraint_fnr_tolerance=float(tolerance),
            random_state=0,
            n_jobs=1,
        )
        model.fit(arrays["x"], arrays["y"], constraint_group=arrays["groups"])
        for name, x in parts.items():
            scores[name].append([_scores(model, x, check) for check in checks])
    np.savez(found, **{name: np.array(values) for name, values in scores.items()})


def _scores(model, x, check):
    """Probability of class 1, the last column, (m,)."""
    return model.predict_proba(x, num_iteration=check)[:, -1]


if __name__ == "__main__":
    main(*sys.argv[1:])
