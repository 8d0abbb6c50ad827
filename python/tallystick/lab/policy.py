"""A small decoder-only transformer that samples with a cache and scores in one pass, with equal log-probs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tallystick.lab.rollouts import PAD


@dataclass(frozen=True)
class PolicyConfig:
    """Size of the decoder-only transformer.

    Args:
        vocabulary: number of tokens, `PAD` = 0 included.
        slots: number of places within a frame, each with its learned embedding.
        width: size of the residual stream.
        layers: number of blocks.
        heads: attention heads; `width` is a multiple of it.
        spread: deviation of the first weights of the linear maps, in units of fan-in^-1/2.
    """

    vocabulary: int
    slots: int
    width: int = 96
    layers: int = 3
    heads: int = 4
    spread: float = 1.0


class Policy(nn.Module):
    """Decoder-only transformer: pre-LayerNorm, GELU 4x, RoPE beside a learned embedding of the place in the frame.

    The last linear map of each residual branch starts at zero, so that a fresh policy is its embedding alone.

    Args:
        config: its size.
        seed: of the initial weights.
    """

    def __init__(self, config: PolicyConfig, seed: int) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.slot = nn.Embedding(config.slots, config.width)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                nn.init.zeros_(weight)
            elif weight.ndim == 2:
                embedding = name in ("token.weight", "slot.weight")
                std = 1.0 if embedding else config.spread * weight.shape[1] ** -0.5
                nn.init.normal_(weight, std=std, generator=generator)

    def score(self, tokens: Tensor, slots: Tensor, response_mask: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Log-probabilities of the m chosen tokens in nats, float32 [m] in the row-major order of `response_mask`.

        Args:
            tokens: int64 [B, T].
            slots: int64 [B, T].
            response_mask: bool [B, T], never True at t = 0.
            allowed: bool [m, V], the tokens that each was drawn from; None where every token but `PAD` was open.
        """
        hidden = self.token(tokens) + self.slot(slots)
        rotation = _rotation(self.config, 0, tokens.shape[1])
        mask = _mask(tokens) if bool((tokens[:, 0] == PAD).any()) else None
        *lower, last = self.stack()
        for block in lower:
            hidden = block(hidden, block.attended(hidden, rotation, mask))
        # what the top block writes is read only where a token was chosen next
        before = response_mask[:, 1:]
        attended = last.attended(hidden, rotation, mask)[:, :-1][before]
        hidden = last(hidden[:, :-1][before], attended)
        log_probs = _log_softmax(self.head(self.norm(hidden)), allowed)
        chosen = tokens[response_mask]
        return log_probs.gather(1, chosen[:, None])[:, 0]

    def stack(self) -> list[_Block]:
        """The blocks, bottom first."""
        return cast(list[_Block], list(self.blocks))


