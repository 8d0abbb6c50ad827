import math

import numpy as np
import pytest
import torch
from tallystick import objectives
from tallystick.errors import DTypeError, NonFiniteError, ShapeError, UnsupportedError
from tallystick.objectives import PPOClip, aggregate, policy_loss, preset
from tallystick.objectives.loss import Metrics

FIVE = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "token-sum")


def batch(seed=0, shape=(3, 7)):
    generator = torch.Generator().manual_seed(seed)
    log_probs = -2 * torch.rand(shape, generator=generator)
    old = log_probs + 0.3 * torch.randn(shape, generator=generator)
    mask = torch.ones(shape)
    mask[0, 3:] = 0
    mask[1, 2:4] = 0
    return log_probs, old, torch.randn(shape, generator=generator), mask


@pytest.mark.parametrize("aggregation", FIVE)
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_nothing_behind_the_mask_is_seen(aggregation, poison):
    def run(poisoned):
        log_probs, old, advantages, mask = batch()
        if poisoned:
            for tensor in (log_probs, old, advantages):
                tensor[mask == 0] = poison
        log_probs.requires_grad_()
        loss, metrics = policy_loss(
            log_probs, advantages, mask, rule=PPOClip(dual=3), old_log_probs=old, aggregation=aggregation, horizon=9
        )
        loss.backward()
        return loss, log_probs.grad, dict(metrics)

    loss, gradient, metrics = run(False)
    poisoned_loss, poisoned_gradient, poisoned_metrics = run(True)
    assert torch.equal(loss, poisoned_loss)
    assert torch.equal(gradient, poisoned_gradient)
    assert metrics == poisoned_metrics


@pytest.mark.parametrize("aggregation", FIVE)
def test_a_batch_without_live_tokens_gives_zero_and_a_live_graph(aggregation):
    log_probs, old, advantages, mask = batch()
    log_probs.requires_grad_()
    loss, metrics = policy_loss(
        log_probs, advantages, mask * 0, rule=PPOClip(), old_log_probs=old, aggregation=aggregation, horizon=9
    )
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(log_probs.grad, torch.zeros_like(log_probs))
    assert metrics["ppo_kl"] == metrics["tokens"] == 0


def test_an_empty_batch_gives_zero():
    loss, metrics = policy_loss(
        torch.zeros(0, 4, requires_grad=True), torch.zeros(0, 4), torch.ones(0, 4), rule=PPOClip()
    )
    loss.backward()
    assert loss.item() == metrics["tokens"] == 0


