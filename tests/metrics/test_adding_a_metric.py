"""A toy metric, added as docs/add-a-metric.md says, obeys the common laws and is offered by all."""

import numpy as np
import pytest
import test_laws
import torch

from equipoise import audit
from equipoise.inference import bootstrap
from equipoise.metrics import METRICS, Computed, Metric, Sample, register_metric
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable

# Its value is in units of the score, so increasing transformations change it.
LAWS = [
    law
    for name, law in vars(test_laws).items()
    if name.startswith("test_") and "increasing" not in name
]


def mean_gap(sample: Sample) -> Computed:
    means = []
    for group in range(sample.attribute.n_sets):
        weights = sample.weights * sample.attribute.inside(group)
        means.append(weights @ sample.scored.scores.T / weights.sum(-1, keepdim=True))
    of_groups = torch.stack(means)
    reason = sample.empty_set(sample.everybody)
    return Computed(of_groups.amax(0) - of_groups.amin(0), (reason,) * len(sample.scored.scores))


@pytest.fixture
def metric():
    toy = Metric(
        name="mean gap",
        notion=Notion.INDEPENDENCE,
        description="Highest minus lowest mean score among the groups.",
        formula="max over a of E(score | A=a) - min over a of E(score | A=a)",
        compute=mean_gap,
        attributes=frozenset({"discrete"}),
        outcomes=frozenset({"binary", "multiclass", "continuous"}),
        needs_decisions=False,
    )
    yield register_metric(toy)
    del METRICS[toy.name]


@pytest.mark.parametrize("outcome", test_laws.OUTCOMES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_it_obeys_the_laws(metric, law, outcome):
    further = {"balanced": True} if "names" in law.__name__ else {}
    law(metric, "discrete", outcome, **further)


def test_intervals_and_audits_have_it(metric):
    sex, scores = np.arange(200) % 2, np.linspace(0, 1, 200) + np.arange(200) % 2
    (found,) = bootstrap([metric.name], scores, SensitiveTable.from_data({"sex": sex}), draws=50)
    assert found.value == pytest.approx(1 + 1 / 199)
    assert found.low < found.value < found.high
    table = audit(scores, None, {"sex": sex}, draws=20, permutations=9).to_frame()
    (value,) = table.loc[table["metric"] == metric.name, "value"]
    assert value == pytest.approx(found.value)
