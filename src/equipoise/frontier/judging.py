"""Judging all models of one moment at once, on the device they train on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.func import functional_call

from equipoise.frontier.criteria import Criteria
from equipoise.frontier.entries import Entry
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.utility import utilities
from equipoise.metrics.ranking import rank
from equipoise.metrics.registry import find_metric
from equipoise.metrics.sample import prepare
from equipoise.metrics.utility import youden_of_ranking
from equipoise.networks.members import member_tensors
from equipoise.training import Predictor
from equipoise.training.averaged import averaged_output

#: (member, row) pairs evaluated at once: activations stay small, whatever the number of members,
#: and on a CPU larger ones cost more time (benchmarks/evaluation.py).
EVALUATED_AT_ONCE = 2**16


@torch.no_grad()
def scores_of(
    predictor: Predictor,
    x: Tensor,
    entries: Sequence[Entry],
    *,
    center: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """Scores (E, n, s) of every entry on encoded rows x (n, p), in double precision.

    s is 1 for the probability of the second of two classes and for a prediction (times ``scale``
    plus ``center``), else the number of classes. In double precision the selected model will
    predict, too.
    """
    exact = {
        name: tensor.to(x) if tensor.is_floating_point() else tensor.to(x.device)
        for name, tensor in member_tensors(predictor)
    }
    members = len(next(iter(exact.values())))
    averages = [entry.members for entry in entries if entry.is_average]
    alone = [entry.members[0] for entry in entries if not entry.is_average]
    was_training = predictor.training
    predictor.eval()
    scores = []
    for rows in torch.split(x, max(1, EVALUATED_AT_ONCE // members)):
        output = functional_call(predictor, exact, (rows.expand(members, *rows.shape),))[0]
        outputs = output[alone]
        if averages:
            averaged = averaged_output(
                output[torch.tensor(averages, device=output.device)], predictor.task
            )
            outputs = torch.cat([outputs, averaged])
        scores.append(predictor.task.score(outputs))
    predictor.train(was_training)
    return torch.cat(scores, dim=1) * scale + center


class Judge:
    """Judges scores on one set of rows; what does not depend on the scores is prepared once.

    The numbers of all models stay on the device until all are there. ``references`` names the group
    of a column that SP and EO compare with; the largest one where it names none.
    """

    def __init__(
        self,
        rows: HeldOut,
        criteria: Criteria,
        device: torch.device,
        references: Mapping[str, Hashable] | None = None,
    ) -> None:
        self._decides = rows.outcome == "binary"
        any_scores = torch.linspace(0, 1, len(rows), dtype=torch.float64, device=device)
        self._scored = prepare(any_scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        self._samples = {
            column.name: self._scored.against(column, (references or {}).get(column.name))
            for column in rows.table.columns
        }
        self._measures = [
            (find_metric(metric), self._samples[attribute])
            for metric, attribute in criteria.measures
        ]

    def __call__(self, scores: Tensor, threshold: Tensor | None = None) -> Tensor:
        """Utility, threshold and M measures of each of E models, (E, 2 + M), on the CPU.

        scores: (E, n, s). threshold: (E,), where decisions are cut; Youden's on these rows unless
        given. It is NaN unless there are two classes. With several classes a measure is the largest
        over the classes. NaN where undefined.
        """
        columns = scores.shape[-1]
        flat = scores.transpose(1, 2).flatten(0, 1)
        scored = replace(self._scored, scores=flat, ranking=rank(flat))
        utility = utilities(scored, columns)[0]
        cut = torch.full_like(utility, torch.nan)
        if self._decides:
            assert scored.y is not None
            cut = (
                youden_of_ranking(scored.ranking, scored.y, scored.weights[0])
                if threshold is None
                else threshold.to(utility)
            )
            scored = replace(scored, threshold=cut)
        found = [utility, cut]
        for metric, sample in self._measures:
            values = metric.compute(replace(sample, scored=scored)).values[0]
            found.append(values.view(-1, columns).amax(-1))
        return torch.stack([each.to(utility.device) for each in found], dim=1).cpu()
