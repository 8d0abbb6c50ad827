"""Gradients of the row statistics against torch's own through the float64 twin, and what torch asks of an op."""

import math

import pytest
import torch
from reference import rows as twin
from tallystick.errors import UnsupportedError
from tallystick.rows import RowStats, row_stats

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
#: What rounding to the dtype of the logits costs.
ROUNDING = {torch.float32: 3e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


def batch(rows, vocabulary, dtype=torch.float32, listed=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, vocabulary, generator=generator)).to(dtype)
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    return logits, targets, torch.randint(-1, vocabulary, (rows, listed), generator=generator)


def weights(found, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(column.shape, generator=generator) for column in found]


def gradient(call, logits, targets, ids, chosen, **options):
    z = logits.detach().clone().requires_grad_()
    found = call(z, targets, ids=ids, **options)
    loss = sum(
        (column[column > -math.inf] * weight[column > -math.inf].to(column.dtype)).sum()
        for column, weight, name in zip(found, weights(found), RowStats._fields, strict=True)
        if name in chosen
    )
    loss.backward()
    return z.grad


def compare(logits, targets, ids, chosen=RowStats._fields, **options):
    ours = gradient(row_stats, logits, targets, ids, chosen, **options)
    assert ours.dtype == logits.dtype
    exact = gradient(twin.row_stats, logits.double(), targets, ids, chosen, **options)
    scale = exact.abs().max().clamp_min(1e-30)
    tolerance = ROUNDING[logits.dtype]
    torch.testing.assert_close(ours.double() / scale, exact / scale, rtol=tolerance, atol=5e-6)  # of the largest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chosen", [*((name,) for name in RowStats._fields), RowStats._fields], ids=",".join)
