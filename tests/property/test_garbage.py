"""Whatever is given to a public function of floors 0 and 1, it answers rightly or raises an error of our tree.

A panic, a crash, a hang or any other exception fails. The public functions are found, not listed: a new one fails here
until it says what it takes and what a right answer is.
"""

import faulthandler
import math
import subprocess
import sys
import tempfile
import types
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import tallystick as ts
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tallystick.errors import TallystickError

HANGS_AFTER_S = 60
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
ROOMS = {f"tallystick.{room}" for room in ("ragged", "groups", "states", "random", "batch", "plan", "rows", "_threads")}


def public_functions():
    """Names of the functions, classes, methods and properties that floors 0 and 1 show."""

    def home(owner):
        return owner.__module__ if isinstance(owner, type) else owner.__name__

    def shown(owner, prefix):
        for name in owner.__all__ if owner is ts else [name for name in vars(owner) if not name.startswith("_")]:
            value = getattr(owner, name)
            if isinstance(value, types.ModuleType):
                if value.__name__ in ROOMS:
                    yield from shown(value, f"{name}.")
            elif isinstance(value, property):
                yield f"{prefix}{name}"
            elif callable(value) and getattr(value, "__module__", None) in (ROOMS if owner is ts else {home(owner)}):
                yield f"{prefix}{name}"
                if isinstance(value, type):
                    yield from shown(value, f"{prefix}{name}.")

    return set(shown(ts, ""))


# What users might pass. `hostile` is anything at all; the other strategies are mostly what the argument asks for, and
# small, so that many examples get past the first check.
DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.unicode_string_dtypes(max_len=4),
    hnp.byte_string_dtypes(max_len=4),
    st.sampled_from([np.dtype(object), np.dtype(np.longdouble), np.dtype([("a", "i4"), ("b", "f8")])]),
)
HOSTILE_FLOATS = st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e308, -1e308, math.nan, math.inf, -math.inf])
HUGE = st.sampled_from([2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    HUGE,
    st.floats(),
    HOSTILE_FLOATS,
    st.text(st.characters(exclude_categories=()), max_size=4),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.sampled_from(
        [object(), ..., NotImplemented, int, len, iter(()), range(3), {1}, frozenset({1}), np.datetime64("NaT")]
    ),
)
NESTED = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
HOSTILE = st.one_of(NESTED, hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))


def mostly(good, bad=HOSTILE, share=9):
    """`good` in `share` of ten examples."""
    return st.integers(0, 9).flatmap(lambda draw: good if draw < share else bad)


def arrayed(values):
    """An array of whatever dtype NumPy finds; of objects where it finds none."""
    try:
        return np.array(values)
    except (ValueError, OverflowError):
        return np.array(values, dtype=object)


def column(elements, size):
    listed = st.lists(elements, min_size=size, max_size=size)
    return mostly(listed | listed.map(arrayed))


def option(*names):
    return mostly(st.sampled_from(names), st.sampled_from(["", "no such option", None, 3, b"mean", [], names]))


def optional(strategy):
    return st.none() | strategy


REALS = mostly(st.floats(-1e3, 1e3), HOSTILE_FLOATS, share=9)
IDS = st.integers(-2, 3)
LABELS = st.one_of(IDS, st.text(max_size=2), st.binary(max_size=2), st.floats(), st.none(), st.booleans())
SIZES = st.integers(0, 6)


def reals(size):
    return column(REALS, size)


def masks(size):
    return column(st.booleans() | st.integers(0, 1), size)


@st.composite
def offsets(draw, size, segments=None):
    count = draw(st.integers(0, 4)) if segments is None else segments
    if count == 0 and size:
        count = 1
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=max(count - 1, 0), max_size=max(count - 1, 0))))
    edges = [0, *cuts, size] if count else [0]
    return draw(
        mostly(st.just(edges) | st.just(np.array(edges)), st.lists(st.integers(-2, 8) | HUGE, max_size=5) | HOSTILE)
    )


def dense(ids, n, n_groups=None):
    """Ids count up from 0 in order of first appearance."""
    assert ids.dtype == np.int64
    assert ids.shape == (n,)
    seen = list(dict.fromkeys(ids.tolist()))
    assert seen == list(range(len(seen)))
    assert n_groups in (None, len(seen))


@dataclass(frozen=True)
class Call:
    """A public function, the arguments that it is tried with, and what its answers hold."""

    function: object
    arguments: st.SearchStrategy
    holds: object = lambda answer, arguments: None


