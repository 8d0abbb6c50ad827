"""What users pass becomes contiguous NumPy columns, or an error that names the argument."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tallystick.errors import DTypeError, NonFiniteError, ShapeError, UnsupportedError


def as_array(name: str, value: Any) -> NDArray[Any]:
    """`value` as a NumPy array, without a copy where it already is one or lends its memory (a CPU torch tensor)."""
    if hasattr(value, "mask") and np.ma.is_masked(value):
        raise DTypeError(f"`{name}` must not be a masked array with masked entries; leave those rows out", name)
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such type; float32 holds each of its values
            value = value.float()
    try:
        return np.asarray(value)
    except Exception as failure:
        raise DTypeError(f"`{name}` cannot be read as an array: {failure}", name) from failure


def as_reals(name: str, value: Any, *, ndim: int = 1) -> NDArray[Any]:
    """Contiguous float32 or float64; every other real type is widened to float64."""
    array = _of_dimensions(name, as_array(name, value), ndim)
    if array.dtype.kind not in "biuf":
        if array.size:
            raise DTypeError(f"`{name}` must hold real numbers, found dtype {array.dtype}", name)
        array = np.zeros(array.shape)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return laid_out(array)


def as_number(name: str, value: Any, *, finite: bool = True) -> float:
    """One real number, never NaN; with `finite=False` it may be an infinity."""
    array = _of_dimensions(name, as_array(name, value), 0)
    if array.dtype.kind not in "iuf":
        raise DTypeError(f"`{name}` must be a real number, found dtype {array.dtype}", name)
    number = float(array)
    if np.isnan(number) or (finite and np.isinf(number)):
        raise NonFiniteError(f"`{name}` must be {'finite' if finite else 'a number'}, found {number}", name)
    return number


def as_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise DTypeError(f"`{name}` must be True or False, found {type(value).__name__}", name)
    return bool(value)


def as_ddof(value: Any) -> int:
    """What standard deviations take off the number of values: 0 or 1."""
    ddof = as_integers("ddof", value, ndim=0).item()
    if isinstance(value, bool | np.bool_) or ddof not in (0, 1):
        raise UnsupportedError(f"`ddof` must be 0 or 1, found {value}", "ddof")
    return ddof


def as_seed(value: Any) -> int:
    """An integer from 0 to 2**64 - 1."""
    array = as_array("seed", value)
    if array.ndim or array.dtype.kind not in "iuO" or not isinstance(seed := array.item(), int):
        raise DTypeError(f"`seed` must be an integer, found {value!r}", "seed")
    if not 0 <= seed < 2**64:
        raise UnsupportedError(f"`seed` must lie between 0 and 2**64 - 1, found {seed}", "seed")
    return seed


def as_text(name: str, value: Any) -> str:
    """A string of valid Unicode."""
    if not isinstance(value, str):
        raise DTypeError(f"`{name}` must be a string, found {type(value).__name__}", name)
    try:
        value.encode()
    except UnicodeEncodeError as failure:
        raise DTypeError(f"`{name}` must be valid Unicode: {failure}", name) from failure
    return value


def as_choice(name: str, value: Any, *choices: str) -> str:
    """One of the strings that an option may be."""
    choice = as_text(name, value)
    if choice not in choices:
        allowed = " or ".join(f'"{allowed}"' for allowed in choices)
        raise UnsupportedError(f"`{name}` must be {allowed}, found {choice!r}", name)
    return choice


def as_integers(name: str, value: Any, *, ndim: int = 1) -> NDArray[np.int64]:
    """Contiguous int64; floats are refused rather than truncated, and so is an unsigned value above 2**63 - 1."""
    array = _of_dimensions(name, as_array(name, value), ndim)
    if array.dtype.kind not in "biu":
        if array.size:
            raise DTypeError(f"`{name}` must hold integers, found dtype {array.dtype}", name)
        array = np.zeros(array.shape, dtype=np.int64)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        index = int(np.argmax(array.reshape(-1) > np.iinfo(np.int64).max))
        raise DTypeError(f"`{name}` must fit int64, found {array.reshape(-1)[index]} at index {index}", name, index)
    return laid_out(array, np.int64)


def as_mask(name: str, value: Any, *, ndim: int = 1) -> NDArray[np.bool_]:
    """Contiguous booleans, True on live positions; numbers must be 0 or 1."""
    array = _of_dimensions(name, as_array(name, value), ndim)
    if array.dtype == np.bool_:
        # A view of other memory may hold bytes that are neither 0 nor 1, and Rust takes them for granted.
        return np.ascontiguousarray(array.view(np.uint8) != 0)
    if not array.size:
        return np.zeros(array.shape, dtype=np.bool_)
    if array.dtype.kind not in "iuf":
        raise DTypeError(f"`{name}` must hold booleans or 0 and 1, found dtype {array.dtype}", name)
    odd = (array != 0) & (array != 1)
    if odd.any():
        place = tuple(int(axis) for axis in np.argwhere(odd)[0])
        where = place[0] if ndim == 1 else place
        raise DTypeError(f"`{name}` must hold 0 or 1, found {array[place]} at index {where}", name, place[0])
    return np.ascontiguousarray(array != 0)


def laid_out(array: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """`array` as the core reads it: one piece, aligned, of one axis or more; without a copy where it already is."""
    return np.require(np.atleast_1d(array), dtype, ["C", "A"])


def require_length(name: str, array: Sized, expected: int, what: str) -> None:
    """Refuses a column whose first axis is not `expected` long; `what` says why, as in "one per row"."""
    if len(array) != expected:
        raise ShapeError(f"`{name}` has {len(array)} entries, expected {expected} ({what})", name)


def require_offsets(offsets: NDArray[np.int64]) -> None:
    """Refuses row offsets that do not start at 0, or decrease."""
    if len(offsets) == 0 or offsets[0] != 0:
        raise ShapeError("`offsets` must start with 0", "offsets", 0)
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        row = int(np.argmax(falls))
        before, after = offsets[row], offsets[row + 1]
        raise ShapeError(f"`offsets` must not decrease, found {after} after {before} at row {row}", "offsets", row)


def require_finite(name: str, array: NDArray[Any], live: NDArray[np.bool_] | None = None) -> None:
    """Refuses a NaN or an infinity, on live positions only where a mask is given."""
    bad = ~np.isfinite(array)
    if live is not None:
        bad &= live
    if bad.any():
        index = int(np.argmax(bad))
        value = array.reshape(-1)[index]
        raise NonFiniteError(f"`{name}` must be finite on live positions, found {value} at index {index}", name, index)


def narrowed(name: str, result: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """A result as float32; where it does not fit, the argument that made it so large is refused."""
    with np.errstate(over="ignore"):
        narrow = result.astype(np.float32)
    if not np.isfinite(narrow).all():
        index = int(np.argmax(~np.isfinite(narrow)))
        raise UnsupportedError(f"`{name}` gives a result beyond float32 at index {index}", name, index)
    return narrow


def _of_dimensions(name: str, array: NDArray[Any], ndim: int) -> NDArray[Any]:
    if array.ndim != ndim:
        raise ShapeError(f"`{name}` must have {ndim} dimension(s), found shape {array.shape}", name)
    return array