def test_gradient_of_each_statistic(dtype, chosen):
    compare(*batch(6, 77, dtype, listed=5), chosen, temperature=0.8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocabulary", [2, 7, 32, 50257, 151936])
def test_any_vocabulary(dtype, vocabulary):
    compare(*batch(2, vocabulary, dtype))


def test_a_vocabulary_of_one_has_no_gradient_but_through_the_logit_itself():
    z = torch.tensor([[2.0]], requires_grad=True)
    found = row_stats(z, torch.tensor([0]))
    (found.log_probs + found.entropy + 3 * found.logsumexp + found.log_sum_sq + 5 * found.mean_logit).sum().backward()
    assert z.grad.item() == 8


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("listed", [0, 1, 64])
def test_any_number_of_rows_and_ids(rows, listed):
    logits, targets, ids = batch(rows, 33, listed=listed)
    if rows == 0:
        z = logits.requires_grad_()
        row_stats(z, targets, ids=ids).log_probs.sum().backward()
        assert z.grad.shape == (0, 33)
    else:
        compare(logits, targets, ids)


def test_ids_repeat_and_may_be_the_target():
    logits, _, _ = batch(2, 9)
    compare(logits, torch.tensor([2, 3]), torch.tensor([[5, 0, 5, -1, 2], [-1, 3, 3, 8, 0]]))


@pytest.mark.parametrize("offset", [1000.0, -300.0])
def test_a_common_offset(offset):
    logits, targets, ids = batch(3, 500)
    compare(logits + offset, targets, ids)


def test_minus_infinity_gets_no_gradient():
    logits, targets, ids = batch(3, 70)
    logits[:, 20:40] = -math.inf
    targets[:] = torch.tensor([3, 69, 50])
    ids[:] = torch.tensor([0, 45, 60])
    chosen = tuple(name for name in RowStats._fields if name != "mean_logit")
    z = logits.clone().requires_grad_()
    sum(getattr(row_stats(z, targets, ids=ids), name).sum() for name in chosen).backward()
    assert (z.grad[:, 20:40] == 0).all()
    kept = torch.cat([torch.arange(20), torch.arange(40, 70)])
    moved = {old: new for new, old in enumerate(kept.tolist())}
    short = logits[:, kept].clone().requires_grad_()
    found = row_stats(short, targets.apply_(moved.get), ids=ids.apply_(moved.get))
    sum(getattr(found, name).sum() for name in chosen).backward()
    torch.testing.assert_close(z.grad[:, kept], short.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("margin", [9.0, 20.0, 60.0])
def test_a_target_that_is_all_but_certain_keeps_a_gradient(margin):
    logits = torch.zeros(1, 5001)
    logits[0, 3000] = margin + math.log(5000)
    z = logits.clone().requires_grad_()
    row_stats(z, torch.tensor([3000])).log_probs.sum().backward()
    margin = logits[0, 3000].item() - math.log(5000)
    assert z.grad[0, 3000].item() == pytest.approx(math.exp(-margin) / (1 + math.exp(-margin)), rel=1e-5)
    assert z.grad[0, 0].item() == pytest.approx(-math.exp(-margin) / (1 + math.exp(-margin)) / 5000, rel=1e-5)
    for name in ("entropy", "log_one_minus_p"):
        compare(logits, torch.tensor([3000]), torch.zeros(1, 0, dtype=torch.int64), (name,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bad_row_behind_an_upstream_gradient_of_zero_gets_zero(dtype):
    logits, targets, ids = batch(3, 300, dtype)
    logits[1, 5] = math.nan
    z = logits.requires_grad_()
    found = row_stats(z, targets, ids=ids)
    live = torch.tensor([True, False, True])
    sum(torch.where(live if column.ndim == 1 else live[:, None], column, 0).nan_to_num(neginf=0).sum()
        for column in found).backward()  # fmt: skip
    assert (z.grad[1] == 0).all()
    assert z.grad[0].any()
    z.grad = None
    row_stats(z, targets).log_probs.sum().backward()
    assert z.grad[1].isnan().all()
    assert not z.grad[[0, 2]].isnan().any()


def test_the_gradient_of_an_empty_slot_is_not_looked_at():
    logits, targets, _ = batch(1, 9)
    z = logits.requires_grad_()
    found = row_stats(z, targets, ids=torch.tensor([[-1, 4]]))
    found.id_log_probs.backward(torch.tensor([[math.nan, 0.0]]))
    assert (z.grad == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_logits(dtype):
    logits, targets, ids = batch(4, 60, dtype)
    expected = gradient(row_stats, logits, targets, ids, RowStats._fields)
    for lay in (lambda z: torch.stack([z, z], 1)[:, 1], lambda z: z.t().contiguous().t()):
        z = lay(logits).detach().requires_grad_()
        found = row_stats(z, targets, ids=ids)
        sum((column[column > -math.inf] * weight[column > -math.inf]).sum()
            for column, weight in zip(found, weights(found), strict=True)).backward()  # fmt: skip
        assert torch.equal(z.grad, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_that_leave_the_caches_are_those_that_do_not(dtype):
    """Gradients of 8 MiB and more are written past the caches, where the rows lie for it."""
    logits, targets, _ = batch(40, 131072, dtype)
    together = logits.clone().requires_grad_()
    found = row_stats(together, targets)
    (found.log_probs + found.entropy).sum().backward()
    for t in (0, 17, 39):
        alone = logits[t : t + 1].clone().requires_grad_()
        found = row_stats(alone, targets[t : t + 1])
        (found.log_probs + found.entropy).sum().backward()
        assert torch.equal(alone.grad[0], together.grad[t])


def test_a_second_derivative_is_refused_by_name():
    logits, targets, _ = batch(2, 9)
    z = logits.requires_grad_()
    (first,) = torch.autograd.grad(row_stats(z, targets).entropy.sum(), z, create_graph=True)
    with pytest.raises(UnsupportedError, match="`logits` has no second derivative through `row_stats`"):
        first.sum().backward()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_finds_the_ops_in_order(dtype):
    logits, targets, ids = batch(3, 20, dtype)
    z = logits.requires_grad_()
    torch.library.opcheck(torch.ops.tallystick.row_stats, (z, targets, ids, 0.5))
    found = [column.detach() for column in row_stats(z, targets, ids=ids)]
    upstream = [torch.ones_like(column) for column in found]
    torch.library.opcheck(torch.ops.tallystick.row_grad, (logits.detach(), targets, ids, 1.0, found[:4], upstream))


@pytest.mark.filterwarnings("ignore")
def test_it_compiles_without_a_break_in_the_graph():
    def loss(z, targets, ids):
        found = row_stats(z, targets, ids=ids, temperature=0.5)
        return (found.log_probs + 0.1 * found.entropy).sum() + found.id_log_probs.sum()

    logits, targets, ids = batch(3, 20)
    ids = ids.clamp_min(0)
    answers = []
    for call in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        z = logits.clone().requires_grad_()
        value = call(z, targets, ids)
        value.backward()
        answers.append((value.detach(), z.grad))
    torch.testing.assert_close(answers[0], answers[1])