def sized(build):
    """Keyword arguments whose columns agree on one small size."""
    return SIZES.flatmap(lambda size: st.fixed_dictionaries(build(size)))


def fixed(**strategies):
    return st.fixed_dictionaries(strategies)


def steps():
    return st.integers(0, 3).flatmap(
        lambda length: st.fixed_dictionaries(
            {
                "tokens": column(st.integers(0, 9), length),
                "rewards": st.one_of(REALS, reals(length)),
                "uid": mostly(LABELS),
            },
            optional={
                "response_mask": masks(length),
                "old_log_probs": reals(length),
                "rollout_log_probs": reals(length),
                "state": mostly(st.text(max_size=3)),
                "step": mostly(st.integers(0, 3)),
                "more": HOSTILE,
            },
        )
    )


def grid(elements, rows, width):
    return mostly(
        st.lists(st.lists(elements, min_size=width, max_size=width), min_size=rows, max_size=rows).map(
            lambda table: np.array(table).reshape(rows, width)
        )
    )


@st.composite
def padded(draw):
    n, width = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    live = [[t < draw(st.integers(0, width)) for t in range(width)] for _ in range(n)]
    choices = {
        "tokens": grid(st.integers(0, 9), n, width),
        "response_mask": mostly(st.just(np.array(live, dtype=bool).reshape(n, width)), HOSTILE | grid(IDS, n, width)),
        "rewards": st.one_of(reals(n), grid(REALS, n, width), st.just(np.zeros((n, width, 1)))),
        "uid": column(IDS, n) | column(st.text(max_size=2), n) | column(LABELS, n),
    }
    more = {
        "lengths": column(st.integers(0, width), n),
        "old_log_probs": grid(REALS, n, width),
        "rollout_log_probs": grid(REALS, n, width),
        "trajectory": column(LABELS, n),
        "step": column(IDS, n),
        "state": column(st.text(max_size=3), n),
        "version": column(IDS, n),
        "per_token": mostly(st.dictionaries(st.text(max_size=3), grid(IDS, n, width), max_size=2)),
        "per_row": mostly(st.dictionaries(st.text(max_size=3), column(LABELS, n), max_size=2)),
    }
    return draw(st.fixed_dictionaries(choices, optional=more))


def tensors(values, dtype):
    """Tensors of what fits `dtype`, the rest as it is."""

    def made(value):
        try:
            return torch.as_tensor(np.asarray(value, dtype=np.float64)).to(dtype)
        except (TypeError, ValueError, OverflowError, Warning):  # a warning where a part would be lost
            return value

    return values.map(made)


def logit_rows():
    kinds = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
    return st.tuples(st.integers(0, 4), st.integers(1, 5), st.integers(0, 3), kinds).flatmap(
        lambda size: fixed(
            logits=tensors(grid(REALS | st.floats(), size[0], size[1]), size[3]),
            targets=tensors(column(st.integers(0, size[1] - 1), size[0]), torch.int64),
            ids=optional(tensors(grid(st.integers(-1, size[1] - 1), size[0], size[2]), torch.int32)),
            temperature=mostly(st.floats(0.1, 3)),
        )
    )


def statistics(answer, arguments):
    rows = len(arguments["logits"])
    assert [len(column) for column in answer] == [rows] * 7
    assert not (answer.log_probs > 0).any()
    assert not (answer.entropy < 0).any()


BATCHES = st.lists(
    st.fixed_dictionaries(
        {"tokens": st.lists(st.integers(0, 9), max_size=3), "rewards": st.floats(-1, 1), "uid": st.text(max_size=2)}
    ),
    min_size=1,
    max_size=4,
).map(ts.RolloutBatch.from_steps)
PLANS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=4).map(
    lambda rows: ts.RolloutPlan(prompt=[row[0] for row in rows], count=[row[1] for row in rows])
)
STREAMS = st.integers(0, 2**64 - 1).map(ts.random.Stream)


def sound(batch, _=None):
    batch.validate()
    again = ts.RolloutBatch.from_padded(**batch.to_padded())
    assert again.names == batch.names
    for name in batch.names:
        np.testing.assert_array_equal(again[name], batch[name])


def sound_plan(plan, _=None):
    assert len(plan.expand()) == plan.count.sum()


def written(save, load):
    """Saves under an arbitrary last name, then loads."""

    def call(thing):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            save(thing, path)
            return load(path)

    return call


def loaded(load):
    """Loads a file of arbitrary bytes."""

    def call(data):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.write_bytes(data)
            return load(path)

    return call


FILES = st.binary(max_size=64) | st.binary(max_size=24).map(lambda tail: len(tail).to_bytes(8, "little") + tail)


