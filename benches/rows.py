"""Statistics of logit rows, forward and backward."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from tallystick.rows import row_stats
from torch import Tensor

from benches.registry import Case, benchmark

#: A quarter of the rows that the floors were written for, so that what the peers hold at once fits 16 GB.
ROWS, VOCABULARY = 512, 151_936
ENTROPY_GRADIENT = 0.1


@lru_cache(maxsize=1)
def logits(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(23)
    return (3 * torch.randn(ROWS, VOCABULARY, generator=generator)).to(dtype)


@lru_cache(maxsize=1)
def targets() -> Tensor:
    return torch.randint(0, VOCABULARY, (ROWS,), generator=torch.Generator().manual_seed(29))


Statistics = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def eager(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """What anyone writes first."""
    log_p = torch.log_softmax(z.float(), -1)
    return log_p.gather(-1, y[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


def row_by_row(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Log-softmax of a row at a time in the dtype of the logits; entropy of 128 rows at a time."""
    chosen = torch.stack([torch.log_softmax(row, -1)[token] for row, token in zip(z, y, strict=True)])
    entropies = []
    for chunk in z.split(128):
        log_p = torch.log_softmax(chunk, -1)
        entropies.append(-(log_p.exp() * log_p).sum(-1))
    return chosen, torch.cat(entropies)


def row_by_row_and_chunks(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same log-probs; entropy as logsumexp - sum p z, in float32, of 2048 rows at a time."""
    chosen = torch.stack([torch.log_softmax(row, -1)[token] for row, token in zip(z, y, strict=True)])
    entropies = []
    for chunk in z.split(2048):
        wide = chunk.float()
        entropies.append(torch.logsumexp(wide, -1) - (torch.softmax(wide, -1) * wide).sum(-1))
    return chosen, torch.cat(entropies)


def ours(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    found = row_stats(z, y)
    return found.log_probs, found.entropy


TRL, VERL, COMPILED = "the formulas of TRL's fallback", "the formulas of verl's fallback", "torch.compile"


def peers() -> dict[str, Statistics]:
    return {"eager": eager, TRL: row_by_row, VERL: row_by_row_and_chunks, COMPILED: torch.compile(eager, dynamic=False)}


def keep_freed_memory() -> None:
    """Tells the C library to keep large blocks. It would give each back to the system, and each call would wait for new
    pages: most of all the peers, which hold several copies of the logits.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2
    library = ctypes.CDLL(None)
    for option, value in ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 1 << 30)):
        assert library.mallopt(option, value) == 1


def forward(call: Statistics, dtype: torch.dtype) -> Callable[[Any], list[Tensor]]:
    return lambda _: list(call(logits(dtype), targets()))


def both_ways(call: Statistics, dtype: torch.dtype) -> Callable[[Any], list[Tensor]]:
    def run(_: Any) -> list[Tensor]:
        z = logits(dtype).detach().requires_grad_()
        log_probs, entropy = call(z, targets())
        (gradient,) = torch.autograd.grad(log_probs.float().sum() + ENTROPY_GRADIENT * entropy.float().sum(), z)
        return [log_probs.detach(), entropy.detach(), gradient]

    return run


def close(dtype: torch.dtype) -> Callable[[str, Any, Any], None]:
    """Peers that work in bfloat16 throughout are off by that much."""

    def same(name: str, mine: list[Tensor], theirs: list[Tensor]) -> None:
        loose = dtype == torch.bfloat16 and name in (TRL, VERL)
        for one, other in zip(mine, theirs, strict=True):
            gap = (one.float() - other.float()).abs().max().item()
            assert gap < (0.2 if loose else 1e-2 if other.dtype == torch.bfloat16 else 1e-3), f"{name}: {gap}"

    return same


def case(
    way: Callable[[Statistics, torch.dtype], Any], dtype: torch.dtype, passes: int, floors: dict[str, float]
) -> Case:
    return Case(
        ours=way(ours, dtype),
        peers={name: way(peer, dtype) for name, peer in peers().items()},
        same=close(dtype),
        floors=floors,
        traffic=passes * ROWS * VOCABULARY * dtype.itemsize,
    )


@benchmark("rows", f"log-prob and entropy of [{ROWS}, {VOCABULARY}] in bfloat16")
def forward_bfloat16() -> Case:
    return case(forward, torch.bfloat16, 1, {"eager": 8, COMPILED: 3.2, TRL: 8, VERL: 13})


@benchmark("rows", f"log-prob and entropy of [{ROWS}, {VOCABULARY}] in float32")
def forward_float32() -> Case:
    return case(forward, torch.float32, 1, {})


@benchmark("rows", f"log-prob and entropy of [{ROWS}, {VOCABULARY}] and their gradient in bfloat16")
def both_ways_bfloat16() -> Case:
    return case(both_ways, torch.bfloat16, 3, {})


@benchmark("rows", f"log-prob and entropy of [{ROWS}, {VOCABULARY}] and their gradient in float32")
def both_ways_float32() -> Case:
    return case(both_ways, torch.float32, 3, {})
