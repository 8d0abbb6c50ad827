import math
import subprocess
import sys

import pytest
import tallystick as ts
import torch
from reference import rows as twin
from tallystick.errors import DTypeError, ShapeError, UnsupportedError
from tallystick.rows import row_stats

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
NAMES = ts.rows.RowStats._fields
#: In float32 at magnitudes of some tens; sums over a row are taken in wider ones.
CLOSE = {"rtol": 2e-6, "atol": 4e-6}


@pytest.fixture(autouse=True)
def default_threads():
    yield
    ts.set_num_threads(0)


def batch(rows, vocabulary, dtype=torch.float32, listed=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, vocabulary, generator=generator)).to(dtype)
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    return logits, targets, torch.randint(-1, vocabulary, (rows, listed), generator=generator)


def compare(found, logits, targets, ids=None, **options):
    for name, ours, exact in zip(NAMES, found, twin.row_stats(logits, targets, ids, **options), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), exact, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocabulary", [1, 7, 32, 50257, 151936])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_every_statistic_is_that_of_the_twin(dtype, vocabulary, temperature):
    logits, targets, ids = batch(2 if vocabulary > 100 else 9, vocabulary, dtype)
    found = row_stats(logits, targets, ids=ids, temperature=temperature)
    compare(found, logits, targets, ids, temperature=temperature)


def test_the_example_of_the_docstring():
    found = row_stats(torch.tensor([[0, math.log(3)]]), torch.tensor([1]), ids=torch.tensor([[0]]))
    entropy = 2 * math.log(2) - 0.75 * math.log(3)
    expected = [
        math.log(0.75),
        entropy,
        math.log(4),
        math.log(10 / 16),
        math.log(3) / 2,
        math.log(0.25),
        math.log(0.25),
    ]
    assert [column.item() for column in found] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
@pytest.mark.parametrize("listed", [None, 0, 1, 64])
def test_any_number_of_rows_and_ids(rows, listed):
    logits, targets, ids = batch(rows, 33, listed=listed or 0)
    ids = None if listed is None else ids
    found = row_stats(logits, targets, ids=ids)
    assert [column.shape for column in found] == [(rows,)] * 6 + [(rows, listed or 0)]
    compare(found, logits, targets, ids)


@pytest.mark.parametrize("lay", [
    lambda z: torch.cat([z, z], 1)[:, : z.shape[1]],
    lambda z: torch.stack([z, z], 1)[:, 1],
    lambda z: z.t().contiguous().t(),
    lambda z: torch.stack([z, z], 2)[:, :, 0],
    lambda z: torch.cat([z.new_zeros(1), z.reshape(-1)])[1:].view(z.shape),
], ids=["columns cut off", "rows between", "transposed", "columns between", "not aligned"])  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_may_lie_in_memory_as_they_like(lay, dtype):
    logits, targets, ids = batch(5, 77, dtype)
    laid = lay(logits)
    assert torch.equal(laid, logits)
    for ours, expected in zip(row_stats(laid, targets, ids=ids), row_stats(logits, targets, ids=ids), strict=True):
        assert torch.equal(ours, expected)


def test_one_row_for_all_targets():
    logits, targets, _ = batch(1, 77)
    compare(row_stats(logits.expand(4, 77), targets.expand(4)), logits.expand(4, 77), targets.expand(4))


def test_ids_repeat_come_in_any_order_and_may_be_the_target():
    logits = torch.arange(6.0).repeat(2, 1)
    ids = torch.tensor([[5, 0, 5, -1, 2], [-7, 3, 2, 1, 0]])
    found = row_stats(logits, torch.tensor([2, 3]), ids=ids.int())
    assert torch.equal(found.id_log_probs[0, 0], found.id_log_probs[0, 2])
    assert torch.equal(found.id_log_probs[0, 4], found.log_probs[0])
    assert torch.equal(found.id_log_probs[1, 1], found.log_probs[1])
    assert found.id_log_probs[0, 3] == found.id_log_probs[1, 0] == -math.inf
    compare(found, logits, torch.tensor([2, 3]), ids)


