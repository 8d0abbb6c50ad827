"""What trainers got wrong in public, and what is right; each test says where it was seen."""

import math

import numpy as np
import pytest
import torch
from tallystick import RolloutBatch, credit, group_ids, group_normalize, rows, segment_reduce, states
from tallystick.errors import SingletonGroupsWarning
from tallystick.objectives import PPOClip, aggregate, policy_loss


def test_report_1_a_reward_after_an_observation_reaches_the_tokens_before_it():
    """verl 7278, 2337: the running return fell to 0 at each tool token."""
    mask = [1, 1, 0, 0, 1, 1]
    _, returns = credit.reinforce_pp([0, 0, 0, 0, 0, 1], [0, 6], gamma=1.0, mask=mask)
    assert returns.tolist() == mask
    advantages, _ = credit.gae([0, 0, 0, 0, 0, 1], [0] * 6, [0, 6], gamma=1.0, lam=1.0, mask=mask)
    assert advantages.tolist() == mask


def test_report_3_a_response_without_end_token_keeps_its_length():
    """verl 3805: the mask came from the first end token, so padding was trained on."""
    batch = RolloutBatch.from_padded([[5, 6, 7, 0, 0]], None, [1.0], ["p"], lengths=[3])
    assert batch.tokens.tolist() == [5, 6, 7]
    assert batch.to_padded()["response_mask"].tolist() == [[1, 1, 1]]


def test_report_5_without_old_log_probs_the_ratio_is_exactly_one():
    """verl 6280: log-probs of the same policy differed between two passes."""
    log_probs = torch.tensor([[-0.3, -7.7, -0.1]]).requires_grad_()
    advantages = torch.tensor([[0.7, -0.3, 0.11]])
    loss, _ = policy_loss(log_probs, advantages, torch.ones(1, 3), rule=PPOClip(), aggregation="token-sum")
    loss.backward()
    assert torch.equal(log_probs.grad, -advantages)


def test_report_7_the_filter_is_a_band_with_a_tolerance():
    """verl 6155: a deviation of 8e-9 among equal rewards kept the group."""
    assert not credit.informative_groups(np.full(8, 0.1, dtype=np.float32), [0] * 8).any()
    assert not credit.informative_groups([0.1, 0.1, 0.1], [0] * 3).any()
    assert credit.informative_groups([0, 0, 1], [0] * 3).all()
    assert not credit.informative_groups([0, 0, 1], [0] * 3, low=0.4).any()


def test_report_9_an_id_per_rollout_in_place_of_its_prompt_is_said():
    """rllm 605: each group was a singleton and the advantage the raw reward."""
    rewards, uid = [1, 0, 1, 0], ["a", "b", "c", "d"]
    with pytest.warns(SingletonGroupsWarning):
        assert credit.grpo(rewards, uid).tolist() == [0, 0, 0, 0]
    assert credit.group_metrics(rewards, uid)["groups/size1_frac"] == 1


@pytest.mark.parametrize("estimator", [credit.grpo, credit.rloo])
def test_report_11_a_rollout_of_several_samples_counts_once(estimator):
    """slime 2300: it was counted once a sample in the baseline."""
    fanned = estimator([1, 1, 1, 0], [0] * 4, trajectory=["r0", "r0", "r0", "r1"])
    assert fanned.tolist() == estimator([1, 0], [0, 0])[[0, 0, 0, 1]].tolist()
    centred = credit.grpo([1, 1, 1, 0], [0] * 4, trajectory=["r0", "r0", "r0", "r1"], scale="none")
    assert centred.tolist() == [0.5, 0.5, 0.5, -0.5]


def test_report_13_a_ratio_behind_the_mask_cannot_overflow():
    """prime-rl 2972: exp(89) times a mask of 0 was NaN."""
    log_probs = torch.tensor([[-2.0, -1.0]]).requires_grad_()
    loss, _ = policy_loss(
        log_probs,
        torch.ones(1, 2),
        torch.tensor([[0, 1]]),
        rule=PPOClip(),
        old_log_probs=torch.tensor([[-91.0, -1.0]]),
    )
    loss.backward()
    assert loss.isfinite()
    assert log_probs.grad.tolist() == [[0, -1]]