@pytest.mark.parametrize("argument", ["log_probs", "old_log_probs", "advantages"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_live_token_must_be_finite(argument, value):
    log_probs, old, advantages, mask = batch()
    {"log_probs": log_probs, "old_log_probs": old, "advantages": advantages}[argument][1, 5] = value
    with pytest.raises(NonFiniteError, match=f"`{argument}`.*index 12") as caught:
        policy_loss(log_probs, advantages, mask, rule=PPOClip(), old_log_probs=old)
    assert (caught.value.argument, caught.value.index) == (argument, 12)


def test_on_an_accelerator_bad_values_are_named_when_the_metrics_are_read():
    metrics = Metrics({"loss": torch.tensor(1.0)}, {"advantages": torch.tensor(2)})
    assert list(metrics) == ["loss"]
    with pytest.raises(NonFiniteError, match=r"`advantages` .* found 2 that are not"):
        metrics["loss"]


def test_missing_old_log_probs_make_each_ratio_exactly_one():
    log_probs, _, advantages, mask = batch()
    log_probs.requires_grad_()
    loss, metrics = policy_loss(log_probs, advantages, mask, rule=PPOClip(), aggregation="token-sum")
    loss.backward()
    assert torch.equal(log_probs.grad, torch.where(mask > 0, -advantages, 0))
    assert metrics["ppo_kl"] == metrics["pg_clipfrac"] == 0


def test_a_ratio_beyond_the_limit_is_finite_and_pushes_nothing():
    log_probs = torch.tensor([[-2.0, -60.0]], requires_grad=True)
    loss, _ = policy_loss(
        log_probs,
        torch.tensor([[-1.0, 1.0]]),
        torch.ones(1, 2),
        rule=PPOClip(),
        old_log_probs=torch.tensor([[-91.0, -2.0]]),
    )
    loss.backward()
    assert loss.item() == pytest.approx((math.exp(20) - math.exp(-20)) / 2, rel=1e-6)
    assert torch.equal(log_probs.grad, torch.zeros(1, 2))


@pytest.mark.parametrize("aggregation", FIVE)
@pytest.mark.parametrize("empty_rows", ["skip", "count"])
def test_packed_rows_equal_padded_ones(aggregation, empty_rows):
    log_probs, old, advantages, mask = batch()
    mask[2] = 0
    options = {"rule": PPOClip(), "aggregation": aggregation, "horizon": 9, "empty_rows": empty_rows}
    padded, padded_metrics = policy_loss(log_probs, advantages, mask, old_log_probs=old, **options)
    packed, packed_metrics = policy_loss(
        log_probs.flatten(),
        advantages.flatten(),
        mask.flatten(),
        old_log_probs=old.flatten(),
        offsets=[0, 7, 14, 21],
        **options,
    )
    torch.testing.assert_close(padded, packed)
    assert dict(padded_metrics) == pytest.approx(dict(packed_metrics))


@pytest.mark.parametrize("aggregation", FIVE)
def test_micro_batches_add_up_under_global_counts(aggregation):
    log_probs, old, advantages, mask = batch(shape=(6, 7))
    mask[4] = 0
    counts = {"tokens": mask.sum(), "sequences": (mask.sum(-1) > 0).sum()}

    def run(rows, **options):
        return policy_loss(
            log_probs[rows],
            advantages[rows],
            mask[rows],
            rule=PPOClip(),
            old_log_probs=old[rows],
            aggregation=aggregation,
            horizon=9,
            **options,
        )[0]

    parts = [run(rows, global_counts=counts) for rows in (slice(0, 1), slice(1, 4), slice(4, 6))]
    torch.testing.assert_close(sum(parts), run(slice(None)))


def test_clip_higher_and_dual_clip_are_counted():
    ratio = torch.tensor([[1.25, 0.5, 4.0, 1.0]])
    for advantage, share, lower in ((1.0, 0.25, 0.0), (-1.0, 0.25, 0.25)):
        _, metrics = policy_loss(
            ratio.log(),
            torch.full((1, 4), advantage),
            torch.ones(1, 4),
            rule=PPOClip(high=0.28, dual=3),
            old_log_probs=torch.zeros(1, 4),
        )
        assert (metrics["pg_clipfrac"], metrics["pg_clipfrac_lower"]) == (share, lower)


def test_half_precision_is_computed_in_float32():
    log_probs, old, advantages, mask = batch()
    loss, _ = policy_loss(log_probs.bfloat16(), advantages, mask, rule=PPOClip(), old_log_probs=old)
    assert loss.dtype == torch.float32


def test_numpy_columns_are_read():
    log_probs, old, advantages, mask = batch()
    expected, _ = policy_loss(log_probs, advantages, mask, rule=PPOClip(), old_log_probs=old)
    loss, _ = policy_loss(log_probs, advantages.numpy(), mask.numpy() > 0, rule=PPOClip(), old_log_probs=old.numpy())
    assert torch.equal(loss, expected)


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (ShapeError, "`advantages`", {"advantages": torch.zeros(3, 6)}),
        (ShapeError, "`old_log_probs`", {"old_log_probs": torch.zeros(3)}),
        (ShapeError, "`response_mask`", {"response_mask": torch.ones(7)}),
        (ShapeError, "`log_probs`", {"log_probs": torch.zeros(3, 7, 1), "response_mask": torch.ones(3, 7, 1)}),
        (DTypeError, "`log_probs`.*found list", {"log_probs": [[0.0]]}),
        (DTypeError, "`log_probs`.*found torch.int64", {"log_probs": torch.zeros(3, 7, dtype=torch.int64)}),
        (UnsupportedError, "`response_mask`.*0.5 at index 0", {"response_mask": torch.full((3, 7), 0.5)}),
        (DTypeError, "`advantages`.*read as a tensor", {"advantages": "x"}),
        (DTypeError, "`advantages`.*complex", {"advantages": torch.ones(3, 7, dtype=torch.complex64)}),
        (DTypeError, "`old_log_probs`.*complex", {"old_log_probs": torch.ones(3, 7, dtype=torch.complex64)}),
        (DTypeError, "`response_mask`", {"response_mask": None}),
        (ShapeError, "`offsets`.*packed", {"offsets": [0, 7, 14, 21]}),
        (UnsupportedError, "`aggregation`", {"aggregation": "mean"}),
        (DTypeError, "`aggregation`", {"aggregation": np.array(["a", "b"])}),
        (UnsupportedError, "`horizon`", {"horizon": 0}),
        (NonFiniteError, "`horizon`", {"aggregation": "seq-mean-token-sum-norm", "horizon": math.inf}),
        (DTypeError, "`horizon`", {"aggregation": "seq-mean-token-sum-norm", "horizon": "9"}),
        (UnsupportedError, "`empty_rows`", {"empty_rows": "drop"}),
        (UnsupportedError, "`global_counts`.*int", {"global_counts": 5}),
        (UnsupportedError, "`global_counts`.*'sequence'", {"global_counts": {"tokens": 6, "sequence": 2}}),
        (UnsupportedError, "`global_counts`.*-3", {"global_counts": {"tokens": -3}}),
        (UnsupportedError, "`global_counts`.*nan", {"global_counts": {"tokens": math.nan}}),
        (UnsupportedError, "`global_counts`.*1, 2", {"global_counts": {"tokens": [1, 2]}}),
        (DTypeError, "`global_counts`", {"global_counts": {"tokens": "6"}}),
        (UnsupportedError, "`horizon`", {"aggregation": "seq-mean-token-sum-norm"}),
        (UnsupportedError, "`empty_rows`", {"aggregation": "seq-mean-token-sum", "empty_rows": "drop"}),
        (UnsupportedError, "`global_counts`", {"global_counts": {"sequences": 3}}),
    ],
)
def test_bad_input_is_named(error, words, change):
    log_probs, old, advantages, mask = batch()
    arguments = {
        "log_probs": log_probs,
        "advantages": advantages,
        "response_mask": mask,
        "old_log_probs": old,
        **change,
    }
    with pytest.raises(error, match=words):
        policy_loss(**arguments, rule=PPOClip())