@pytest.mark.parametrize("offset", [1000.0, -1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_common_offset_costs_no_digits(offset, dtype):
    logits, targets, ids = batch(3, 5000, dtype)
    logits = (logits.float() + offset).to(dtype)
    found, exact = row_stats(logits, targets, ids=ids), twin.row_stats(logits, targets, ids)
    for name in ("log_probs", "entropy", "log_sum_sq", "log_one_minus_p", "id_log_probs"):
        k = NAMES.index(name)
        torch.testing.assert_close(found[k].double(), exact[k], **CLOSE)
    for name in ("logsumexp", "mean_logit"):
        k = NAMES.index(name)
        torch.testing.assert_close(found[k].double(), exact[k], rtol=1e-7, atol=0)


@pytest.mark.parametrize("target", [5, 2000])
@pytest.mark.parametrize("step", [0.01, 0.3, 23.9, 30.0])
def test_a_row_that_keeps_rising_or_falling(step, target):
    for sign in (1, -1):
        logits = sign * step * torch.arange(4100.0)[None]
        compare(row_stats(logits, torch.tensor([target])), logits, torch.tensor([target]))


@pytest.mark.parametrize("margin", [9.0, 20.0, 60.0, 90.0])
def test_a_target_that_is_all_but_certain_keeps_its_digits(margin):
    """With margin 20 + ln 5000 its probability is 1 - 2e-9, whose log in float32 would be 0."""
    logits = torch.zeros(1, 5001)
    logits[0, 3000] = margin + math.log(5000)
    found = row_stats(logits, torch.tensor([3000]))
    exact = twin.row_stats(logits, torch.tensor([3000]))
    assert found.log_probs.item() < 0
    torch.testing.assert_close(found.log_probs.double(), exact[0], rtol=2e-6, atol=0)
    torch.testing.assert_close(found.entropy.double(), exact[1], rtol=1e-5, atol=0)
    torch.testing.assert_close(found.log_one_minus_p.double(), exact[5], rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_minus_infinity_is_probability_zero(dtype):
    logits, _, _ = batch(4, 200, dtype)
    logits[0, 50:150] = -math.inf
    logits[1, 1:] = -math.inf
    logits[2, 9] = -math.inf
    logits[3, :199] = -math.inf
    targets, ids = torch.tensor([3, 0, 9, 5]), torch.tensor([[60], [7], [9], [199]])
    found = row_stats(logits, targets, ids=ids)
    compare(found, logits, targets, ids)
    assert found.entropy[[1, 3]].tolist() == [0, 0]
    assert found.log_probs[1:].tolist() == [0, -math.inf, -math.inf]
    assert found.id_log_probs.flatten().tolist() == [-math.inf, -math.inf, -math.inf, 0]
    assert (found.mean_logit == -math.inf).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 63, 64, 4099])
def test_a_bad_logit_makes_its_row_nan_and_no_other(dtype, bad, place):
    logits, _, ids = batch(3, 4100, dtype)
    logits[1, place] = bad
    logits[1, 7] = -math.inf
    for target in (place, 11):
        found = row_stats(logits, torch.full((3,), target), ids=ids.clamp_min(0))
        for column in found:
            assert column[1].isnan().all()
            assert not column[[0, 2]].isnan().any()


def test_a_row_without_a_finite_logit_is_no_distribution():
    found = row_stats(torch.full((1, 9), -math.inf), torch.tensor([2]), ids=torch.tensor([[1]]))
    assert all(column.isnan().all() for column in found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bytes_on_any_number_of_threads_and_each_time(dtype):
    logits, targets, ids = batch(40, 50257, dtype, listed=5)
    answers = []
    for threads in (1, 2, 1, 2):
        ts.set_num_threads(threads)
        given = logits.clone().requires_grad_()
        found = row_stats(given, targets, ids=ids)
        sum(column[column > -math.inf].sum() for column in found).backward()
        answers.append([*(column.detach() for column in found), given.grad])
    for answer in answers[1:]:
        for one, other in zip(answers[0], answer, strict=True):
            assert one.numpy(force=True).tobytes() == other.numpy(force=True).tobytes() if one.dtype != torch.bfloat16 \
                else torch.equal(one, other)  # fmt: skip


def test_temperature_is_applied_after_the_upcast():
    logits, targets, _ = batch(3, 500, torch.bfloat16)
    found = row_stats(logits, targets, temperature=0.7).log_probs
    torch.testing.assert_close(found, row_stats(logits.float(), targets, temperature=0.7).log_probs, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "error", "sentence", "index"),
    [
        ({"targets": torch.tensor([0, 9])}, UnsupportedError, "`targets` must lie in 0..9, found 9 at index 1", 1),
        ({"targets": torch.tensor([-1, 0])}, UnsupportedError, "`targets` must lie in 0..9, found -1 at index 0", 0),
        ({"ids": torch.tensor([[0, 1], [8, 9]])}, UnsupportedError,
         "`ids` must lie below 9, found 9 at index (1, 1)", 1),
        ({"targets": torch.tensor([0.0, 1.0])}, DTypeError,
         "`targets` must be int64 or int32, found torch.float32", None),
        ({"ids": torch.zeros(2, 1)}, DTypeError, "`ids` must be int64 or int32, found torch.float32", None),
        ({"logits": torch.zeros(2, 9).double()}, DTypeError,
         "`logits` must be float32 or bfloat16 or float16, found torch.float64", None),
        ({"logits": [[0.0] * 9] * 2}, DTypeError, "`logits` must be a tensor, found list", None),
        ({"logits": torch.zeros(9)}, ShapeError, "`logits` must be [T, V], found shape (9,)", None),
        ({"targets": torch.tensor([[0], [1]])}, ShapeError, "`targets` must be [T], found shape (2, 1)", None),
        ({"targets": torch.tensor([0])}, ShapeError, "`targets` has 1 rows, expected 2 (one per row)", None),
        ({"ids": torch.tensor([0, 1])}, ShapeError, "`ids` must be [T, K], found shape (2,)", None),
        ({"ids": torch.tensor([[0]])}, ShapeError, "`ids` has 1 rows, expected 2 (one per row)", None),
        ({"logits": torch.zeros(2, 9, device="meta")}, UnsupportedError,
         "`logits` must be dense and on the CPU, found torch.strided on meta", None),
        ({"logits": torch.eye(2, 9).to_sparse()}, UnsupportedError,
         "`logits` must be dense and on the CPU, found torch.sparse_coo on cpu", None),
        ({"temperature": 0.0}, UnsupportedError,
         "`temperature` must be positive and between 1e-30 and 1e+30, found 0.0", None),
        ({"temperature": math.nan}, UnsupportedError,
         "`temperature` must be positive and between 1e-30 and 1e+30, found nan", None),
        ({"temperature": -1}, UnsupportedError,
         "`temperature` must be positive and between 1e-30 and 1e+30, found -1", None),
        ({"temperature": True}, DTypeError, "`temperature` must be a real number, found bool", None),
        ({"temperature": "1"}, DTypeError, "`temperature` must be a real number, found str", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change, error, sentence, index):
    arguments = {"logits": torch.zeros(2, 9), "targets": torch.tensor([0, 1]), **change}
    with pytest.raises(error) as caught:
        row_stats(arguments.pop("logits"), arguments.pop("targets"), **arguments)
    assert str(caught.value) == sentence
    assert caught.value.argument == next(iter(change))
    assert caught.value.index == index


def test_no_copy_of_the_logits_is_made():
    """The statistics of 256 MB of logits add less than a tenth of that to what the process holds at most."""
    code = """
import resource, torch
from tallystick.rows import row_stats
logits, targets = torch.zeros(1024, 131072, dtype=torch.bfloat16).fill_(0.5), torch.zeros(1024, dtype=torch.int64)
row_stats(logits[:1], targets[:1], ids=targets[:1, None])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
row_stats(logits, targets, ids=targets[:, None].expand(1024, 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 25_000  # kilobytes
