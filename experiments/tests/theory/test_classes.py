"""Classes of networks: what is in them, and how large their outputs can be."""

import math

import pytest
import torch

from equipoise.errors import InputError
from experiments.theory import DenseNetwork, Game, NetworkClass
from experiments.theory.networks import critic_outputs, game_scores, on_spheres


def dense(*layers: tuple[list[list[float]], list[float]]) -> DenseNetwork:
    return DenseNetwork(
        tuple(torch.tensor(weight).double() for weight, _ in layers),
        tuple(torch.tensor(bias).double() for _, bias in layers),
    )


WITH_BIAS = dense(([[1.0, 2.0], [0.0, 2.0]], [2.0, -1.0]), ([[3.0, -1.0]], [0.5]))


def test_norms_by_hand_without_a_bias():
    network = dense(([[1.0, 2.0], [0.0, 2.0]], [0.0, 0.0]), ([[3.0, 4.0]], [0.0]))
    own = NetworkClass.around(network)
    assert own == NetworkClass((2, 2, 1), (3.0, 5.0))
    assert own.lipschitz == 15 and own.activations == 1
    assert own.largest_output(2.0) == 30
    assert own.shapes == ((2, 2), (1, 2))


def test_norms_by_hand_with_a_bias():
    own = NetworkClass.around(WITH_BIAS)
    # 1 + 4 + 4 weights, 4 + 1 biases, 1 for the constant handed on; 9 + 1 and 0.25 at the end.
    assert own.norms == pytest.approx((math.sqrt(15), math.sqrt(10.25)))
    assert own.has_constant and own.shapes == ((3, 3), (1, 3))
    assert own.largest_output(1.0) == pytest.approx(math.sqrt(15 * 10.25 * 2))


def test_a_layer_with_a_bias_is_one_that_sees_a_constant():
    first, last = zip(WITH_BIAS.weights, WITH_BIAS.biases, strict=True)
    below = torch.tensor([[0.0, 0.0, 1.0]]).double()
    stack = [
        torch.cat([torch.cat([first[0], first[1][:, None]], 1), below])[None],
        torch.cat([last[0], last[1][:, None]], 1)[None],
    ]
    own = NetworkClass.around(WITH_BIAS)
    assert [float(matrix.norm()) for matrix in stack] == pytest.approx(own.norms)
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double()
    game = Game(own, NetworkClass((2, 1), (1.0,)), radius=9.0)
    torch.testing.assert_close(game_scores(game, stack, x)[0], WITH_BIAS(x))


def test_the_class_around_a_network_is_the_smallest_that_contains_it():
    own = NetworkClass.around(WITH_BIAS)
    assert own.contains(WITH_BIAS)
    for layer in range(2):
        norms = list(own.norms)
        norms[layer] *= 0.999
        assert not NetworkClass(own.widths, tuple(norms), True).contains(WITH_BIAS)
    assert not NetworkClass(own.widths, own.norms).contains(WITH_BIAS)
    assert not NetworkClass((2, 3, 1), own.norms, True).contains(WITH_BIAS)


def test_a_network_without_bias_in_a_class_with_one_hands_on_the_constant():
    network = dense(([[3.0]], [0.0]), ([[1.0]], [0.0]))
    assert NetworkClass((1, 1, 1), (math.sqrt(10), 1.0), True).contains(network)
    assert not NetworkClass((1, 1, 1), (3.1, 1.0), True).contains(network)


def test_game_by_hand():
    game = Game(NetworkClass((1, 1), (2.0,)), NetworkClass((3, 1), (5.0,)), radius=1.5)
    assert game.attribute_columns == 2
    assert game.score_bound == 3
    assert game.critic_bound == pytest.approx(5 * math.sqrt(9 + 2))
    constant = Game(
        NetworkClass((1, 1), (2.0,), True), NetworkClass((3, 1), (5.0,), True), radius=1.5
    )
    assert constant.score_bound == pytest.approx(2 * math.sqrt(1.5**2 + 1))
    assert constant.critic_bound == pytest.approx(5 * math.sqrt(4 * 3.25 + 2 + 1))


def test_no_network_of_the_class_exceeds_its_bounds_and_some_come_near():
    game = Game(
        NetworkClass((2, 4, 1), (1.5, 2.0), True),
        NetworkClass((2, 3, 1), (1.0, 0.7), True),
        radius=2.0,
    )
    generator = torch.Generator().manual_seed(0)

    def drawn(network):
        start = [
            torch.randn(3000, *shape, generator=generator).double() for shape in network.shapes
        ]
        return on_spheres(start, network.norms)

    x = torch.randn(40, 2, generator=generator).double()
    x = 2 * x / x.norm(dim=1, keepdim=True)
    scores = game_scores(game, drawn(game.predictor), x)
    outputs = critic_outputs(game, drawn(game.critic), scores, torch.ones(40, 1).double())
    assert game.score_bound / 2 < scores.abs().max() <= game.score_bound
    assert game.critic_bound / 3 < outputs.abs().max() <= game.critic_bound


def test_the_bound_of_a_linear_pair_is_attained():
    game = Game(NetworkClass((2, 1), (5.0,)), NetworkClass((2, 1), (2.0,)), radius=1.0)
    predictor = [torch.tensor([[[3.0, 4.0]]]).double()]
    x = torch.tensor([[0.6, 0.8]]).double()
    score = game_scores(game, predictor, x)
    assert float(score) == pytest.approx(game.score_bound)
    along = torch.tensor([[[5.0, 1.0]]]).double()
    critic = on_spheres([along], game.critic.norms)
    output = critic_outputs(game, critic, score, torch.ones(1, 1).double())
    assert float(output) == pytest.approx(game.critic_bound)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: NetworkClass((2, 3), (1.0,)),
            "widths must be the number of inputs, one width for each hidden layer and 1, and norms "
            "one number for each layer, got widths=(2, 3), norms=(1.0,)",
        ),
        (
            lambda: NetworkClass((2, 1), (-1.0,)),
            "norms must be finite and not negative, got (-1.0,)",
        ),
        (
            lambda: Game(NetworkClass((2, 1), (1.0,)), NetworkClass((1, 1), (1.0,)), radius=1.0),
            "critic must see the score and at least one attribute, got 1 inputs",
        ),
        (
            lambda: Game(NetworkClass((2, 1), (1.0,)), NetworkClass((2, 1), (1.0,)), radius=0.0),
            "radius must be positive and finite, got 0.0",
        ),
        (
            lambda: Game(WITH_BIAS, NetworkClass((2, 1), (1.0,)), radius=1.0),
            "predictor must be a NetworkClass, got DenseNetwork; "
            "NetworkClass.around(fold(network)) makes one",
        ),
    ],
)
def test_what_is_no_class_is_refused(make, message):
    with pytest.raises(InputError) as refusal:
        make()
    assert str(refusal.value) == message