def test_report_15_a_trailing_partial_group_is_normalised_by_its_own_key():
    """AReaL 1419: a batch that the group size does not divide gave advantages of 300000."""
    found = credit.grpo([1, 2, 3], np.arange(3) // 2)
    np.testing.assert_allclose(found, [-(0.5**0.5), 0.5**0.5, 0], atol=2e-6)
    assert found[2] == 0
    assert credit.grpo([1, 2, 3, 4, 5], np.arange(5) // 2)[4] == 0


def test_report_17_the_filter_counts_trajectories_and_keeps_groups_whole():
    """SkyRL 1432: filtering by rows of steps kept a group of equal outcomes and then cut it."""
    group, trajectory = [0] * 5, ["t0"] * 3 + ["t1"] * 2
    outcome = credit.outcomes([0, 0, 1, 0, 1], group, trajectory)
    assert not credit.informative_groups(outcome, group, trajectory=trajectory).any()


@pytest.mark.parametrize("aggregation", ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean"])
def test_report_21_a_batch_that_is_masked_whole_has_loss_and_gradient_zero(aggregation):
    """TRL 3248: denominators of 0."""
    log_probs = torch.randn(2, 3).requires_grad_()
    loss, _ = policy_loss(log_probs, torch.ones(2, 3), torch.zeros(2, 3), rule=PPOClip(), aggregation=aggregation)
    loss.backward()
    assert loss.item() == 0
    assert not log_probs.grad.any()


def test_report_25_bfloat16_logits_keep_their_log_probs():
    """OpenRLHF 634, transformers 31267, TRL 4303: log-softmax in bfloat16 moved ratios of equal policies."""
    generator = torch.Generator().manual_seed(25)
    logits = (4 * torch.randn(64, 32000, generator=generator)).bfloat16()
    targets = torch.randint(0, 32000, (64,), generator=generator)
    exact = torch.log_softmax(logits.double(), -1)[torch.arange(64), targets]
    in_bfloat16 = torch.log_softmax(logits, -1)[torch.arange(64), targets]
    assert (rows.row_stats(logits, targets).log_probs - exact).abs().max() < 1e-5
    assert (in_bfloat16 - exact).abs().max() > 1e-2


def test_d1_a_group_of_one_has_advantage_zero_unless_asked():
    """verl, SkyRL and Trinity give the raw reward, OpenRLHF NaN."""
    assert credit.grpo([1], ["a"]).tolist() == [0]
    assert credit.rloo([1], ["a"]).tolist() == [0]
    assert credit.grpo([1], ["a"], singleton="raw") == pytest.approx(1 / (1 + 1e-6))


def test_d3_keys_are_exact():
    """verl's vectorised grouping casts 0.2, 0.7, 1.4 to 0, 0, 1, merges "011" with "11" and allots max + 1 slots."""
    assert group_ids([0.2, 0.7, 1.4])[1] == 3
    assert group_ids(["011", "11", "011"])[0].tolist() == [0, 1, 0]
    assert group_ids([2**53, 2**53 + 1, 2**62])[1] == 3
    for uid in ([0.2, 0.2, 0.7, 0.7], ["011", "011", "11", "11"], [2**62, 2**62, 2**62 + 1, 2**62 + 1]):
        assert credit.grpo([1, 0, 5, 5], uid, scale="none").tolist() == [0.5, -0.5, 0, 0]
    assert credit.grpo([1, 0, 5, 5], ["a1", "a1", "a", "a"], trajectory=[1, 2, 11, 12], scale="none")[2:].tolist() == [
        0,
        0,
    ]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_d5_nothing_leaks_from_behind_the_mask(poison):
    """In verl one NaN there reached the gradient of every loss."""
    log_probs = torch.tensor([[-1.0, poison]]).requires_grad_()
    hidden = torch.tensor([[1.0, poison]])
    loss, _ = policy_loss(log_probs, hidden, torch.tensor([[1, 0]]), rule=PPOClip(), old_log_probs=hidden - 2)
    loss.backward()
    assert loss.item() == -1
    assert log_probs.grad.tolist() == [[-1, 0]]


def test_d7_a_reward_on_a_masked_token_is_part_of_the_outcome():
    """verl lost it in GAE, REINFORCE++ and ReMax, and counted it in GRPO and RLOO."""
    rewards, offsets, mask = [0, 0, 1, 0, 0, 0], [0, 3, 6], [1, 1, 0, 1, 1, 0]
    outcome = segment_reduce(rewards, offsets)
    assert credit.grpo(outcome, [0, 0], scale="none").tolist() == [0.5, -0.5]
    _, returns = credit.reinforce_pp(rewards, offsets, gamma=1.0, mask=mask)
    assert returns.tolist() == [1, 1, 0, 0, 0, 0]
    advantages, _ = credit.gae(rewards, [0] * 6, offsets, gamma=1.0, lam=1.0, mask=mask)
    assert advantages.tolist() == [1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (credit.grpo, 0.5**0.5),
        (credit.rloo, 1),
        (credit.gpg, 0.5),
        (lambda rewards, group, **options: credit.opo(rewards, group, [1, 1, 1, 3], **options), 0.5),
        (lambda rewards, group, **options: credit.gigpo(
            rewards, group, options["trajectory"], [0, 1, 2, 3], step=[0, 1, 2, 0], outcome=rewards), 0.5),
    ],
    ids=["grpo", "rloo", "gpg", "opo", "gigpo"],
)  # fmt: skip
def test_d9_a_session_of_three_outputs_is_one_trajectory_for_every_estimator(estimator, expected):
    """verl's rloo gave [.33, .33, .33, -1] and its vectorised GRPO [.5, .5, .5, -1.5]."""
    found = estimator([1, 1, 1, 0], [0] * 4, trajectory=["s", "s", "s", "t"])
    np.testing.assert_allclose(found, np.array([expected, expected, expected, -expected]), rtol=2e-6)
    again = group_normalize([1, 1, 1, 0], [0] * 4, unit=["s", "s", "s", "t"], scale="none")
    assert again.tolist() == [0.5, 0.5, 0.5, -0.5]


def test_d11_a_list_is_never_the_text_of_its_items():
    """ROLL's hash of ["a", "b"] is that of ["astr:b"]."""
    keys = states.keys([["a", "b"], ["astr:b"], ["ab"], "ab"])
    assert len({key.tobytes() for key in keys}) == 4


def test_d15_rows_without_a_live_token_are_counted_or_skipped_by_name():
    """Trinity gave 1.5 and 0.5 where verl gave 3.0 and 1.0 under the same name."""
    values, mask = torch.tensor([[1.0, 2.0], [5.0, 5.0]]), torch.tensor([[1, 1], [0, 0]])
    assert aggregate(values, mask, "seq-mean-token-sum").item() == 3
    assert aggregate(values, mask, "seq-mean-token-sum", empty_rows="count").item() == 1.5
