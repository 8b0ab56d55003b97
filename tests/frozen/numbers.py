"""Everything the library answers on small seeded rows, entry by entry.

An entry has a name and a value of JSON. ``estimator`` and ``frontier`` make all estimators.
What is not at the top level of the package is imported at the top of this module and nowhere else,
the command line in ``files`` apart.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch

import equipoise
from equipoise import FairFrontier, SBPPenalty, SensitiveTable, audit, load_dataset
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import METHODS, capability_table, parse_method
from equipoise.metrics import METRICS, auc, mae, measure, mse, r2, youden_threshold
from experiments.paper.variants import VARIANTS

from .data import rows

Entries = Iterator[tuple[str, Any]]

NOTIONS = ("independence", "separation")
DIVERGENCES = ("js", "kl", "chi2", "hellinger", "wasserstein")
REFUSED = "refused"
#: The outcomes that an estimator is for.
CLASSES, NUMBERS = ("two classes", "three classes"), ("numbers",)
OUTCOMES = {
    "FairClassifier": CLASSES,
    "FairRegressor": NUMBERS,
    "FairBoostingClassifier": CLASSES,
    "FairBoostingRegressor": NUMBERS,
}
THOROUGHLY = (("FairClassifier", "two classes"), ("FairBoostingRegressor", "numbers"))
#: Methods that need the sensitive features to predict.
NEED_ATTRIBUTES = ("scutari",)
#: One model that trains on all rows, which was the default then.
_ALONE = {"members": 1, "early_stopping": None}
_NETWORK = {
    "hidden": (8,),
    "critic_hidden": (8,),
    "iterations": 30,
    "learning_rate": 0.01,
    "device": "cpu",
    "batch_size": 300,
    "weight_decay": 1.0,
    "linear_path": False,
    **_ALONE,
}
#: The defaults of LightGBM, which were ours then.
_LEAVES = {
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "lambda_l2": 0.0,
    "cat_smooth": 10.0,
    "cat_l2": 10.0,
}
_TREES = {"critic_hidden": (8,), "rounds": 6, "learning_rate": 0.05, "lightgbm": _LEAVES, **_ALONE}


def estimator(kind: str, **options: Any) -> Any:
    """Return a small estimator of the class called ``kind``, with the options its method reads."""
    small = _TREES if "Boosting" in kind else _NETWORK
    method = parse_method(options.get("method", "sbp"))
    given = {**small, "random_state": 3, **options}
    if "lightgbm" in options:
        given["lightgbm"] = {**_LEAVES, **options["lightgbm"]}
    if kind == "FairEncoder":  # it is one network, without a linear path
        del given["members"], given["linear_path"]
    if options.get("optimizer") == "sgd":  # it has no weight decay
        del given["weight_decay"]
    if "network" in options:  # it has layers of its own
        del given["hidden"], given["linear_path"]
    return getattr(equipoise, kind)(**{n: v for n, v in given.items() if method.reads(n)})


def frontier(predictor: str, outcome: str, **options: Any) -> FairFrontier:
    """Return a small frontier of "network", "boosting" or "both" for an outcome of ``rows``.

    It is judged by the paper's metrics, which were the default then, unless others are named.
    """
    own = {name: options.pop(name) for name in ("notion", "method") if name in options}
    task = "Regressor" if outcome == "numbers" else "Classifier"
    kinds = (f"Fair{task}", f"FairBoosting{task}")
    models = [estimator(kind, random_state=None, **own) for kind in kinds]
    of_paper = ("KS-GEO", "EO") if own.get("notion") == "separation" else ("KS-GSP", "SP")
    metrics = of_paper if outcome == "two classes" else of_paper[:1]
    small: dict[str, Any] = {"strengths": (0.0, 0.5), "seeds": 2, "random_state": 3}
    small["metrics"] = metrics
    if predictor == "both":
        return FairFrontier(models, evaluate_every=[10, 3], **{**small, **options})
    trees = predictor == "boosting"
    return FairFrontier(models[trees], evaluate_every=[10, 3][trees], **{**small, **options})


def scores_of(model: Any, features: pd.DataFrame, attributes: Any = None) -> dict[str, Any]:
    """First scores of a fitted model, their mean and their spread, and its first predictions."""
    needed = {} if attributes is None else {"sensitive_features": attributes}
    if hasattr(model, "transform"):
        scores, predicted = np.asarray(model.transform(features)), None
    elif hasattr(model, "predict_proba"):
        scores = model.predict_proba(features, **needed)
        predicted = model.predict(features, **needed)[:20]
        if scores.shape[1] == 2:
            scores = scores[:, 1]
    else:
        scores, predicted = model.predict(features, **needed), None
    return {
        "scores": scores[:20],
        "mean": scores.mean(axis=0),
        "std": scores.std(axis=0),
        "predicted": predicted,
    }


def trained(model: Any, features: Any, y: Any, attributes: Any, **fitting: Any) -> Any:
    """Fit and tell scores, health and history; or that it was refused."""
    needs = getattr(model, "method", None) in NEED_ATTRIBUTES
    try:
        model.fit(features, y, sensitive_features=attributes, **fitting)
    except InputError:
        return REFUSED
    return {
        **scores_of(model, features, attributes if needs else None),
        "health": asdict(model.health_),
        "history": asdict(model.history_),
        "sensitive": str(model.sensitive_),
    }


def of_estimator(kind: str, outcomes: tuple[str, ...], **options: Any) -> Entries:
    """Every method under every notion, with and without weights of the rows.

    With the first kind of attributes that it supports, mixed ones leading; THOROUGHLY with all.
    """
    found = rows()
    for method in (*METHODS, "li", *VARIANTS):
        for notion in NOTIONS:
            for outcome in outcomes:
                given = (found.features, found.outcomes[outcome])
                weighted = None
                for attribute, table in found.attributes.items():
                    model = estimator(kind, method=method, notion=notion, **options)
                    name = f"{kind} {method} {notion} {outcome} {attribute}"
                    if weighted is not None and (kind, outcome) not in THOROUGHLY:
                        continue
                    value = trained(model, *given, table)
                    yield name, value
                    if value != REFUSED and weighted is None:
                        weighted = attribute
                        again = estimator(kind, method=method, notion=notion, **options)
                        weights = {"sample_weight": found.weights}
                        yield f"{name} weighted", trained(again, *given, table, **weights)


def networks() -> Entries:
    for kind in ("FairClassifier", "FairRegressor"):
        yield from of_estimator(kind, OUTCOMES[kind])


def trees() -> Entries:
    for kind in ("FairBoostingClassifier", "FairBoostingRegressor"):
        yield from of_estimator(kind, OUTCOMES[kind])
    found = rows()
    given = (found.features, found.outcomes["two classes"], found.attributes["mixed"])
    for name, options in {
        "plain": {"strength": 0.0},
        "early stopping": {"early_stopping": 2, "rounds": 12},
        "no warm-up": {"warmup": 0, "strength": 0.9},
        "LightGBM's options": {"lightgbm": {"num_leaves": 4}},
    }.items():
        model = estimator("FairBoostingClassifier", **options)
        yield f"FairBoostingClassifier {name}", trained(model, *given)


def encoders() -> Entries:
    small = {"encoder_hidden": (4,), "critic_steps": 2}
    yield from of_estimator("FairEncoder", CLASSES[:1], **small)
    yield from (
        (f"{name} as numbers", value)
        for name, value in of_estimator("FairEncoder", NUMBERS, task="regression", **small)
    )


def options() -> Entries:
    """The options of networks, one at a time."""
    found = rows()
    mixed = found.attributes["mixed"]
    given = (found.features, found.outcomes["two classes"], mixed)
    cases: dict[str, dict[str, Any]] = {
        "strength 0": {"strength": 0.0},
        "strength 0.95": {"strength": 0.95},
        **{f"scaling {name}": {"scaling": name} for name in ("minmax", "standard", "none")},
        "no embedding": {"embedding": "none"},
        "batch normalisation": {"normalization": "batch"},
        "spectral critic": {"critic_normalization": "spectral"},
        "three critic steps": {"critic_steps": 3},
        "sgd": {"optimizer": "sgd", "learning_rate": 0.05, "critic_learning_rate": 0.05},
        "constant rate": {"schedule": "constant"},
        "linear": {"hidden": ()},
        "own network": {"network": torch.nn.Linear, "embedding": "none"},
        "small batches": {"batch_size": 64},
    }
    for divergence in DIVERGENCES:
        slope = {"gradient_penalty": 10.0} if divergence == "wasserstein" else {}
        for notion in NOTIONS:
            name = f"divergence {divergence} {notion}"
            cases[name] = {"divergence": divergence, "notion": notion, **slope}
    for name, changed in cases.items():
        yield f"FairClassifier {name}", trained(estimator("FairClassifier", **changed), *given)
    for loss in ("absolute", "huber"):
        model = estimator("FairRegressor", loss=loss)
        yield f"FairRegressor {loss}", trained(model, given[0], found.outcomes["numbers"], mixed)
    for ratio in ("auto", "counts", "network", "none"):
        for attribute in ("discrete", "continuous"):
            model = estimator("FairClassifier", notion="separation", density_ratio=ratio)
            value = trained(model, *given[:2], found.attributes[attribute])
            yield f"FairClassifier density ratio {ratio} {attribute}", value
    unknown = mixed.copy()
    unknown.loc[::7, "age"] = np.nan
    for kind in ("FairClassifier", "FairBoostingClassifier"):
        model = estimator(kind, missing_sensitive="skip")
        yield f"{kind} missing attributes", trained(model, *given[:2], unknown)
    holes = found.features.copy()
    holes.loc[::5, "height"] = np.nan
    for kind in ("FairClassifier", "FairBoostingClassifier"):
        yield f"{kind} missing features", trained(estimator(kind), holes, *given[1:])
    small = {"random_state": 3, "device": "cpu", "iterations": 20}
    for kind, outcome in (("FairClassifier", "two classes"), ("FairRegressor", "numbers")):
        model = getattr(equipoise, kind).as_in_paper(**small)
        yield f"{kind} as in paper", trained(model, given[0], found.outcomes[outcome], mixed)


def frontiers() -> Entries:
    # Metrics of separation need validation rows in every tenth of age and class.
    found = rows(900)
    parts = {"validation": 0.35, "test": 0.35}
    cases: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        f"{predictor} {outcome} {notion}": (predictor, outcome, "mixed", {"notion": notion})
        for predictor in ("network", "boosting")
        for outcome in (*CLASSES, *NUMBERS)
        for notion in NOTIONS
    }
    for outcome in ("two classes", "numbers"):
        for notion in NOTIONS:
            changed = {"notion": notion, "metrics": "default"}
            cases[f"by the gap {outcome} {notion}"] = ("network", outcome, "mixed", changed)
    cases["both"] = ("both", "two classes", "mixed", {})
    cases["both numbers"] = ("both", "numbers", "mixed", {"ensemble": True})
    for predictor in ("network", "boosting"):
        changed = {"ensemble": True, "metrics": ("KS-GSP", "SP")}
        cases[f"{predictor} averages"] = (predictor, "two classes", "discrete", changed)
        cases[f"{predictor} weighted"] = (predictor, "two classes", "mixed", {})
        cases[f"{predictor} hsic"] = (predictor, "two classes", "mixed", {"method": "hsic"})
    for name, (predictor, outcome, attribute, changed) in cases.items():
        fitted = frontier(predictor, outcome, **parts, **changed).fit(
            found.features,
            found.outcomes[outcome],
            sensitive_features=found.attributes[attribute],
            sample_weight=found.weights if name.endswith("weighted") else None,
        )
        for part, value in curve_of(fitted, found.features, found.attributes[attribute]):
            yield f"FairFrontier {name}: {part}", value


def curve_of(fitted: FairFrontier, features: pd.DataFrame, attributes: pd.DataFrame) -> Entries:
    """All that a fitted frontier answers."""
    table = fitted.table()
    yield "table", table
    members = fitted.members()
    # A healthy member said so in one word then.
    yield (
        "members",
        members.assign(health=members["health"].str.replace(r"^healthy:.*", "healthy", regex=True)),
    )
    history = fitted.history_
    families = history if isinstance(history, dict) else {"": history}
    yield "history", {name: asdict(each) for name, each in families.items()}
    split = fitted.split_
    for part in ("train", "validation", "test"):
        places = np.asarray(split[part] if isinstance(split, dict) else getattr(split, part))
        yield f"{part} rows", [places[:20], len(places), places.sum()]
    yield "words", [fitted.utility_, str(fitted.sensitive_)]
    for attribute in attributes:
        yield f"front {attribute}", fitted.front(attribute=attribute)
        yield f"hypervolume {attribute}", fitted.hypervolume(attribute=attribute)
    kept = table[table["on_front"]]
    least = round(float(kept["utility"].quantile(0.4)), 3)
    firsts = [next(c for c in table if c.endswith(f" {name}")) for name in attributes]
    most = math.ceil(100 * kept[firsts].max(axis=1).median()) / 100
    for wish in ({"max_unfairness": most}, {"min_utility": least, "candidates": 3}):
        name = f"select by {next(iter(wish))}"
        try:
            chosen = fitted.select(**wish, draws=30)
        except InputError:  # KS-GEO of numbers picks nothing: no fair score satisfies it
            yield name, REFUSED
            continue
        told = ("snapshot", "strength", "seed", "iteration", "threshold", "predictor", "averaged",
                "picked_among", "validation_rows", "test_rows", "holds_on_test")  # fmt: skip
        yield name, {field: getattr(chosen, field) for field in told}
        yield f"{name}, report", [chosen.to_frame(), str(chosen)]
        yield f"{name}, scores", scores_of(chosen.model, features)


def penalty() -> Entries:
    """Values and slopes of the penalty in double precision, over a few calls."""
    random = np.random.default_rng(5)
    a = torch.from_numpy(random.normal(size=(64, 2)))
    y = torch.from_numpy((random.normal(size=64) > 0).astype(float))
    weight = torch.from_numpy(random.integers(1, 4, 64).astype(float))
    noise = torch.from_numpy(random.normal(size=64))
    for notion in NOTIONS:
        for divergence in DIVERGENCES:
            for weighted in (False, True):
                made = SBPPenalty(
                    notion,
                    divergence,
                    hidden=(8,),
                    gradient_penalty=10.0 if divergence == "wasserstein" else 0.0,
                )
                score = (a[:, 0] + noise).requires_grad_()
                given = (score, a, *([y] if notion == "separation" else []))
                extra = {"sample_weight": weight} if weighted else {}
                values = [made(*given, **extra) for _ in range(4)]
                values[-1].backward()
                name = f"SBPPenalty {notion} {divergence}{' weighted' if weighted else ''}"
                yield name, {"values": [v.item() for v in values], "slope": score.grad[:20]}


def metrics() -> Entries:
    """Every metric of fixed scores, by attribute and outcome, and the measures of utility."""
    found = rows()
    random = np.random.default_rng(11)
    table = SensitiveTable.from_data(found.attributes["mixed"])
    signal = found.outcomes["numbers"]
    scores = np.stack([signal + 5 * random.normal(size=300), found.features["width"]]).round(2)
    yield "METRICS", sorted(METRICS)
    for metric in METRICS:
        for attribute in ("age", "group"):
            for outcome, y in {"none": None, **found.outcomes}.items():
                for weights in (None, found.weights):
                    name = f"{metric} {attribute} {outcome}{'' if weights is None else ' weighted'}"
                    try:
                        value = measure(metric, scores, table[attribute], y, weights=weights)
                    except InputError:
                        yield name, REFUSED
                    else:
                        yield name, {"values": value.values, "reasons": value.reasons}
    two = found.outcomes["two classes"]
    yield "auc", auc(scores, two)
    yield "threshold", youden_threshold(scores, two)
    yield "errors", [measure_of(scores, signal) for measure_of in (mae, mse, r2)]


def audits() -> Entries:
    found = rows()
    scores = (found.outcomes["numbers"] / 10 + found.features["width"]).to_numpy().round(3)
    few = {"draws": 20, "permutations": 49, "random_state": 1}
    cases: dict[str, tuple[Any, str, dict[str, Any]]] = {
        **{outcome: (found.outcomes[outcome], "mixed", {}) for outcome in found.outcomes},
        "no outcome": (None, "mixed", {}),
        "low is good": (found.outcomes["two classes"], "discrete", {"favourable": "low"}),
        "threshold": (found.outcomes["two classes"], "two groups", {"threshold": 5.0}),
        "references": (
            found.outcomes["two classes"],
            "mixed",
            {"references": {"group": "west"}, "candidates": 4},
        ),
    }
    for name, (y, attribute, changed) in cases.items():
        if name == "three classes":
            changed = {"positive": "high"}
        result = audit(scores, y, found.attributes[attribute], **few, **changed)
        document = json.loads(result.to_json())
        del document["versions"], document["source"]["made"]
        table = result.to_frame()
        # One bootstrap of utility took the place of two; its draws of the AUC are others.
        table.loc[table["metric"] == "AUC", ["low", "high"]] = np.nan
        yield f"audit {name}: table", table
        yield f"audit {name}: document", {k: v for k, v in document.items() if k != "rows"}
        yield f"audit {name}: summary", str(result)
        yield f"audit {name}: distributions", [result.histograms, result.bands]


def datasets() -> Entries:
    for task in ("classification", "regression"):
        data = make_synthetic(50, task=task, random_state=2)
        first = [data.X.head(5), np.asarray(data.y)[:5], data.A.head(5)]
        yield f"synthetic {task}", first
        truth = [getattr(data.truth, "ks_gsp")(name) for name in data.A]  # noqa: B009
        yield f"synthetic {task}, truth", truth
    for name in ("adult", "crime", "synthetic"):
        data = load_dataset(name)
        yield f"data set {name}", [data.X.head(5), np.asarray(data.y)[:5], data.A.head(5)]
        yield f"data set {name}, words", [repr(data), len(data.X)]


def capabilities() -> Entries:
    for row in capability_table().reset_index().to_dict("records"):
        yield f"capabilities of {row['method']}", row


#: Every group of entries; those of EXACT need no products of single precision.
GROUPS: dict[str, Callable[[], Entries]] = {
    group.__name__: group
    for group in (capabilities, datasets, metrics, penalty, audits, options, networks,
                  encoders, trees, frontiers)
}  # fmt: skip
EXACT = ("capabilities", "datasets", "metrics", "penalty", "audits")


def compute(group: str) -> dict[str, Any]:
    """Return the entries of a group, as JSON would give them back."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: plain(value) for name, value in GROUPS[group]()}


def plain(value: Any) -> Any:
    """The same content in types that JSON has; numbers that it lacks become their names."""
    if isinstance(value, pd.DataFrame):
        return {str(name): plain(value[name].tolist()) for name in value}
    if isinstance(value, torch.Tensor):
        return plain(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int) else str(value)


def difference(before: Any, now: Any) -> float:
    """Largest |a - b| / (1 + |a|) of the numbers in two values; infinite where all else differs.

    Sentences may be edited: texts with a blank in them agree. What is new in ``now`` may be there.
    """
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() <= now.keys():
        return max((difference(before[key], now[key]) for key in before), default=0.0)
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return max((difference(a, b) for a, b in zip(before, now, strict=True)), default=0.0)
    if isinstance(before, float) and isinstance(now, float):
        return abs(before - now) / (1 + abs(before))
    if isinstance(before, str) and isinstance(now, str) and " " in before and " " in now:
        return 0.0
    return 0.0 if type(before) is type(now) and before == now else math.inf