@pytest.mark.parametrize("rule", [None, "ppo", 5, {}, PPOClip, preset])
def test_what_is_no_rule_is_refused(rule):
    log_probs, _, advantages, mask = batch()
    with pytest.raises(UnsupportedError, match=r"`rule` must be a rule such as PPOClip\(\).*found") as caught:
        policy_loss(log_probs, advantages, mask, rule=rule)
    assert caught.value.argument == "rule"


@pytest.mark.parametrize("offsets", [[0, 99], [0.0, 14.0], "rows", {}])
def test_offsets_are_read_even_where_no_row_is_summed(offsets):
    with pytest.raises((ShapeError, DTypeError), match="`offsets`"):
        aggregate(torch.zeros(14), torch.ones(14), "token-mean", offsets=offsets)


@pytest.mark.parametrize("values", [[1.0, 2.0], torch.ones(()), torch.ones(2, 2, 2)])
def test_values_must_be_packed_or_padded(values):
    with pytest.raises((ShapeError, DTypeError), match="`values`"):
        aggregate(values, torch.ones(getattr(values, "shape", 2)))


@pytest.mark.parametrize("offsets", [None, [0, 7], [1, 14], [0, 9, 7, 14], [[0, 14]], []])
def test_packed_rows_need_offsets_that_fit(offsets):
    with pytest.raises(ShapeError, match="`offsets`"):
        aggregate(torch.zeros(14), torch.ones(14), "seq-mean-token-sum", offsets=offsets)


@pytest.mark.parametrize(
    ("error", "bounds"),
    [
        (UnsupportedError, {"low": -0.1}),
        (UnsupportedError, {"high": -0.1}),
        (UnsupportedError, {"dual": 1.0}),
        (NonFiniteError, {"high": math.nan}),
        (DTypeError, {"low": "0.2"}),
        (DTypeError, {"high": True}),
    ],
)
def test_bounds_outside_their_range_are_refused(error, bounds):
    with pytest.raises(error, match=f"`{next(iter(bounds))}`"):
        PPOClip(**bounds)


def test_presets():
    assert preset("ppo") == PPOClip()
    assert preset("dapo") == PPOClip(low=0.2, high=0.28)
    assert preset("ppo", dual=3.0) == PPOClip(dual=3.0)
    with pytest.raises(TypeError):
        preset("ppo", nothing=1)
    with pytest.raises(UnsupportedError, match="'unheard'"):
        preset("unheard")
    with pytest.raises(DTypeError, match="`name`"):
        preset(np.array(["ppo", "dapo"]))


def test_the_module_names_what_it_lacks():
    with pytest.raises(AttributeError, match="nothing"):
        objectives.nothing  # noqa: B018


def test_metrics_are_a_mapping_of_floats():
    log_probs, old, advantages, mask = batch()
    loss, metrics = policy_loss(log_probs, advantages, mask, rule=PPOClip(), old_log_probs=old)
    assert set(metrics) == {"loss", "ppo_kl", "pg_clipfrac", "tokens"}
    assert metrics["loss"] == pytest.approx(loss.item())
    assert metrics["ppo_kl"] == pytest.approx(((old - log_probs) * mask).sum().item() / mask.sum().item(), abs=1e-6)
    assert all(isinstance(value, float) for value in metrics.values())
    assert np.isfinite(list(metrics.values())).all()
