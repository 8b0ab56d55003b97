"""Variants for the reproduction: each has exactly the fault that it is kept for."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise import FairClassifier
from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.estimators.fitting import read_classes, training_data
from equipoise.methods import (
    METHODS,
    Context,
    Problem,
    capability_table,
    methods_for,
    parse_method,
    refuse_unsupported,
    register_method,
)
from equipoise.methods.conditional import covariance_gap
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import TASKS, Member, Predictor, TrainingData, TrainingSettings
from experiments.paper.variants import LI, VARIANTS

PAGE = Path(__file__).parents[1] / "README.md"
MEMBERS = [Member(0.5, 0), Member(0.9, 1)]


def test_variants_answer_to_their_names_and_no_list_offers_them():
    assert set(VARIANTS) == {"con_plain", "hgr_product", "neu_any_pair"}
    for name, method in VARIANTS.items():
        assert parse_method(name) is method and method.name == name
        assert method.summary.endswith(".") and not method.title.endswith(".")
    assert parse_method("li") is LI
    known = {*VARIANTS, "li"}
    assert not known & {*METHODS, *capability_table().index}
    assert not known & set(methods_for(Problem(notion=Notion.SEPARATION)))


def test_a_name_is_registered_once():
    register_method(LI, listed=False)  # the same again changes nothing
    taken = replace(LI, name="sbp")
    with pytest.raises(InputError, match="'sbp'"):
        register_method(taken)
    assert parse_method("sbp") is METHODS["sbp"] is not taken


@pytest.mark.parametrize(
    ("method", "asked", "words"),
    [
        ("hgr_product", {"notion": Notion.INDEPENDENCE}, "notion='independence'"),
        (
            "hgr_product",
            {"notion": Notion.SEPARATION, "classes": 3},
            "an outcome of more than two classes (3)",
        ),
        ("con_plain", {"notion": Notion.INDEPENDENCE}, "notion='independence'"),
        (
            "neu_any_pair",
            {"notion": Notion.SEPARATION, "classes": None},
            "a continuous outcome",
        ),
    ],
)
def test_what_a_variant_can_not_do_is_refused_with_the_methods_that_can(method, asked, words):
    problem = Problem(discrete=("sex",), groups=2, **asked)
    with pytest.raises(InputError) as refused:
        refuse_unsupported(VARIANTS[method], problem)
    assert f"method={method!r} does not support {words}" in str(refused.value)
    assert str(refused.value).endswith(", ".join(map(repr, methods_for(problem))))


def test_the_page_names_every_variant_and_its_fault():
    described = re.findall(r"^- `(\w+)`:", PAGE.read_text("utf-8"), re.MULTILINE)
    assert described == [*VARIANTS, "li"]


def simulated(n, columns=("age", "group")):
    """Rows of the synthetic family."""
    drawn = make_synthetic(n, random_state=0)
    table = SensitiveTable.from_data(drawn.A[list(columns)])
    outcome = read_classes(drawn.y.to_numpy())
    return training_data(drawn.X.to_numpy(np.float32), outcome, table, None)


# hgr_product: the product of A and Y in place of (A, Y).


def built(name, data):
    return parse_method(name).build(
        Context(
            data=data,
            members=MEMBERS,
            notion=Notion.SEPARATION,
            critic=CriticSettings(hidden=(8,)),
        )
    )


def with_attribute(data, attribute):
    return TrainingData(**(vars(data) | {"attribute": attribute}))


def penalties(name, data, score, *, steps=3):
    """Penalties (steps, K), with networks that learn from one to the next."""
    method = built(name, data)
    rows = torch.arange(len(data)).expand(len(MEMBERS), -1)
    found = [method.penalty(score, rows, rows).detach() for _ in range(steps)]
    return torch.stack(found)


@pytest.fixture(scope="module")
def rows():
    data = simulated(300)
    score = data.x[:, :1].sigmoid().expand(2, -1, -1)
    return data, score


def permuted_where(data, outcome):
    """The same A, permuted among the rows of one outcome."""
    (among,) = np.nonzero(data.target.numpy() == outcome)
    attribute = data.attribute.clone()
    attribute[among] = data.attribute[np.random.default_rng(0).permutation(among)]
    assert not torch.equal(attribute, data.attribute)
    return with_attribute(data, attribute)


def test_a_product_forgets_the_attribute_where_the_outcome_is_zero(rows):
    data, score = rows
    forgets, sees = (permuted_where(data, outcome) for outcome in (0, 1))
    before = penalties("hgr_product", data, score)
    assert torch.equal(penalties("hgr_product", forgets, score), before)
    assert (penalties("hgr_product", sees, score) - before).abs().max() > 1e-4
    # The joint variable sees both.
    joint = penalties("hgr", data, score)
    assert (penalties("hgr", forgets, score) - joint).abs().max() > 1e-4


def test_the_product_is_all_that_differs(rows):
    """Where Y is 1 throughout the product is A; only what looks at it has fewer inputs."""
    data, _ = rows
    ones = TrainingData(**(vars(data) | {"outcome": torch.ones_like(data.outcome)}))
    method = built("hgr_product", ones)
    assert torch.equal(method._partners[0], data.attribute)
    assert torch.equal(method._partners[1], ones.outcome)
    widths = {
        name: [weight.shape for weight in built(name, data).networks.parameters()]
        for name in ("hgr", "hgr_product")
    }
    q = data.attribute.shape[1]
    changed = [
        (theirs, ours)
        for theirs, ours in zip(widths["hgr_product"], widths["hgr"], strict=True)
        if theirs != ours
    ]
    assert changed == [((2, 8, q), (2, 8, q + 1))]


# neu_any_pair: sensitive features are never used.


def test_training_on_any_pairs_does_not_depend_on_the_attribute_at_all():
    drawn = make_synthetic(300, random_state=0)
    others = {
        "as it is": drawn.A,
        "permuted": drawn.A.sample(frac=1, random_state=1).set_axis(drawn.A.index),
        "of another kind": {"favourite number": np.arange(300) % 7},
        "partly missing": drawn.A["age"].where(np.arange(300) % 3 > 0),
    }

    def weights(method, A):
        model = FairClassifier(
            method=method,
            strength=0.9,
            hidden=(8, 8),
            iterations=60,
            missing_sensitive="skip",
            random_state=0,
        )
        model.fit(drawn.X, drawn.y, sensitive_features=A)
        return torch.cat([weight.flatten() for weight in model.predictor_.parameters()])

    plain, *rest = (weights("neu_any_pair", A) for A in others.values())
    assert all(torch.equal(found, plain) for found in rest)
    assert not torch.equal(weights("neu", others["permuted"]), weights("neu", drawn.A))


def test_any_two_rows_of_a_class_are_a_pair():
    data = simulated(40)
    network = StackedMLP(data.x.shape[1], (16,), 1, generators=[torch.Generator()])
    method = VARIANTS["neu_any_pair"].objective(
        Context(
            data=data,
            members=[Member(0.5, 0)],
            notion=Notion.INDEPENDENCE,
            predictor=Predictor(network, TASKS["binary"]),
            settings=TrainingSettings(iterations=1),
        )
    )
    y = data.target.numpy()
    chance = torch.arange(40)[None]
    for row in range(40):
        found, paired = method._partners(torch.full((1, 40), row), chance)
        assert paired.all()
        assert set(found[0].tolist()) == set(np.flatnonzero(y == y[row])) - {row}


def test_errors_call_the_variant_by_its_name():
    drawn = make_synthetic(100, random_state=0)
    model = FairClassifier(method="neu_any_pair", hidden=(), iterations=2, random_state=0)
    with pytest.raises(InputError) as refused:
        model.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
    assert "method='neu_any_pair'" in str(refused.value)


# con_plain: the critic without the covariance term.


def test_without_the_covariance_term_the_penalty_is_that_of_con_less_the_term():
    data = simulated(300, ["group"])
    score = (data.attribute[:, :1] + data.x[:, :1]).expand(2, -1, -1)
    numbers = torch.arange(len(data)).expand(2, -1)
    chance = numbers.flip(1)
    with_term, plain = (built(name, data) for name in ("con", "con_plain"))
    drawn = data.attribute[plain.donors(numbers, chance)]
    gap = covariance_gap(score, data.attribute[numbers], drawn, data.row_weights(numbers))
    assert (gap > 1e-3).all()
    for _ in range(3):  # the critics learn alike: the term has no weights of theirs
        total, value = (method.penalty(score, numbers, chance) for method in (with_term, plain))
        difference = total - value
        torch.testing.assert_close(difference, gap, rtol=1e-4, atol=1e-6)
