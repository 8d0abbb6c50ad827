from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

def cpu_features() -> list[str]: ...
def num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def segment_count(length: int, offsets: NDArray[np.int64], mask: NDArray[np.bool_] | None) -> NDArray[np.int64]: ...
def segment_reduce(
    values: NDArray[Any], offsets: NDArray[np.int64], op: str, ddof: int, mask: NDArray[np.bool_] | None
) -> NDArray[Any]: ...
def segment_reduce_integers(
    values: NDArray[np.int64], offsets: NDArray[np.int64], op: str, mask: NDArray[np.bool_] | None
) -> NDArray[np.int64]: ...
def reverse_scan(
    values: NDArray[Any],
    offsets: NDArray[np.int64],
    decay: float | NDArray[np.float64],
    mask: NDArray[np.bool_] | None,
    dead: str,
) -> NDArray[Any]: ...
def prefix_scan(
    values: NDArray[Any], offsets: NDArray[np.int64], exclusive: bool, mask: NDArray[np.bool_] | None
) -> NDArray[Any]: ...
def prefix_scan_integers(
    values: NDArray[np.int64], offsets: NDArray[np.int64], exclusive: bool, mask: NDArray[np.bool_] | None
) -> NDArray[np.int64]: ...

# Advantages and returns, both in the one dtype of `rewards` and `values`; rewards and values on dead tokens are unused.
def gae(
    rewards: NDArray[Any],
    values: NDArray[Any],
    offsets: NDArray[np.int64],
    gamma: float,
    lam: float,
    mask: NDArray[np.bool_] | None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...

# Rewards with those on dead tokens moved to the last live token before them (the first live one where none is before).
def rewards_on_live(rewards: NDArray[Any], offsets: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[Any]: ...
def group_ids(columns: list[tuple[str, Any, bool]]) -> tuple[NDArray[np.int64], int]: ...
def state_keys(scopes: list[tuple[str, list[Any]]], observations: list[Any]) -> NDArray[np.uint64]: ...
def clusters(
    vectors: NDArray[Any], dimensions: int, scope: NDArray[np.int64], threshold: float, mean: bool
) -> NDArray[np.int64]: ...
def text_clusters(
    points: NDArray[np.uint32], offsets: NDArray[np.int64], scope: NDArray[np.int64], threshold: float
) -> NDArray[np.int64]: ...
def group_normalize(
    x: NDArray[Any],
    group: NDArray[np.int64],
    center: str | NDArray[np.float64],
    scale: str | NDArray[np.float64],
    ddof: int,
    eps: float,
    singleton: str,
    zero_variance: str,
    weight: NDArray[np.float64] | None,
    unit: NDArray[np.int64] | None,
    mask: NDArray[np.bool_] | None,
) -> NDArray[np.float32]: ...
def group_rank(x: NDArray[Any], group: NDArray[np.int64], descending: bool, seed: int) -> NDArray[np.int64]: ...
def random_uniforms(seed: int, step: int, ids: NDArray[np.int64], purpose: str, size: int) -> NDArray[np.float64]: ...
def random_integers(
    seed: int, step: int, ids: NDArray[np.int64], purpose: str, size: int, high: int
) -> NDArray[np.int64]: ...
def random_permutation(seed: int, step: int, purpose: str, n: int) -> NDArray[np.int64]: ...

# Of logits [T, V] whose rows lie in one piece each: float32, or the bits of `kind`, "bfloat16" or "float16", as uint16.
# Log-probs of the targets, entropy, logsumexp, log of the sum of squared probabilities, mean logit and log(1 - p), [T]
# each, and log-probs of the listed ids [T * K].
def row_stats(
    logits: NDArray[Any], kind: str, targets: NDArray[np.int64], ids: NDArray[np.int64], listed: int, scale: float
) -> list[NDArray[np.float32]]: ...

# Writes to `out` [T * V]. `saved` are the first four that `row_stats` returns, `upstream` the gradients of all seven.
def row_grad(
    logits: NDArray[Any],
    kind: str,
    targets: NDArray[np.int64],
    ids: NDArray[np.int64],
    listed: int,
    scale: float,
    saved: list[NDArray[np.float32]],
    upstream: list[NDArray[np.float32]],
    out: NDArray[Any],
) -> None: ...