class Decoder:
    """A batch of sequences that the policy reads and writes, with a cache of what it has read.

    Args:
        policy: whose weights must not change while the decoder is used.
        batch: number of sequences.
        capacity: tokens that each can hold.
    """

    def __init__(self, policy: Policy, batch: int, capacity: int) -> None:
        c = policy.config
        self._policy = policy
        self._length = 0
        self._padded = False
        self._tokens = torch.zeros(batch, capacity, dtype=torch.int64)
        self._cache = torch.empty(c.layers, 2, batch, c.heads, capacity, c.width // c.heads)

    @torch.no_grad()
    def feed(self, tokens: NDArray[np.int64], slots: NDArray[np.int64]) -> Tensor:
        """Reads k more tokens of every sequence and returns the logits [B, V] of what may follow.

        Args:
            tokens: int64 [B, k]; `PAD` where a shorter sequence has nothing.
            slots: int64 [B, k].
        """
        policy, start, stop = self._policy, self._length, self._length + tokens.shape[1]
        new = torch.from_numpy(tokens)
        self._tokens[:, start:stop] = new
        self._padded = self._padded or bool((tokens == PAD).any())
        mask = None
        if self._padded:
            mask = _mask(self._tokens[:, :stop], start)
        elif start and stop > start + 1:
            mask = torch.ones(stop - start, stop, dtype=torch.bool).tril(start)
        hidden = policy.token(new) + policy.slot(torch.from_numpy(slots))
        rotation = _rotation(policy.config, start, stop)
        for block, cache in zip(policy.stack(), self._cache, strict=True):
            hidden = block(hidden, block.attended(hidden, rotation, mask, cache, start))
        self._length = stop
        logits: Tensor = policy.head(policy.norm(hidden[:, -1]))
        return logits

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Goes on with these sequences only, in this order."""
        index = torch.from_numpy(rows)
        self._tokens = self._tokens[index]
        read = self._length
        for layer in self._cache:  # in place, a layer at a time: fresh memory would cost more than the copy
            layer[:, : len(rows), :, :read] = layer[:, index, :, :read]
        self._cache = self._cache[:, :, : len(rows)]

    def repeat(self, rows: NDArray[np.int64]) -> None:
        """Goes on with copies of these sequences, any number of each, in this order."""
        index = torch.from_numpy(rows)
        self._tokens = self._tokens[index]
        cache = self._cache.new_empty(*self._cache.shape[:2], len(rows), *self._cache.shape[3:])
        cache[..., : self._length, :] = self._cache[:, :, index, :, : self._length]
        self._cache = cache


def sample(
    logits: Tensor, uniform: NDArray[np.float64] | None, allowed: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """One token a row by inverse distribution function, and its log-probability.

    The token is the first whose cumulated probability exceeds `uniform`.

    Args:
        logits: float32 [B, V].
        uniform: float64 [B] in [0, 1); None takes the most probable token.
        allowed: bool [B, V], at least one True a row; None where every token but `PAD` is open.

    Returns:
        tokens int64 [B], log_probs float32 [B] in nats.
    """
    log_probs = _log_softmax(logits, None if allowed is None else torch.from_numpy(allowed))
    if uniform is None:
        chosen = log_probs.argmax(-1)
    else:
        cumulated = log_probs.double().exp().cumsum(-1)
        # scaled by the total, so that rounding cannot leave the last token short of 1
        threshold = torch.from_numpy(uniform)[:, None] * cumulated[:, -1:]
        chosen = (cumulated <= threshold).sum(-1)
    return chosen.numpy(), log_probs.gather(1, chosen[:, None])[:, 0].numpy()


class _Block(nn.Module):
    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attended(
        self,
        hidden: Tensor,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: Tensor | None = None,
        start: int = 0,
    ) -> Tensor:
        """What the attention heads of each position gather [B, T, width]; keys and values go through `cache`."""
        batch, length, width = hidden.shape
        qkv = self.qkv(self.norm_attention(hidden)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        cosine, sine = rotation
        low, high = qkv[:2].chunk(2, -1)
        query, key = torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)
        value = qkv[2]
        if cache is not None:
            stop = start + length
            cache[0, :, :, start:stop] = key
            cache[1, :, :, start:stop] = value
            key, value = cache[0, :, :, :stop], cache[1, :, :, :stop]
        causal = mask is None and length > 1
        gathered = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return gathered.transpose(1, 2).reshape(batch, length, width)

    def forward(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after this block, position by position."""
        hidden = hidden + self.out(attended)
        written: Tensor = self.down(F.gelu(self.up(self.norm_mlp(hidden))))
        return hidden + written


def _rotation(config: PolicyConfig, start: int, stop: int) -> tuple[Tensor, Tensor]:
    half = config.width // config.heads // 2
    frequency = 10000.0 ** (-torch.arange(half) / half)
    angle = torch.arange(start, stop)[:, None] * frequency
    return angle.cos(), angle.sin()


def _mask(tokens: Tensor, start: int = 0) -> Tensor:
    """What the tokens from `start` on attend to: everything up to themselves but padding (padding sees itself)."""
    length = tokens.shape[1]
    causal = torch.ones(length - start, length, dtype=torch.bool).tril(start)
    itself = torch.eye(length, dtype=torch.bool)[start:]
    return (causal & (tokens != PAD)[:, None, :] | itself)[:, None]


def _log_softmax(logits: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is None:  # padding is never written: nothing would attend to it
        allowed = torch.arange(logits.shape[-1]) != PAD
    log_probs: Tensor = F.log_softmax(logits.masked_fill(~allowed, -torch.inf), -1)
    return log_probs
