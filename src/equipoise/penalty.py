"""SBPPenalty: the fairness penalty for your own PyTorch loop."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings, Weights
from equipoise.density_ratio import RatioNetwork
from equipoise.errors import InputError, check_choice, check_whole, refuse_unread
from equipoise.networks import Normalization
from equipoise.notions import Notion
from equipoise.training import OptimizerSettings
from equipoise.training.data import generator, mean_one
from equipoise.training.optimizers import minimize

#: The default momentum. Any other value is refused for Adam, which has none.
_MOMENTUM = 0.2


class SBPPenalty(nn.Module):
    """A differentiable penalty on the dependence of a score on sensitive attributes.

    In training mode each call first trains the critic (and, under separation, the density-ratio
    network) on this batch with its own optimizer. It then returns the critic's value, which is 0
    if the critic can only guess. In evaluation mode nothing is trained. Do not give this module's
    parameters to your optimizer: the critic maximizes what you minimize.

    Attributes must be numbers: one-hot categories, and continuous columns of about unit variance
    (``SensitiveTable.from_data(A).encode()`` does both). Larger batches reveal weaker dependence;
    the method works well with 256 rows or more.

    Parameters
    ----------
    notion : "independence" or "separation"
        Separation needs the outcome ``y`` in every call.
    divergence : "js", "kl", "chi2", "hellinger" or "wasserstein"
        The divergence that the critic estimates. "wasserstein" needs ``gradient_penalty=10``.
    density_ratio : "network" or "none"
        Weights of resampled pairs under separation: learned during training, or all one (SBP_NW).
    hidden : tuple of int
        Widths of the critic's hidden layers.
    steps : int
        Critic updates per call (the paper's T').
    normalization : "none", "batch" or "spectral"
        Normalization of the critic's layers.
    gradient_penalty : float
        Weight of a penalty on the critic's gradient.
    optimizer, learning_rate, momentum
        The critic's own optimizer, "adam" or "sgd".
    random_state : int
        Seed of the critic's initial weights and of the resampling.

    Examples
    --------
    >>> import torch
    >>> from equipoise import SBPPenalty
    >>> generator = torch.Generator().manual_seed(0)
    >>> a = torch.randn(512, generator=generator)
    >>> score = (a + torch.randn(512, generator=generator)).requires_grad_()
    >>> penalty = SBPPenalty(notion="independence")
    >>> for _ in range(100):
    ...     value = penalty(score, a)
    >>> bool(value > 0.1)
    True
    >>> value.backward()
    >>> score.grad.shape
    torch.Size([512])
    """

    def __init__(
        self,
        notion: str = "independence",
        divergence: str = "js",
        *,
        density_ratio: Literal["network", "none"] = "network",
        hidden: tuple[int, ...] = (64, 64),
        steps: int = 1,
        normalization: Normalization = "none",
        gradient_penalty: float = 0.0,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 3e-3,
        momentum: float = _MOMENTUM,
        random_state: int = 0,
    ) -> None:
        super().__init__()
        check_choice("density_ratio", density_ratio, ("network", "none"))
        check_whole("random_state", random_state, least=0)
        self.notion = Notion.parse(notion)
        self._uses_ratio = self.notion.conditions_on_outcome and density_ratio == "network"
        self._optimizer_settings = OptimizerSettings(
            kind=optimizer, learning_rate=learning_rate, momentum=momentum
        )
        self._critic_settings = CriticSettings(
            divergence=divergence,
            hidden=hidden,
            steps=steps,
            normalization=normalization,
            gradient_penalty=gradient_penalty,
            optimizer=self._optimizer_settings,
            prefix="",
        )
        if optimizer == "adam" and momentum != _MOMENTUM:
            refuse_unread("momentum", momentum, "optimizer='adam'", "set optimizer='sgd'")
        if density_ratio == "none" and not self.notion.conditions_on_outcome:
            setting = f"notion='{self.notion}'"
            refuse_unread("density_ratio", density_ratio, setting, "set notion='separation'")
        self._seed = random_state
        self._resampling = generator(random_state, "batches")
        self._widths: tuple[int, int, int] | None = None
        self.game: CriticGame | None = None
        self.ratio: RatioNetwork | None = None
        self._ratio_optimizer: torch.optim.Optimizer | None = None

    def forward(
        self,
        score: Tensor,
        a: Tensor,
        y: Tensor | None = None,
        *,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the penalty, a scalar.

        Parameters
        ----------
        score : (n,) or (n, w)
            Scores, logits, or a representation of any width. The penalty is differentiable in it.
        a : (n,) or (n, q)
            Sensitive attributes as numbers.
        y : (n,) or (n, v)
            Outcome, required under separation and refused under independence.
        sample_weight : (n,)
            Weights of the rows.
        """
        # Tensors made in inference mode cannot be trained on; copies made outside of it can.
        with torch.inference_mode(False):
            return self._penalty(*self._checked(score, a, y, sample_weight))

    def _penalty(
        self, score: Tensor, a: Tensor, y: Tensor | None, sample_weight: Tensor | None
    ) -> Tensor:
        widths = score.shape[-1], a.shape[-1], 0 if y is None else y.shape[-1]
        game = self._build(widths, score) if self.game is None else self.game
        self._check_like_first(score, widths, next(game.parameters()))
        resampled = self._resampled_rows(score.shape[1]).to(score.device)
        drawn = a[:, resampled]
        weights = _pair_weights(sample_weight, resampled)
        if self._uses_ratio:
            beta = self._density_ratio(a, drawn, y, weights)
            weights = weights[0], beta if weights[1] is None else beta * weights[1]
        if self.training:
            return game.play(score, a, drawn, y, weights, lasting=True).squeeze(0)
        return game.value(score, a, drawn, y, weights).squeeze(0)

    def _checked(
        self, score: Tensor, a: Tensor, y: Tensor | None, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return tensors (1, n, width) and weights (n,) in the score's precision, checked."""
        if self.notion.conditions_on_outcome and y is None:
            raise InputError(
                "y is required under notion='separation', got None; call penalty(score, a, y)"
            )
        if not self.notion.conditions_on_outcome and y is not None:
            raise InputError(
                "y must be left out under notion='independence', got a value; leave it out or set "
                "notion='separation'"
            )
        arguments = {"score": score, "a": a, "y": y, "sample_weight": sample_weight}
        given = {name: tensor for name, tensor in arguments.items() if tensor is not None}
        for name, tensor in given.items():
            _check_tensor(name, tensor, score)
        if len(score) < 2:
            raise InputError(
                f"a batch must have at least 2 rows to resample from, got {len(score)}; use larger "
                "batches"
            )
        weight = given.pop("sample_weight", None)
        columns = {name: t[:, None] if t.dim() == 1 else t for name, t in given.items()}
        floats = {name: t.to(score.dtype).unsqueeze(0) for name, t in columns.items()}
        floats = {name: t.clone() if t.is_inference() else t for name, t in floats.items()}
        return (
            floats["score"],
            floats["a"],
            floats.get("y"),
            None if weight is None else _checked_weight(weight).to(score.dtype),
        )

    def _check_like_first(self, score: Tensor, widths: tuple[int, int, int], like: Tensor) -> None:
        if (score.dtype, score.device) != (like.dtype, like.device):
            raise InputError(
                f"score must stay {like.dtype} on {like.device} as in the first call, got "
                f"{score.dtype} on {score.device}; move the penalty, too, with penalty.to(...)"
            )
        if widths != self._widths:
            raise InputError(
                f"widths of (score, a, y) must stay as in the first call, {self._widths}, "
                f"got {widths}; make another SBPPenalty for other widths"
            )

    def _build(self, widths: tuple[int, int, int], like: Tensor) -> CriticGame:
        """Build the networks for these widths, on the device and in the precision of ``like``."""
        self._widths = widths
        start = [generator(self._seed, "critic")]
        game = CriticGame(*widths, settings=self._critic_settings, generators=start).to(like)
        game.train(self.training)
        game.start()
        self.game = game
        if self._uses_ratio:
            start = [generator(self._seed, "density ratio")]
            ratio = RatioNetwork(*widths[1:], generators=start).to(like)
            self.ratio = ratio
            self._ratio_optimizer = self._optimizer_settings.build(ratio.parameters())
        return game

    def _resampled_rows(self, n: int) -> Tensor:
        """Draw another row of the batch for each of the n rows; every row is drawn once."""
        order = torch.randperm(n, generator=self._resampling, device="cpu")
        resampled = torch.empty_like(order)
        resampled[order] = order.roll(1)
        return resampled

    def _density_ratio(
        self, a: Tensor, drawn: Tensor, y: Tensor | None, weights: Weights
    ) -> Tensor:
        assert self.ratio is not None and self._ratio_optimizer is not None and y is not None
        if self.training:
            with torch.enable_grad():
                loss = self.ratio.loss(a, drawn, y, weights)
                minimize(loss, self._ratio_optimizer)
        return self.ratio.ratio(drawn, y)

    def get_extra_state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides weights: widths, generator, optimizers."""
        if self.game is None:
            return {}
        state: dict[str, Any] = {
            "widths": self._widths,
            "dtype": next(self.game.parameters()).dtype,
            "resampling": self._resampling.get_state(),
            "critic_optimizer": copy.deepcopy(self.game.optimizer.state_dict()),
        }
        if self._ratio_optimizer is not None:
            state["ratio_optimizer"] = copy.deepcopy(self._ratio_optimizer.state_dict())
        return state

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore a saved run; build the networks first if they do not exist yet."""
        if not state:
            return
        game = self.game
        if game is None:
            game = self._build(state["widths"], torch.empty(0, dtype=state["dtype"], device="cpu"))
        self._resampling.set_state(state["resampling"].cpu())
        game.optimizer.load_state_dict(state["critic_optimizer"])
        if self._ratio_optimizer is not None:
            self._ratio_optimizer.load_state_dict(state["ratio_optimizer"])


def _check_tensor(name: str, tensor: Any, score: Tensor) -> None:
    """Refuse anything but finite real numbers (n,) or (n, width), one row for each score."""
    if not isinstance(tensor, Tensor):
        call = "torch.as_tensor(values)"
        if name == "a":
            call = "torch.from_numpy(SensitiveTable.from_data(A).encode())"
        raise InputError(f"{name} must be a tensor, got {type(tensor).__name__}; {call} makes one")
    if tensor.dim() not in (1, 2) or tensor.shape[-1] == 0:
        raise InputError(f"{name} must have shape (n,) or (n, width), got {tuple(tensor.shape)}")
    if tensor.is_complex():
        raise InputError(f"{name} must hold real numbers, got {tensor.dtype}")
    if name == "score" and not tensor.is_floating_point():
        raise InputError(f"score must be floating point, got {tensor.dtype}; pass score.float()")
    if len(tensor) != len(score):
        raise InputError(
            f"{name} must have as many rows as score, got {len(tensor)} and {len(score)}"
        )
    if tensor.device != score.device:
        raise InputError(
            f"{name} must be on the device of score, {score.device}, got {tensor.device}; "
            f"pass {name}.to(score.device)"
        )
    # The precision of the score must be able to hold the values. Weights may be of any size, since
    # they are divided by the largest weight later.
    values = tensor if name == "sample_weight" else tensor.to(score.dtype)
    if not bool(values.isfinite().all()):
        raise InputError(
            f"{name} must be finite, got infinite values or NaN, which would ruin the critic; "
            "leave out such rows. Nothing was trained on this batch"
        )


def _pair_weights(sample_weight: Tensor | None, resampled: Tensor) -> Weights:
    """Weights of real and of resampled pairs, (1, n) each, as in `TrainingData.pair_weights`."""
    if sample_weight is None:
        return None, None
    weight = sample_weight.unsqueeze(0)
    return mean_one(weight), mean_one(weight * weight[:, resampled])


def _checked_weight(weight: Tensor) -> Tensor:
    """Return weights (n,) divided by the largest one, from weights (n,) or (n, 1)."""
    if weight.dim() == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.dim() != 1:
        raise InputError(f"sample_weight must have shape (n,), got {tuple(weight.shape)}")
    if bool((weight < 0).any()):
        raise InputError(
            f"sample_weight must not be negative, got {weight.min().item():g}; give rows that "
            "should not count weight 0"
        )
    if not bool(weight.any()):
        raise InputError("sample_weight must be positive for some row, got zeros only")
    return weight.detach() / weight.max()
