"""The bound holds where the law is known: games played to the end on the synthetic family."""

import pytest
import torch

from experiments.theory import Game, NetworkClass, estimation_bound, study
from experiments.theory.networks import check_rows

SIZES = (25, 100, 400)
STRENGTH = 0.5


@pytest.fixture(scope="module")
def errors() -> dict[str, list[float]]:
    return study.errors(
        study.GAME,
        sizes=SIZES,
        repeats=4,
        strength=STRENGTH,
        reference_rows=1600,
        fresh_rows=2000,
        iterations=60,
        critic_iterations=60,
    )["errors"]


def test_the_error_is_below_the_bound_at_every_size(errors):
    for n in SIZES:
        bound = estimation_bound(study.GAME, n=n, strength=STRENGTH)
        assert max(errors[str(n)]) < bound.largest_possible
        assert max(errors[str(n)]) < bound.total


def test_the_error_falls_with_the_size(errors):
    means = [sum(errors[str(n)]) / 4 for n in SIZES]
    assert means[0] > 2 * means[-1]


def test_training_keeps_to_the_class_and_rows_to_the_domain():
    rows = study.draw(64, [1, 2])
    for member in range(2):
        check_rows(study.GAME, rows.x[member], rows.a[member])
    (weights,) = study.train(study.GAME, rows, strength=STRENGTH, iterations=30)
    assert weights.shape == (2, 1, 3)
    assert weights.flatten(1).norm(dim=1).max() <= study.GAME.predictor.norms[0] * (1 + 1e-6)


def test_members_play_their_games_alone():
    both = study.draw(64, [1, 2])
    second = study.draw(64, [2])
    together = study.train(study.GAME, both, strength=STRENGTH, iterations=20)
    alone = study.train(study.GAME, second, strength=STRENGTH, iterations=20)
    torch.testing.assert_close(together[0][1:], alone[0], rtol=1e-4, atol=1e-5)


def test_plain_training_finds_the_best_plain_predictor():
    # P(Y = 1 | X) has the logit 1.5 evidence + 1.2 proxy: norm 1.92, which this class just allows.
    game = Game(
        NetworkClass((2, 1), (2.0,), has_constant=True), study.GAME.critic, radius=study.RADIUS
    )
    rows = study.draw(20_000, [3])
    plain = study.train(game, rows, strength=0.0, iterations=150)
    assert plain[0][0, 0].tolist() == pytest.approx([1.5, 1.2, 0.0], abs=0.1)
    fair = study.train(game, study.draw(2000, [3]), strength=0.9, iterations=60)
    assert fair[0][0, 0, 1] < 0.6  # less of the proxy
