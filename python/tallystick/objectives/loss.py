"""The loss of a batch: live tokens are selected, a rule judges each, one number and its metrics come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tallystick._optional import require
from tallystick.errors import DTypeError, NonFiniteError, ShapeError, UnsupportedError
from tallystick.objectives.aggregation import Aggregation, EmptyRows, aggregate, as_tensor, live_positions
from tallystick.objectives.rules import Rule, TokenInputs

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")


def policy_loss(
    log_probs: Tensor,
    advantages: Any,
    response_mask: Any,
    *,
    rule: Rule,
    old_log_probs: Any = None,
    offsets: Any = None,
    aggregation: Aggregation | None = None,
    horizon: float | None = None,
    empty_rows: EmptyRows = "skip",
    global_counts: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Mapping[str, float]]:
    """The loss to minimise, and metrics averaged over live tokens.

    Whatever stands behind the mask, NaN and infinities too, changes neither the loss nor its gradient. A batch without
    a live token has loss 0 and gradient 0.

    Args:
        log_probs: `[B, T]`, or packed `[L]`: natural log-probs of the sampled tokens under the policy, differentiable.
        advantages: the same shape; no gradient passes through them.
        response_mask: the same shape, 1 (or True) on tokens that the model wrote.
        rule: the loss of a token, as `PPOClip()`.
        old_log_probs: the same shape, log-probs under the policy that the ratio is taken against. None: the policy
            itself, which makes each ratio exactly 1.
        offsets: int `[B + 1]`, the rows of packed values; refused with `[B, T]`.
        aggregation: how tokens become one number, see `aggregate`. None: the rule's own.
        horizon: tokens by which "seq-mean-token-sum-norm" divides.
        empty_rows: whether rows without a live token count as sequences.
        global_counts: {"tokens": n, "sequences": n} of the whole step, so that micro-batches add up.

    Returns:
        loss: a scalar tensor, float32 at least.
        metrics: a mapping of names to floats. On an accelerator they are fetched when the first is read.

    Raises:
        DTypeError: `log_probs` is no tensor of floats.
        ShapeError: shapes or offsets that do not fit.
        NonFiniteError: a NaN or an infinity on a live position, with its first index in the flattened tensor. On an
            accelerator it is raised when the metrics are read.
        UnsupportedError: an option outside its range; a `rule` that is none.
    """
    if isinstance(rule, type) or not isinstance(rule, Rule):
        found = rule.__name__ if isinstance(rule, type) else repr(rule)
        raise UnsupportedError(f'`rule` must be a rule such as PPOClip() or preset("ppo"), found {found}', "rule")
    if not isinstance(log_probs, torch.Tensor) or not log_probs.dtype.is_floating_point:
        found = getattr(log_probs, "dtype", type(log_probs).__name__)
        raise DTypeError(f"`log_probs` must be a tensor of floats, found {found}", "log_probs")
    log_probs = _full_precision(log_probs)
    if log_probs.ndim not in (1, 2):
        raise ShapeError(f"`log_probs` must be [B, T] or packed [L], found shape {tuple(log_probs.shape)}", "log_probs")
    live = live_positions(log_probs, response_mask)
    bad: dict[str, Tensor] = {}
    selected = _selected("log_probs", log_probs, log_probs, live, bad)
    tokens = TokenInputs(
        log_probs=selected,
        old_log_probs=(
            selected.detach()
            if old_log_probs is None
            else _selected("old_log_probs", old_log_probs, log_probs, live, bad).detach()
        ),
        advantages=_selected("advantages", advantages, log_probs, live, bad).detach(),
    )
    losses, measures = rule.token_losses(tokens)
    loss = aggregate(
        losses,
        live,
        rule.aggregation if aggregation is None else aggregation,
        offsets=offsets,
        horizon=horizon,
        empty_rows=empty_rows,
        global_counts=global_counts,
    )
    with torch.no_grad():
        averages = {name: aggregate(measure.to(losses.dtype), live) for name, measure in measures.items()}
    return loss, Metrics({"loss": loss.detach(), **averages, "tokens": live.sum()}, bad)


class Metrics(Mapping[str, float]):
    """Scalars by name that stay where they were computed until the first is read.

    Raises:
        NonFiniteError: on reading, where an input held something not finite on a live position.
    """

    def __init__(self, scalars: Mapping[str, Tensor], bad: Mapping[str, Tensor]) -> None:
        self._scalars = dict(scalars)
        self._bad = dict(bad)
        self._read: dict[str, float] | None = None

    def __getitem__(self, name: str) -> float:
        return self._fetched()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scalars)

    def __len__(self) -> int:
        return len(self._scalars)

    def __repr__(self) -> str:
        return repr(self._fetched())

    def _fetched(self) -> dict[str, float]:
        if self._read is None:
            row = torch.stack([x.double() for x in (*self._bad.values(), *self._scalars.values())]).tolist()
            for name, count in zip(self._bad, row, strict=False):
                if count:
                    raise NonFiniteError(
                        f"`{name}` must be finite on live positions, found {count:.0f} that are not", name
                    )
            self._read = dict(zip(self._scalars, row[len(self._bad) :], strict=True))
        return self._read


def _selected(name: str, values: Any, like: Tensor, live: Tensor, bad: dict[str, Tensor]) -> Tensor:
    """`values` with 0 on dead positions; what is not finite on live ones is refused, or counted in `bad`."""
    tensor = as_tensor(name, values, like.device).to(like.dtype)
    if tensor.shape != like.shape:
        raise ShapeError(
            f"`{name}` has shape {tuple(tensor.shape)}, expected {tuple(like.shape)} (as `log_probs`)", name
        )
    tensor = torch.where(live, tensor, 0)
    wrong = ~tensor.detach().isfinite()
    if wrong.device.type != "cpu":
        bad[name] = wrong.sum()
    elif wrong.any():
        index = int(wrong.flatten().nonzero()[0])
        found = tensor.detach().flatten()[index].item()
        raise NonFiniteError(f"`{name}` must be finite on live positions, found {found} at index {index}", name, index)
    return tensor


def _full_precision(log_probs: Tensor) -> Tensor:
    return log_probs.float() if log_probs.dtype in (torch.float16, torch.bfloat16) else log_probs