def of_length(n, dtype):
    def holds(answer, arguments):
        assert answer.dtype == dtype
        assert len(answer) == len(arguments[n])

    return holds


def ranks(answer, arguments):
    ids, _ = ts.group_ids(arguments["group"])
    for group in np.unique(ids):
        assert sorted(answer[ids == group].tolist()) == list(range((ids == group).sum()))


def finite(answer, arguments):
    assert answer.dtype == np.float32
    assert len(answer) == len(arguments["x"])
    assert np.isfinite(answer).all()


def calls():
    batch, plan, stream = ts.RolloutBatch, ts.RolloutPlan, ts.random.Stream
    states = ts.states
    observations = st.lists(NESTED, max_size=5) | HOSTILE
    texts = st.text("ab", max_size=70)
    place = {
        "step": mostly(st.integers(-3, 3)),
        "id": mostly(IDS | st.lists(IDS, max_size=4)),
        "purpose": mostly(st.text()),
    }
    size = optional(mostly(st.integers(-1, 4), HOSTILE.filter(lambda value: not isinstance(value, int))))
    return {
        "num_threads": Call(ts.num_threads, fixed(), lambda answer, _: answer > 0),
        "set_num_threads": Call(ts.set_num_threads, fixed(n=mostly(st.integers(0, 3)))),
        "segment_reduce": Call(
            ts.segment_reduce,
            sized(
                lambda n: {
                    "values": reals(n) | column(IDS, n),
                    "offsets": offsets(n),
                    "op": option("sum", "mean", "min", "max", "std", "count"),
                    "mask": optional(masks(n)),
                    "ddof": mostly(st.integers(0, 1)),
                }
            ),
            lambda answer, arguments: len(answer) == len(arguments["offsets"]) - 1 or pytest.fail("length"),
        ),
        "reverse_scan": Call(
            ts.reverse_scan,
            sized(
                lambda n: {
                    "values": reals(n),
                    "offsets": offsets(n),
                    "decay": REALS | reals(n),
                    "mask": optional(masks(n)),
                    "dead": option("carry", "reset", "plain"),
                }
            ),
            lambda answer, arguments: np.isfinite(answer).all() or pytest.fail("not finite"),
        ),
        "prefix_scan": Call(
            ts.prefix_scan,
            sized(
                lambda n: {
                    "values": reals(n) | column(IDS, n),
                    "offsets": offsets(n),
                    "exclusive": mostly(st.booleans()),
                    "mask": optional(masks(n)),
                }
            ),
            lambda answer, arguments: np.isfinite(answer).all() or pytest.fail("not finite"),
        ),
        "group_ids": Call(
            lambda columns: ts.group_ids(*columns),
            fixed(columns=SIZES.flatmap(lambda n: st.lists(column(LABELS, n) | reals(n), max_size=3))),
            lambda answer, arguments: dense(answer[0], len(arguments["columns"][0]), answer[1]),
        ),
        "group_normalize": Call(
            ts.group_normalize,
            sized(
                lambda n: {
                    "x": reals(n),
                    "group": column(IDS, n) | column(LABELS, n),
                    "center": option("mean", "loo", "weighted", "none") | reals(n),
                    "scale": option("std", "batch_std", "none") | reals(n),
                    "ddof": mostly(st.integers(0, 1)),
                    "eps": mostly(st.floats(0, 1)),
                    "singleton": option("zero", "raw", "skip"),
                    "zero_variance": option("zero", "divide"),
                    "weight": optional(column(st.floats(0, 2), n)),
                    "unit": optional(column(IDS, n)),
                    "mask": optional(masks(n)),
                }
            ),
            finite,
        ),
        "group_rank": Call(
            ts.group_rank,
            sized(
                lambda n: {
                    "x": reals(n),
                    "group": column(IDS, n),
                    "descending": mostly(st.booleans()),
                    "seed": mostly(st.integers(0, 2**64 - 1)),
                }
            ),
            ranks,
        ),
        "rows.row_stats": Call(ts.rows.row_stats, logit_rows(), statistics),
        "rows.RowStats": Call(ts.rows.RowStats, fixed(**dict.fromkeys(ts.rows.RowStats._fields, HOSTILE))),
        "states.keys": Call(
            states.keys,
            fixed(observations=observations, scope=optional(st.lists(LABELS, max_size=5) | HOSTILE)),
            of_length("observations", np.uint64),
        ),
        "states.groups": Call(
            states.groups,
            fixed(
                observations=observations,
                scope=optional(st.lists(LABELS, max_size=5) | HOSTILE),
                canonical=optional(st.sampled_from([str, repr, len, ["a"], ["("], [b"a"], "a", 3, lambda row: 1 / 0])),
            ),
            lambda answer, arguments: dense(answer[0], len(arguments["observations"]), answer[1]),
        ),
        "states.clusters": Call(
            states.clusters,
            sized(
                lambda n: {
                    "vectors": st.integers(0, 9).flatmap(lambda width: grid(REALS, n, width)),
                    "scope": optional(column(IDS, n)),
                    "threshold": mostly(st.floats(-1, 1), HOSTILE),
                    "metric": option("cosine"),
                    "update": option("mean", "first"),
                }
            ),
            lambda answer, arguments: dense(answer, len(arguments["vectors"])),
        ),
        "states.text_clusters": Call(
            states.text_clusters,
            sized(
                lambda n: {
                    "observations": column(texts | st.text(st.characters(exclude_categories=())), n),
                    "scope": optional(column(IDS, n)),
                    "threshold": mostly(st.floats(0, 1), HOSTILE),
                }
            ),
            lambda answer, arguments: dense(answer, len(arguments["observations"])),
        ),
        "random.Stream": Call(stream, fixed(seed=mostly(st.integers(0, 2**64 - 1)))),
        "random.Stream.draw": Call(
            lambda stream, **place: stream.draw(**place),
            fixed(stream=STREAMS, size=size, **place),
            lambda answer, _: ((np.asarray(answer) >= 0) & (np.asarray(answer) < 1)).all() or pytest.fail("range"),
        ),
        "random.Stream.integers": Call(
            lambda stream, **place: stream.integers(**place),
            fixed(stream=STREAMS, size=size, high=mostly(st.integers(1, 5)), **place),
            lambda answer, arguments: (np.asarray(answer) < int(arguments["high"])).all() or pytest.fail("range"),
        ),
        "random.Stream.permutation": Call(
            lambda stream, **place: stream.permutation(**place),
            fixed(stream=STREAMS, n=mostly(st.integers(-1, 6)), step=place["step"], purpose=place["purpose"]),
            lambda answer, arguments: sorted(answer.tolist()) == list(range(int(arguments["n"]))) or pytest.fail("no"),
        ),
        "RolloutBatch": Call(
            batch,
            SIZES.flatmap(
                lambda n: fixed(
                    offsets=offsets(n, 2),
                    per_token=st.fixed_dictionaries(
                        {"tokens": column(IDS, n), "response_mask": masks(n)}, optional={"rewards": reals(n)}
                    ),
                    per_row=st.fixed_dictionaries({"uid": column(LABELS, 2)}, optional={"rewards": reals(2)}),
                )
            ),
            sound,
        ),
        "RolloutBatch.from_padded": Call(batch.from_padded, padded(), sound),
        "RolloutBatch.from_steps": Call(
            batch.from_steps,
            fixed(steps=st.lists(steps(), max_size=3) | HOSTILE, per_token=st.just(()) | st.just(("more",)) | HOSTILE),
            sound,
        ),
        "RolloutBatch.to_padded": Call(batch.to_padded, fixed(self=BATCHES, pad=mostly(st.integers(-1, 9)))),
        "RolloutBatch.padded": Call(batch.padded, fixed(self=BATCHES, values=HOSTILE | reals(2), fill=mostly(REALS))),
        "RolloutBatch.validate": Call(batch.validate, fixed(self=BATCHES)),
        "RolloutBatch.select": Call(
            batch.select,
            fixed(
                self=BATCHES, rows=mostly(st.lists(st.integers(0, 1), max_size=4), HOSTILE | HUGE.map(lambda i: [i]))
            ),
            sound,
        ),
        "RolloutBatch.concat": Call(
            batch.concat, fixed(batches=st.lists(BATCHES | HOSTILE, max_size=3) | HOSTILE), sound
        ),
        "RolloutBatch.broadcast": Call(batch.broadcast, fixed(self=BATCHES, per_row=HOSTILE | reals(1))),
        "RolloutBatch.save": Call(written(batch.save, batch.load), fixed(thing=BATCHES), sound),
        "RolloutBatch.load": Call(loaded(batch.load), fixed(data=FILES), sound),
        "RolloutBatch.names": Call(lambda it: it.names, fixed(it=BATCHES)),
        "RolloutBatch.lengths": Call(lambda it: it.lengths, fixed(it=BATCHES)),
        "RolloutBatch.outcomes": Call(lambda it: it.outcomes, fixed(it=BATCHES)),
        "RolloutPlan": Call(
            plan,
            sized(
                lambda n: {
                    "prompt": column(IDS, n) | column(LABELS, n),
                    "count": column(st.integers(0, 3), n) | st.integers(0, 3) | HUGE,
                    "temperature": optional(column(st.floats(0, 2), n)),
                    "variant": optional(column(LABELS, n)),
                    "node": optional(column(IDS, n)),
                    "role": optional(column(LABELS, n)),
                    "hint": optional(column(IDS, n)),
                }
            ),
            sound_plan,
        ),
        "RolloutPlan.expand": Call(plan.expand, fixed(self=PLANS), sound_plan),
        "RolloutPlan.save": Call(written(plan.save, plan.load), fixed(thing=PLANS), sound_plan),
        "RolloutPlan.load": Call(loaded(plan.load), fixed(data=FILES), sound_plan),
    }


