"""Rules: what loss a token has, given its log-probs and its advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from tallystick._arrays import as_number
from tallystick._optional import require
from tallystick.errors import UnsupportedError
from tallystick.objectives.aggregation import Aggregation

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")

LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class TokenInputs:
    """What a rule reads: tensors of one shape, finite everywhere, 0 on dead positions.

    Args:
        log_probs: log-probs under the policy; the one that carries a gradient.
        old_log_probs: log-probs under the policy that the ratio is taken against.
        advantages: advantages of the tokens.
    """

    log_probs: Tensor
    old_log_probs: Tensor
    advantages: Tensor

    def log_ratio(self) -> Tensor:
        """log_probs - old_log_probs, clamped at +-20; outside, its gradient is 0."""
        return (self.log_probs - self.old_log_probs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


@runtime_checkable
class Rule(Protocol):
    """A policy loss, token by token."""

    aggregation: ClassVar[Aggregation]
    """How the losses become one number where the caller does not say."""

    def token_losses(self, tokens: TokenInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each token, and by name what is to be averaged over live tokens as a metric."""
        ...


@dataclass(frozen=True)
class PPOClip:
    """The clipped surrogate.

    With r = exp(log_probs - old_log_probs), L = max(-A r, -A clip(r, 1 - low, 1 + high)), for A < 0 at most -A dual.
    The gradient by log_probs is -A r where r is inside (below 1 + high for A >= 0; above 1 - low and below dual for
    A < 0) and 0 elsewhere.

    Args:
        low: how far below 1 the ratio may fall before a negative advantage stops pushing.
        high: how far above 1 it may rise before a positive advantage stops pushing; above `low` it is clip-higher.
        dual: the ratio beyond which a negative advantage stops pushing, above 1; None: it never stops.

    Raises:
        UnsupportedError: a bound outside its range.
        DTypeError, NonFiniteError: a bound that is no number.

    Source:
        Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv 1707.06347, equation 7; `dual`: Ye et al.
        2020, arXiv 1912.09729; `high`: Yu et al. 2025, DAPO, arXiv 2503.14476.
    """

    low: float = 0.2
    high: float = 0.2
    dual: float | None = None

    aggregation: ClassVar[Aggregation] = "token-mean"

    def __post_init__(self) -> None:
        for name, bound in (("low", self.low), ("high", self.high)):
            if as_number(name, bound, finite=False) < 0:
                raise UnsupportedError(f"`{name}` must not be negative, found {bound}", name)
        if self.dual is not None and as_number("dual", self.dual, finite=False) <= 1:
            raise UnsupportedError(f"`dual` must be above 1, found {self.dual}", "dual")

    def token_losses(self, tokens: TokenInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each token; metrics as verl names them."""
        log_ratio = tokens.log_ratio()
        ratio = log_ratio.exp()
        plain = -tokens.advantages * ratio
        clipped = -tokens.advantages * ratio.clamp(1 - self.low, 1 + self.high)
        losses = torch.maximum(plain, clipped)
        metrics = {"ppo_kl": -log_ratio, "pg_clipfrac": clipped > plain}
        if self.dual is not None:
            most = -tokens.advantages * self.dual
            capped = (tokens.advantages < 0) & (losses > most)
            losses = torch.where(capped, most, losses)
            metrics["pg_clipfrac_lower"] = capped
        return losses, metrics
