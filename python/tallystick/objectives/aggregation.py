"""From a value per token to one number, under the five names of verl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from tallystick._arrays import as_choice, as_number
from tallystick._optional import require
from tallystick.errors import DTypeError, ShapeError, UnsupportedError

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "token-sum"]
EmptyRows = Literal["skip", "count"]


def aggregate(
    values: Tensor,
    response_mask: Tensor,
    aggregation: Aggregation = "token-mean",
    *,
    offsets: Any = None,
    horizon: float | None = None,
    empty_rows: EmptyRows = "skip",
    global_counts: Mapping[str, Any] | None = None,
) -> Tensor:
    """One number from a value per token, dead positions left out whatever stands on them.

    With S_i the sum over the n_i live tokens of row i, N tokens and B rows:

    - "token-mean": sum_i S_i / N
    - "seq-mean-token-sum": sum_i S_i / B
    - "seq-mean-token-mean": sum_i (S_i / n_i) / B
    - "seq-mean-token-sum-norm": sum_i S_i / (B * horizon)
    - "token-sum": sum_i S_i

    A denominator of 0 counts as 1, so that nothing live gives 0 and keeps the graph. With `global_counts` the results
    of micro-batches add up to that of the whole step.

    Args:
        values: `[B, T]`, or packed `[L]`.
        response_mask: the same shape, 1 (or True) on tokens that the model wrote.
        aggregation: one of the five.
        offsets: int `[B + 1]`, the rows of packed values and of nothing else; the three names that begin with "seq"
            need it there.
        horizon: tokens by which "seq-mean-token-sum-norm" divides, a constant of the run; above 0.
        empty_rows: whether rows without a live token count in B.
        global_counts: {"tokens": N, "sequences": B} of the whole step, in place of this call's own.

    Returns:
        a scalar tensor. Values [[1, 2, 3], [4, 0, 0]] with masks [[1, 1, 1], [1, 0, 0]] give 2.5, 5, 3,
        5 / horizon and 10.

    Raises:
        ShapeError: shapes or offsets that do not fit.
        UnsupportedError: an unknown name, a missing `horizon` or count.

    Source:
        `agg_loss` of verl; where rows may be empty, Trinity-RFT counts them and verl does not.
    """
    as_choice("aggregation", aggregation, *get_args(Aggregation))
    as_choice("empty_rows", empty_rows, *get_args(EmptyRows))
    length = None if horizon is None else as_number("horizon", horizon)
    if length is not None and length <= 0:
        raise UnsupportedError(f"`horizon` must be above 0, found {horizon}", "horizon")
    if not isinstance(values, torch.Tensor):
        raise DTypeError(f"`values` must be a tensor, found {type(values).__name__}", "values")
    if values.ndim not in (1, 2):
        raise ShapeError(f"`values` must be [B, T] or packed [L], found shape {tuple(values.shape)}", "values")
    starts = None if offsets is None else row_starts(values, offsets)
    counts = _known(global_counts)
    live = live_positions(values, response_mask)
    values = torch.where(live, values, 0)
    if aggregation == "token-sum":
        return values.sum()
    if aggregation == "token-mean":
        return values.sum() / _denominator(live.sum(), counts, "tokens")
    sums = row_sums(values, starts)
    lengths = row_sums(live.to(values.dtype), starts)
    if aggregation == "seq-mean-token-mean":
        sums = sums / lengths.clamp(min=1)
    rows = (lengths > 0).sum() if empty_rows == "skip" else torch.tensor(len(lengths), device=values.device)
    mean = sums.sum() / _denominator(rows, counts, "sequences")
    if aggregation != "seq-mean-token-sum-norm":
        return mean
    if length is None:
        raise UnsupportedError(
            "`horizon` must be the constant length that seq-mean-token-sum-norm divides by, found None", "horizon"
        )
    return mean / length


def live_positions(values: Tensor, response_mask: Any) -> Tensor:
    """Boolean, True where the mask is 1; on the CPU anything but 0 and 1 is refused."""
    mask = as_tensor("response_mask", response_mask, values.device)
    if mask.shape != values.shape:
        raise ShapeError(
            f"`response_mask` has shape {tuple(mask.shape)}, expected {tuple(values.shape)} (one per token)",
            "response_mask",
        )
    if mask.dtype != torch.bool and mask.device.type == "cpu":
        odd = (mask != 0) & (mask != 1)
        if odd.any():
            index = int(odd.flatten().nonzero()[0])
            raise UnsupportedError(
                f"`response_mask` must hold 0 or 1, found {mask.flatten()[index]} at index {index}",
                "response_mask",
                index,
            )
    return mask != 0


def row_sums(values: Tensor, starts: Tensor | None) -> Tensor:
    """Sums over the rows of `[B, T]`, or of packed `[L]` with the starts of its rows."""
    if values.ndim == 2:
        return values.sum(-1)
    if starts is None:
        raise ShapeError("`offsets` must be given with packed values, one more than rows", "offsets")
    return torch.segment_reduce(values, "sum", offsets=starts, initial=0)


def row_starts(values: Tensor, offsets: Any) -> Tensor:
    """`offsets` as a tensor beside packed values; on the CPU offsets that do not fit are refused."""
    if values.ndim != 1:
        raise ShapeError(
            f"`offsets` are the rows of packed [L], found values of shape {tuple(values.shape)}: leave them out",
            "offsets",
        )
    starts = as_tensor("offsets", offsets, values.device)
    if starts.numel() and (starts.dtype == torch.bool or starts.dtype.is_floating_point):
        raise DTypeError(f"`offsets` must hold integers, found {starts.dtype}", "offsets")
    if starts.device.type == "cpu" and (
        starts.ndim != 1
        or not len(starts)
        or starts[0] != 0
        or starts[-1] != len(values)
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ShapeError(f"`offsets` must rise from 0 to {len(values)}, one more than rows", "offsets")
    return starts


def as_tensor(name: str, value: Any, device: torch.device) -> Tensor:
    """`value` as a tensor of real numbers on `device`, without a copy where it is there already."""
    try:
        tensor = torch.as_tensor(value, device=device)
    except Exception as failure:
        raise DTypeError(f"`{name}` cannot be read as a tensor: {failure}", name) from failure
    if tensor.is_complex():
        raise DTypeError(f"`{name}` must hold real numbers, found {tensor.dtype}", name)
    return tensor


def _known(global_counts: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """`global_counts` without a key that nothing reads."""
    if global_counts is None:
        return None
    if not isinstance(global_counts, Mapping) or not set(global_counts) <= {"tokens", "sequences"}:
        found = list(global_counts) if isinstance(global_counts, Mapping) else type(global_counts).__name__
        raise UnsupportedError(
            f'`global_counts` must be a mapping of "tokens" and "sequences" to counts, found {found}', "global_counts"
        )
    return global_counts


def _denominator(own: Tensor, global_counts: Mapping[str, Any] | None, name: str) -> Tensor:
    if global_counts is None:
        return own.clamp(min=1)
    if name not in global_counts:
        raise UnsupportedError(f"`global_counts` must hold {name!r}, found {list(global_counts)}", "global_counts")
    count = as_tensor("global_counts", global_counts[name], own.device)
    if count.ndim or count.dtype == torch.bool or (count.device.type == "cpu" and not 0 <= count < torch.inf):
        raise UnsupportedError(
            f"`global_counts` must hold one finite count, not negative, under {name!r}, found {global_counts[name]}",
            "global_counts",
        )
    return count.clamp(min=1)
