"""Grouping and normalising rows."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import tallystick as ts
import torch
from numpy.typing import NDArray

from benches.registry import Case, benchmark

TASKS, ROWS = 1250, 100_000
EPS = 1e-6


@lru_cache(maxsize=1)
def observations() -> tuple[list[str], NDArray[np.int64]]:
    """1e5 texts of 200 to 2000 characters and their tasks; the 80 rows of a task meet in 32 states of its own."""
    rng = np.random.default_rng(3)
    letters = "".join(map(chr, rng.choice(np.frombuffer(b"abcdefghij ", np.uint8), 1 << 20)))
    starts, lengths = rng.integers(0, len(letters) - 2000, (TASKS, 32)), rng.integers(200, 2001, (TASKS, 32))
    task = np.repeat(np.arange(TASKS), ROWS // TASKS)
    state = rng.integers(0, 32, ROWS)
    corners = zip(starts[task, state].tolist(), lengths[task, state].tolist(), strict=True)
    return [letters[a : a + n] for a, n in corners], task


def new_strings() -> list[str]:
    """The same texts as objects whose hash Python has not computed yet."""
    return [text.encode().decode() for text in observations()[0]]


@lru_cache(maxsize=1)
def uids() -> NDArray[Any]:
    """Task ids as trainers carry them: one uuid string a task, in an object column."""
    rng = np.random.default_rng(5)
    names = np.array([str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(TASKS)], dtype=object)
    return names[observations()[1]]


def same_partition(name: str, ours: Any, theirs: Any) -> None:
    first: dict[Any, int] = {}
    np.testing.assert_array_equal(ours, [first.setdefault(label, len(first)) for label in theirs], err_msg=name)


def lists_with_scans(data: tuple[list[str], NDArray[Any]]) -> NDArray[Any]:
    """A scan of all rows for each task, then a dictionary of lists: the usual step grouping of agent trainers."""
    texts, index = np.array(data[0], dtype=object), data[1]
    labels = np.empty(len(texts), dtype=object)
    for task in np.unique(index):
        rows = np.where(index == task)[0]
        clusters = defaultdict(list)
        for i, text in enumerate(texts[rows]):
            clusters[hashable(text)].append(rows[i])
        for members in clusters.values():
            label = str(uuid.uuid4())
            for row in members:
                labels[row] = label
    assert None not in labels
    return labels


def hashable(observation: Any) -> Any:
    """As those trainers do before a lookup, since an observation may also be an array or a dictionary."""
    if isinstance(observation, (int, float, str, bool)):
        return observation
    if isinstance(observation, np.ndarray):
        return tuple(observation.flatten())
    return tuple(sorted(observation.items()))


def plain_dict(texts: list[str]) -> list[int]:
    ids: dict[tuple[int, str], int] = {}
    return [
        ids.setdefault((task, text), len(ids)) for task, text in zip(observations()[1].tolist(), texts, strict=True)
    ]


def exact(texts: list[str]) -> NDArray[np.int64]:
    return ts.states.groups(texts, observations()[1])[0]


def text_bytes() -> int:
    return sum(map(len, observations()[0]))


def against_lists(rows: NDArray[np.int64], index: NDArray[Any]) -> Case:
    name = "dictionary of lists, a scan per task"
    return Case(
        ours=lambda data: ts.states.groups(*data)[0],
        peers={name: lists_with_scans},
        same=same_partition,
        fresh=lambda: (np.array(new_strings(), dtype=object)[rows].tolist(), index),
        floors={name: 80},
        traffic=text_bytes(),
    )


@benchmark("groups", "exact groups of 1e5 texts, 1250 tasks named by uuid, in order")
def groups_by_uid() -> Case:
    return against_lists(np.arange(ROWS), uids())


@benchmark("groups", "exact groups of 1e5 texts, 1250 tasks named by uuid, a shuffled batch read back from disk")
def groups_by_uid_shuffled() -> Case:
    shuffled = np.random.default_rng(23).permutation(ROWS)
    one_object_a_row = np.array([uid.encode().decode() for uid in uids()], dtype=object)
    return against_lists(shuffled, one_object_a_row[shuffled])


@benchmark("groups", "exact groups of 1e5 texts, fresh strings")
def groups_fresh() -> Case:
    name = "dict keyed (task, text)"
    return Case(exact, {name: plain_dict}, same_partition, new_strings, {name: 3.5}, text_bytes())


@benchmark("groups", "exact groups of 1e5 texts, strings with a cached hash")
def groups_cached() -> Case:
    name = "dict keyed (task, text)"
    texts = new_strings()
    plain_dict(texts)
    return Case(exact, {name: plain_dict}, same_partition, lambda: texts, {name: 2.5}, text_bytes())


@benchmark("groups", "exact groups of 1e5 texts, two threads")
def groups_threaded() -> Case:
    return Case(
        exact, {"dict keyed (task, text)": plain_dict}, same_partition, new_strings, {}, text_bytes(), threads=2
    )


def torch_loop(data: tuple[torch.Tensor, NDArray[Any]]) -> NDArray[np.float32]:
    """Step normalisation as agent trainers write it: dictionaries of lists of scalar tensors."""
    rewards, index = data
    scores = rewards.clone()
    members, mean, std = defaultdict(list), {}, {}
    for i in range(len(scores)):
        members[index[i]].append(scores[i])
    for label, values in members.items():
        mean[label] = torch.mean(torch.tensor(values))
        std[label] = torch.std(torch.tensor(values)) if len(values) > 1 else torch.tensor(1.0)
    for i in range(len(scores)):
        scores[i] = (scores[i] - mean[index[i]]) / (std[index[i]] + EPS)
    return scores.numpy()


def step_normalisation(hot: bool) -> Case:
    texts, task = observations()
    ids, _ = ts.states.groups(texts, task)
    labels = np.array([str(uuid.uuid4()) for _ in range(int(ids.max()) + 1)], dtype=object)[ids]
    returns = np.random.default_rng(7).standard_normal(ROWS).astype(np.float32)
    return Case(
        ours=lambda _: ts.group_normalize(returns, ids, eps=EPS),
        peers={"Python loop over tensors": lambda _: torch_loop((torch.from_numpy(returns), labels))},
        same=lambda name, a, b: np.testing.assert_allclose(a, b, atol=1e-3, err_msg=name),  # theirs is float32
        floors={"Python loop over tensors": 1000},
        hot=hot,
    )


@benchmark("groups", "step normalisation of 1e5 rows, hot")
def normalise_hot() -> Case:
    return step_normalisation(hot=True)


@benchmark("groups", "step normalisation of 1e5 rows, in the call right after the loop")
def normalise_after() -> Case:
    return step_normalisation(hot=False)


def close(name: str, ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=name)


def numpy_unique(x: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float32]:
    _, dense = np.unique(group, return_inverse=True)
    return numpy_bincount(x, dense)


def numpy_bincount(x: NDArray[np.float64], dense: NDArray[np.int64]) -> NDArray[np.float32]:
    count = np.bincount(dense)
    deviation = x - (np.bincount(dense, x) / count)[dense]
    std = np.sqrt(np.bincount(dense, deviation**2) / (count - 1))
    return (deviation / (std[dense] + EPS)).astype(np.float32)


def million(order: Callable[[NDArray[np.int64]], NDArray[np.int64]], floor: float) -> Case:
    n = 1_000_000
    group = order(np.repeat(np.arange(n // 8), 8))
    x = np.random.default_rng(11).standard_normal(n)
    return Case(
        ours=lambda _: ts.group_normalize(x, group, eps=EPS),
        peers={
            "NumPy, unique + bincount": lambda _: numpy_unique(x, group),
            "NumPy, bincount alone (ids are dense already)": lambda _: numpy_bincount(x, group),
        },
        same=close,
        floors={"NumPy, unique + bincount": floor},
        traffic=n * (8 + 8 + 4),
    )


@benchmark("groups", "group_normalize of 1e6 rows, groups of 8 in order")
def million_in_order() -> Case:
    return million(lambda group: group, 5)


@benchmark("groups", "group_normalize of 1e6 rows, groups of 8 shuffled")
def million_shuffled() -> Case:
    return million(np.random.default_rng(13).permutation, 2.5)


@benchmark("groups", "group_ids of 1e6 rows, two integer columns")
def ids_of_integers() -> Case:
    rng = np.random.default_rng(17)
    prompt, turn = rng.integers(0, 20_000, 1_000_000), rng.integers(0, 10, 1_000_000)

    def numpy_rows(_: Any) -> NDArray[Any]:
        return np.unique(np.stack([prompt, turn], axis=1), axis=0, return_inverse=True)[1]

    def dictionary(_: Any) -> list[int]:
        ids: dict[tuple[int, int], int] = {}
        return [ids.setdefault(key, len(ids)) for key in zip(prompt.tolist(), turn.tolist(), strict=True)]

    return Case(
        ours=lambda _: ts.group_ids(prompt, turn)[0],
        peers={"NumPy, unique of rows": numpy_rows, "dict keyed by tuple": dictionary},
        same=same_partition,
        traffic=2 * prompt.nbytes,
    )
