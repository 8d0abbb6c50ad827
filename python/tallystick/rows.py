"""Statistics of logit rows (torch): log-probs of chosen tokens, entropy and more, in one pass, with their gradient.

A row is read once forward, and read and written once backward. Logits in bfloat16 and float16 are widened to float32 as
they are read, and no copy of them is made: extra memory is O(T * K) for K listed ids, besides the gradient itself.

`-inf` is probability 0. A row with NaN or `inf`, or with nothing finite, gives NaN in every statistic, and no other row
does. The target is kept out of the sum that it is compared with, so its log-prob keeps its digits where it is all but
certain. Rows are reduced in a fixed order: the same bytes on any number of threads and each time. The last digits may
differ between processors with AVX-512, with AVX2 and with neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick import _native
from tallystick._optional import require
from tallystick.errors import DTypeError, ShapeError, UnsupportedError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
else:
    torch = require("torch", extra="torch")

_KINDS = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_LEAST, _MOST = 1e-30, 1e30


class RowStats(NamedTuple):
    """What `row_stats` returns: float32, natural logs, p the softmax of a row of scaled logits."""

    log_probs: Tensor
    """`[T]`: ln p of the target."""
    entropy: Tensor
    """`[T]`: -sum_i p_i ln p_i."""
    logsumexp: Tensor
    """`[T]`: ln sum_i exp(z_i)."""
    log_sum_sq: Tensor
    """`[T]`: ln sum_i p_i^2."""
    mean_logit: Tensor
    """`[T]`: sum_i z_i / V; `-inf` where a logit is."""
    log_one_minus_p: Tensor
    """`[T]`: ln(1 - p) of the target, summed over the others."""
    id_log_probs: Tensor
    """`[T, K]`: ln p of the listed ids; `-inf` in empty slots."""


def row_stats(logits: Tensor, targets: Tensor, *, ids: Tensor | None = None, temperature: float = 1.0) -> RowStats:
    """Statistics of softmax(logits / temperature), row by row, differentiable in all of them.

    With p_i the probability of entry i, H the entropy, S the sum of squares, a_i the sum of the upstream gradients of
    all log-probs asked for at i, and g_H, g_L, g_S, g_M those of entropy, logsumexp, log_sum_sq and mean_logit, the
    gradient is

        dL/dz_i = (p_i (c - g_H ln p_i + 2 g_S p_i / S) + g_M / V + a_i) / temperature
        c = g_L - sum_j a_j - g_H H - 2 g_S

    where the gradient g of log_one_minus_p counts as -g p / (1 - p) at the target. It is contiguous and has the dtype
    of `logits`. A row whose upstream gradients are all 0 gets 0 without being read, so that NaN in a row that the loss
    leaves out stays there. There is no second derivative.

    For example, logits [[0, ln 3]] with target 1 give log_probs [ln 3/4], entropy [0.5623], logsumexp [ln 4],
    log_sum_sq [ln 10/16], mean_logit [(ln 3) / 2] and log_one_minus_p [ln 1/4].

    Args:
        logits: `[T, V]` bfloat16, float16 or float32 on the CPU. Rows may lie apart, as in a slice of a longer batch;
            where the entries of a row do, the logits are copied.
        targets: int32 or int64 `[T]`, ids of the tokens that were sampled, 0 to V - 1.
        ids: int32 or int64 `[T, K]`, more ids of each row whose log-probs are wanted, in any order, repeated or not;
            below 0 where a slot is empty, which has log-prob -inf and no gradient.
        temperature: logits are divided by it (times its inverse), after they are widened to float32.

    Returns:
        `RowStats`.

    Raises:
        DTypeError: an argument that is no tensor, or of another dtype than said above.
        ShapeError: shapes that do not fit.
        UnsupportedError: an id that is not of the vocabulary (`index` is its row), a `temperature` that is not
            positive or outside 1e-30 to 1e30, a tensor that is sparse or not on the CPU, and, when it is asked for, a
            second derivative.
    """
    _require_tensor("logits", logits, tuple(_KINDS), ("T", "V"))
    rows = logits.shape[0]
    targets = _queries("targets", targets, logits, ("T",))
    ids = targets.new_empty((rows, 0)) if ids is None else _queries("ids", ids, logits, ("T", "K"))
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise DTypeError(f"`temperature` must be a real number, found {type(temperature).__name__}", "temperature")
    if not _LEAST <= temperature <= _MOST:
        raise UnsupportedError(
            f"`temperature` must be positive and between {_LEAST:g} and {_MOST:g}, found {temperature}", "temperature"
        )
    return RowStats(*torch.ops.tallystick.row_stats(logits, targets, ids, 1.0 / temperature))


def _require_tensor(name: str, value: Any, dtypes: tuple[torch.dtype, ...], axes: tuple[str, ...]) -> None:
    if not isinstance(value, torch.Tensor):
        raise DTypeError(f"`{name}` must be a tensor, found {type(value).__name__}", name)
    if value.dtype not in dtypes:
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise DTypeError(f"`{name}` must be {allowed}, found {value.dtype}", name)
    if value.ndim != len(axes):
        raise ShapeError(f"`{name}` must be [{', '.join(axes)}], found shape {tuple(value.shape)}", name)
    if value.device.type != "cpu" or value.layout != torch.strided:
        raise UnsupportedError(f"`{name}` must be dense and on the CPU, found {value.layout} on {value.device}", name)


def _queries(name: str, value: Tensor, logits: Tensor, axes: tuple[str, ...]) -> Tensor:
    """Ids as the kernels take them, int64 and in one piece."""
    _require_tensor(name, value, (torch.int64, torch.int32), axes)
    if value.shape[0] != logits.shape[0]:
        raise ShapeError(f"`{name}` has {value.shape[0]} rows, expected {logits.shape[0]} (one per row)", name)
    return value.to(torch.int64).contiguous()


def _readable(logits: Tensor) -> NDArray[Any]:
    """The memory of logits: float32, or the bits of a half; copied where the entries of a row lie apart."""
    if logits.shape[1] > 1 and logits.stride(1) != 1:
        logits = logits.contiguous()
    return _bits(logits)


def _bits(tensor: Tensor) -> NDArray[Any]:
    tensor = tensor.detach()
    return (tensor if tensor.dtype == torch.float32 else tensor.view(torch.uint16)).numpy()


def _row_stats(logits: Tensor, targets: Tensor, ids: Tensor, scale: float) -> tuple[Tensor, ...]:
    found = _native.row_stats(
        _readable(logits), _KINDS[logits.dtype], targets.numpy(), ids.numpy().reshape(-1), ids.shape[1], scale
    )
    *of_rows, of_ids = map(torch.from_numpy, found)
    return (*of_rows, of_ids.view(ids.shape))


def _row_stats_shapes(logits: Tensor, targets: Tensor, ids: Tensor, scale: float) -> tuple[Tensor, ...]:
    of_rows = (logits.new_empty(targets.shape, dtype=torch.float32) for _ in range(6))
    return (*of_rows, logits.new_empty(ids.shape, dtype=torch.float32))


def _row_grad(
    logits: Tensor, targets: Tensor, ids: Tensor, scale: float, saved: list[Tensor], upstream: list[Tensor]
) -> Tensor:
    gradient = torch.empty(logits.shape, dtype=logits.dtype)
    _native.row_grad(
        _readable(logits),
        _KINDS[logits.dtype],
        targets.numpy(),
        ids.numpy().reshape(-1),
        ids.shape[1],
        scale,
        [_bits(column) for column in saved],
        [_bits(column.contiguous()).reshape(-1) for column in upstream],
        _bits(gradient).reshape(-1),
    )
    return gradient


def _row_grad_shapes(
    logits: Tensor, targets: Tensor, ids: Tensor, scale: float, saved: list[Tensor], upstream: list[Tensor]
) -> Tensor:
    return logits.new_empty(logits.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, targets, ids, ctx.scale = inputs
    ctx.save_for_backward(logits, targets, ids, *output[:4])


def _backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
    logits, targets, ids, *saved = ctx.saved_tensors
    gradient = torch.ops.tallystick.row_grad(logits, targets, ids, ctx.scale, saved, list(upstream))
    return gradient, None, None, None


def _refuse(ctx: Any, *upstream: Tensor) -> None:
    raise UnsupportedError("`logits` has no second derivative through `row_stats`", "logits")


# The decorator `torch.library.custom_op` does the same, and imports torch's compiler at the first call: seconds.
_COMMON = "Tensor logits, Tensor targets, Tensor ids, float scale"
_STATISTICS = ", ".join(["Tensor"] * len(RowStats._fields))
for _name, _schema, _kernel, _shapes in (
    ("tallystick::row_stats", f"({_COMMON}) -> ({_STATISTICS})", _row_stats, _row_stats_shapes),
    ("tallystick::row_grad", f"({_COMMON}, Tensor[] saved, Tensor[] upstream) -> Tensor", _row_grad, _row_grad_shapes),
):
    torch.library.define(_name, _schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(_name, "cpu", _kernel)
    torch.library.register_fake(_name, _shapes)
torch.library.register_autograd("tallystick::row_stats", _backward, setup_context=_save)
torch.library.register_autograd("tallystick::row_grad", _refuse)