CALLS = calls()
ts.rows.row_stats(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64))  # the first call of an op loads more of torch


@pytest.fixture(autouse=True)
def default_threads():
    yield
    ts.set_num_threads(0)


def test_every_public_function_is_tried():
    assert public_functions() == set(CALLS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_answer_or_an_error_of_ours(name):
    call = CALLS[name]

    @settings(max_examples=150, deadline=timedelta(seconds=5), suppress_health_check=list(HealthCheck), phases=PHASES)
    @given(call.arguments)
    def tried(arguments):
        faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
        try:
            call.holds(call.function(**arguments), arguments)
        except TallystickError:
            pass
        finally:
            faulthandler.cancel_dump_traceback_later()

    tried()


HUGE_VALUES = """
import resource, sys
import numpy as np
import tallystick as ts
from tallystick.errors import TallystickError

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
ones, stream = np.ones(3), ts.random.Stream(0)
batch = ts.RolloutBatch.from_steps([{"tokens": [1], "rewards": 0.0, "uid": 0}])
top = 2**63 - 1
calls = {
    "offsets near 2**63": lambda: ts.segment_reduce(ones, np.array([0, top]), "sum"),
    "offsets that wrap": lambda: ts.segment_reduce(ones, np.array([0, top, 3]), "mean"),
    "offsets at -2**63": lambda: ts.reverse_scan(ones, np.array([0, -top - 1, 3]), 0.9),
    "unsigned offsets": lambda: ts.prefix_scan(ones, np.array([0, 2**64 - 1], np.uint64)),
    "batch offsets": lambda: ts.RolloutBatch([0, top], batch.per_token, batch.per_row),
    "lengths": lambda: ts.RolloutBatch.from_padded([[1]], [[1]], [1.0], [0], lengths=[top]),
    "rows": lambda: batch.select([top]),
    "a negative row": lambda: batch.select([-top - 1]),
    "size": lambda: stream.draw(0, 0, "x", size=2**62),
    "a size that wraps": lambda: stream.draw(0, [0] * 8, "x", size=2**61),
    "a negative size": lambda: stream.integers(0, 0, "x", 2, size=-1),
    "high": lambda: stream.integers(0, 0, "x", 2**63),
    "a permutation": lambda: stream.permutation(2**62, 0, "x"),
    "a negative permutation": lambda: stream.permutation(-1, 0, "x"),
    "a plan": lambda: ts.RolloutPlan(prompt=[0, 1], count=[top, top]).expand(),
    "threads": lambda: ts.set_num_threads(2**62),
    "a deep observation": lambda: ts.states.keys([nested(100_000)]),
    "a wide table of places": lambda: ts.states.text_clusters(["".join(map(chr, range(60_000))) * 17] * 2, None),
}
# Group labels may be any integers: these are answered, with nothing allocated by their size.
answered = {
    "labels near 2**62": lambda: ts.group_normalize(ones, np.array([2**62, -(2**62), 2**62])),
    "ranks": lambda: ts.group_rank(ones, np.array([top, -top - 1, top])),
    "ids": lambda: ts.group_ids(np.array([2**64 - 1, 0, 2**64 - 1], np.uint64)),
    "steps": lambda: stream.draw(top, [top, -top - 1], "x"),
    "scopes": lambda: ts.states.clusters(np.eye(3), np.array([top, 0, -top - 1]), threshold=0.5),
}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


for name, call in calls.items():
    try:
        call()
    except TallystickError:
        continue
    sys.exit(f"{name}: neither refused nor crashed")
for call in answered.values():
    call()
"""


def test_huge_values_are_refused_before_they_are_allocated():
    done = subprocess.run([sys.executable, "-c", HUGE_VALUES], capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
