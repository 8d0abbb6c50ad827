import math
import warnings

import numpy as np
import pytest
import torch
from tallystick import RolloutBatch, credit, segment_reduce, states
from tallystick.errors import (
    CapacityError,
    DTypeError,
    NonFiniteError,
    ShapeError,
    SingletonGroupsWarning,
    TallystickError,
    UnsupportedError,
)

ROWS = {
    "grpo": credit.grpo,
    "rloo": credit.rloo,
    "opo": lambda rewards, group, **options: credit.opo(rewards, group, np.ones(len(group)), **options),
    "gpg": credit.gpg,
    "best_of_group": credit.best_of_group,
}
one_row = pytest.mark.parametrize("estimator", ROWS.values(), ids=ROWS)


@one_row
def test_no_rows(estimator):
    found = estimator([], [])
    assert found.shape == (0,)
    assert found.dtype == np.float32


@one_row
@pytest.mark.parametrize(("singleton", "expected"), [("zero", 0), ("raw", 2), ("skip", 0)])
def test_a_trajectory_that_is_alone(estimator, singleton, expected):
    for trajectory, rewards in ((None, [2.0]), ([4, 4, 4], [2.0, 2.0, 2.0])):
        found = estimator(rewards, ["p"] * len(rewards), trajectory=trajectory, singleton=singleton)
        np.testing.assert_allclose(found, expected, rtol=2e-6)


@one_row
@pytest.mark.parametrize("reward", [0.1, 1000.1, 1e-30, -7.7])
def test_equal_rewards_give_exactly_zero(estimator, reward):
    assert (estimator([reward] * 7, [0] * 7) == 0).all()


@one_row
def test_a_trajectory_counts_once_and_its_rows_share(estimator):
    cut = estimator([1, 1, 1, 0, 0.5], [0] * 5, trajectory=["a", "a", "a", "b", "c"])
    whole = estimator([1, 0, 0.5], [0] * 3)
    if estimator is ROWS["opo"]:
        whole = credit.opo([1, 0, 0.5], [0] * 3, [3, 1, 1])
    np.testing.assert_allclose(cut, whole[[0, 0, 0, 1, 2]], rtol=1e-6)


@one_row
def test_trajectories_are_numbered_inside_their_group(estimator):
    rewards, group = [1, 0, 0.5, 1], [0, 0, 1, 1]
    local = estimator(rewards, group, trajectory=[0, 1, 0, 1])
    np.testing.assert_array_equal(local, estimator(rewards, group, trajectory=[0, 1, 2, 3]))


@pytest.mark.parametrize(
    "names", [np.array(["a", "a", "b", "b"]), ["a", "a", "b", "b"], states.keys(["a", "a", "b", "b"])]
)
def test_a_trajectory_may_have_any_name_that_group_ids_takes(names):
    rewards, group, step = [0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1]
    expected = credit.gigpo(rewards, group, [0, 0, 1, 1], [0, 1, 0, 2], step=step)
    assert np.array_equal(credit.gigpo(rewards, group, names, [0, 1, 0, 2], step=step), expected)


@one_row
def test_rows_of_one_trajectory_must_agree(estimator):
    with pytest.raises(UnsupportedError, match=r"`rewards`.*found 0.0 at row 2 after 1.0.*outcomes") as caught:
        estimator([1, 1, 0], [0, 0, 0], trajectory=[5, 6, 5])
    assert (caught.value.argument, caught.value.index) == ("rewards", 2)


@one_row
def test_bad_columns_are_named(estimator):
    with pytest.raises(NonFiniteError, match=r"`rewards`.*index 1"):
        estimator([0, math.nan], [0, 0])
    with pytest.raises(ShapeError, match="`group`"):
        estimator([0, 1], [0, 0, 0])
    with pytest.raises(ShapeError, match="`trajectory`"):
        estimator([0, 1], [0, 0], trajectory=[0])
    with pytest.raises(DTypeError, match="`group`"):
        estimator([0, 1], [[1], [2]])


def test_opo_refuses_lengths_that_cannot_be():
    with pytest.raises(UnsupportedError, match=r"`length`.*-1.* at row 1"):
        credit.opo([0, 1], [0, 0], [1, -1])
    with pytest.raises(ShapeError, match="`length`"):
        credit.opo([0, 1], [0, 0], [1])


def test_gpg_of_groups_that_differ_in_size():
    rewards, group = [1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 2, 2]
    base = np.array([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])
    np.testing.assert_allclose(credit.gpg(rewards, group), 6 / 3 * base, rtol=1e-6)
    np.testing.assert_allclose(credit.gpg(rewards, group, alpha="live_groups"), 3 / 1 * base, rtol=1e-6)
    np.testing.assert_allclose(credit.gpg(rewards, group, alpha="nonzero_scores"), 6 / 3 * base, rtol=1e-6)
    with pytest.raises(UnsupportedError, match="`alpha`"):
        credit.gpg(rewards, group, alpha="none")


def test_best_of_group_gives_all_rows_of_the_best_trajectory_the_margin():
    found = credit.best_of_group([1, 0.5, 1, 0.5], [0] * 4, trajectory=[0, 1, 0, 2])
    np.testing.assert_allclose(found, [0.5, 0, 0.5, 0])
    assert (credit.best_of_group([1, 1, 0], [0] * 3) == 0).all()
    huge = [1.7e308, -1.7e308]
    with pytest.raises(UnsupportedError, match=r"`rewards`.*too large"):
        credit.best_of_group(huge, [0, 0])
    np.testing.assert_allclose(credit.best_of_group([1e39, 0], [0, 0], scale="std"), [2**0.5, 0])


def test_all_singletons_warn_once_and_name_the_likely_cause():
    with pytest.warns(SingletonGroupsWarning, match="3 groups.*prompt") as caught:
        assert (credit.grpo([1, 0, 1], ["a", "b", "c"]) == 0).all()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(SingletonGroupsWarning) as caught:
        credit.gigpo([1, 0], [0, 1], [0, 0], ["s", "s"], step=[0, 0])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_one_row_or_one_comparable_group_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        credit.grpo([1], ["a"])
        credit.grpo([1, 0, 1], ["a", "a", "b"])
        credit.informative_groups([1, 0], ["a", "b"])


# gigpo


def gigpo(rewards, group, trajectory, state, **options):
    return credit.gigpo(rewards, group, trajectory, state, **{"step": np.arange(len(rewards)), **options})


def test_gigpo_by_hand():
    found = credit.gigpo([0, 1, 0], ["p"] * 3, ["a", "a", "b"], ["A", "B", "A"], step=[0, 1, 0], gamma=0.5)
    np.testing.assert_allclose(found, [0.75, 0.5, -0.75])


def test_gigpo_of_no_rows():
    assert gigpo([], [], [], []).shape == (0,)


def test_gigpo_does_not_mind_the_order_of_rows():
    rng = np.random.default_rng(3)
    rewards, group, step = rng.random(60), np.repeat([0, 1], 30), np.tile(np.arange(10), 6)
    trajectory, state = np.repeat(np.arange(6), 10), rng.integers(0, 4, 60)
    found = credit.gigpo(rewards, group, trajectory, state, step=step, scale="std")
    for _ in range(5):
        p = rng.permutation(60)
        shuffled = credit.gigpo(rewards[p], group[p], trajectory[p], state[p], step=step[p], scale="std")
        np.testing.assert_allclose(shuffled, found[p], atol=1e-6)


def test_gigpo_keeps_equal_states_of_two_groups_apart():
    alone = gigpo([1, 0], [0, 0], [0, 1], ["s", "s"])
    both = gigpo([1, 0, 5, 5], [0, 0, 1, 1], [0, 1, 0, 1], ["s"] * 4)
    np.testing.assert_array_equal(both[:2], alone)
    assert (both[2:] == 0).all()


def test_a_gap_between_steps_adds_no_discount():
    options = {"group": [0, 0], "trajectory": [0, 0], "gamma": 0.5}
    np.testing.assert_array_equal(credit.step_returns([0, 1], step=[3, 900], **options), [0.5, 1])


def test_two_rows_of_one_trajectory_may_not_share_a_step():
    with pytest.raises(UnsupportedError, match=r"`step`.*found 4 at rows 1 and 3") as caught:
        credit.gigpo([0] * 4, [0] * 4, [7, 8, 7, 8], ["s"] * 4, step=[4, 4, 5, 4])
    assert (caught.value.argument, caught.value.index) == ("step", 3)


def test_one_trajectory_id_in_two_groups_is_two_trajectories():
    found = credit.step_returns([1, 1, 1, 1], [0, 1, 0, 1], [5] * 4, step=[0, 0, 1, 1], gamma=1.0)
    np.testing.assert_array_equal(found, [2, 2, 1, 1])
    np.testing.assert_array_equal(credit.outcomes([1, 2, 3, 4], [0, 1, 0, 1], [5] * 4), [4, 6, 4, 6])


def test_outcomes_may_differ_among_rows_only_where_rows_count():
    rows = ([0, 0, 0], [0, 0, 0], [0, 0, 1], ["x", "y", "z"])
    with pytest.raises(UnsupportedError, match="`outcome`"):
        gigpo(*rows, outcome=[1.0, 0.9, 0.0])
    found = gigpo(*rows, outcome=[1.0, 0.9, 0.0], weight="row")
    np.testing.assert_allclose(found, np.array([1.0, 0.9, 0.0]) - 1.9 / 3, rtol=1e-6)


def test_compat_is_what_the_docstring_lists():
    rows = ([0, 1, 0, 3], [0, 0, 0, 1], [0, 0, 1, 0], ["x", "y", "x", "x"])
    for scale in ("none", "std"):
        np.testing.assert_array_equal(
            gigpo(*rows, scale=scale, compat="verl-agent"), gigpo(*rows, scale=scale, weight="row", singleton="raw")
        )
    assert gigpo(*rows, compat="verl-agent")[3] == 3
    assert gigpo(*rows)[3] == 0


@pytest.mark.parametrize(
    ("option", "settled", "others"), [("weight", "row", ["trajectory"]), ("singleton", "raw", ["zero", "skip"])]
)
def test_compat_suffers_no_other_value_of_what_it_settles(option, settled, others):
    rows = ([0, 1, 0, 3], [0, 0, 0, 1], [0, 0, 1, 0], ["x", "y", "x", "x"])
    expected = gigpo(*rows, compat="verl-agent")
    np.testing.assert_array_equal(gigpo(*rows, compat="verl-agent", **{option: settled}), expected)
    for other in others:
        with pytest.raises(
            UnsupportedError, match=f"`{option}` must be \"{settled}\" with compat.*'{other}'"
        ) as caught:
            gigpo(*rows, compat="verl-agent", **{option: other})
        assert caught.value.argument == option


def test_without_compat_trajectories_count_and_what_is_alone_gets_nothing():
    rows = ([0, 1, 0, 3], [0, 0, 0, 1], [0, 0, 1, 0], ["x", "y", "x", "x"])
    np.testing.assert_array_equal(gigpo(*rows), gigpo(*rows, weight="trajectory", singleton="zero"))


TOO_LARGE = {
    "grpo": ("rewards", 3, lambda: credit.grpo([0, 0, 0, 6e38], [0] * 4, trajectory=[0, 0, 1, 2], scale="none")),
    "raw": ("rewards", 2, lambda: credit.grpo([1, 0, 1e300], [0, 0, 1], singleton="raw")),
    "spread": ("rewards", 0, lambda: credit.grpo([1.7e308, -1.7e308], [0, 0])),
    "rloo": ("rewards", 3, lambda: credit.rloo([0, 0, 0, 5e38], [0] * 4, trajectory=[0, 0, 1, 2])),
    "opo": ("rewards", 2, lambda: credit.opo([0, 0, 1e39], [0, 0, 0], [1, 1, 0], trajectory=[0, 0, 1])),
    "gpg": ("rewards", 2, lambda: credit.gpg([0, 0, 1e39], [0, 0, 1], singleton="raw")),
    "alpha": (
        "rewards",
        2,
        lambda: credit.gpg([0, 0, 3e38, 0, 0, 0], [9, 9, 1, 1, 2, 2], trajectory=[0, 0, 0, 1, 0, 1]),
    ),
    "best_of_group": ("rewards", 2, lambda: credit.best_of_group([0, 0, 1e39], [0] * 3, trajectory=[0, 0, 1])),
    "margin": ("rewards", 0, lambda: credit.best_of_group([1e200, -1e200], [0, 0], scale="std")),
    "outcome": ("outcome", 0, lambda: gigpo([0] * 2, [0] * 2, [0, 1], [0, 1], outcome=[1e39, 0])),
    "summed": ("rewards", 0, lambda: gigpo([1e39, 0], [0] * 2, [0, 1], [0, 1])),
    "return": ("rewards", 0, lambda: gigpo([1e39, 0], [0] * 2, [0, 1], [0, 0], outcome=[0, 0])),
    "terms": ("rewards", 0, lambda: gigpo([3e38, -3e38], [0] * 2, [0, 1], [0, 0])),
    "step_weight": ("step_weight", 0, lambda: gigpo([1, 0], [0] * 2, [0, 1], [0, 0], step_weight=1e300)),
    "tag": ("rewards", 0, lambda: credit.tag_groups([1e39, 0], [0, 0], [0, 0], outcome=[0, 0], scale="none")),
    "outcomes": ("rewards", 1, lambda: credit.outcomes([0, 1.7e308, 1.7e308], [0] * 3, [0, 1, 1])),
    "step_returns": (
        "rewards",
        1,
        lambda: credit.step_returns([0, 1.7e308, 1.7e308], [0] * 3, [0, 1, 1], step=[0, 0, 1], gamma=1),
    ),
    "gae": ("values", 1, lambda: credit.gae([0, 0], [0, 1e300], [0, 2], gamma=0, lam=0, mask=None)),
    "whitened": ("rewards", 1, lambda: credit.reinforce_pp([0, 1e200], [0, 2], gamma=0, mask=None, whiten=True)),
    "scan": ("rewards", 0, lambda: credit.reinforce_pp([1.7e308, 1.7e308], [0, 2], mask=None)),
    "baseline": ("rewards", 0, lambda: credit.reinforce_pp_baseline([1e39, 0], [0, 0], [0, 1, 2], mask=None)),
    "accuracy": ("accuracy", 0, lambda: credit.informative_groups([1.7e308, -1.7e308], [0, 0])),
}


@pytest.mark.parametrize(("argument", "index", "call"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_is_named_as_the_user_passed_it(argument, index, call):
    with pytest.raises(UnsupportedError, match=f"`{argument}`.*index {index}$") as caught:
        call()
    assert (caught.value.argument, caught.value.index) == (argument, index)


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (UnsupportedError, "`compat`", {"compat": "verl"}),
        (UnsupportedError, "`weight`", {"weight": "token"}),
        (ShapeError, "`step`", {"step": [0]}),
        (DTypeError, "`step`", {"step": [0.0, 1.0]}),
        (ShapeError, "`state`", {"state": ["s"]}),
        (ShapeError, "`trajectory`", {"trajectory": [0]}),
        (NonFiniteError, "`rewards`", {"rewards": [0, math.inf]}),
        (NonFiniteError, "`outcome`", {"outcome": [0, math.nan]}),
        (NonFiniteError, "`step_weight`", {"step_weight": math.nan}),
    ],
)
def test_gigpo_names_what_is_wrong(error, words, change):
    arguments = {"rewards": [0, 1], "group": [0, 0], "trajectory": [0, 1], "state": ["s", "s"], "step": [0, 0]}
    with pytest.raises(error, match=words):
        credit.gigpo(**{**arguments, **change})


def test_a_state_can_be_text_a_number_a_key_or_a_cluster():
    rows = ([1, 0, 0, 1], [0] * 4, [0, 1, 2, 3])
    texts = ["at the door", "at the door", "inside", "inside"]
    expected = gigpo(*rows, texts)
    for state in (
        states.keys(texts),
        states.groups(texts, [0] * 4)[0],
        np.array([0.5, 0.5, 0.7, 0.7]),
        torch.tensor([1, 1, 2, 2]),
        [b"x", b"x", b"y", b"y"],
    ):
        np.testing.assert_array_equal(gigpo(*rows, state), expected)


def test_the_columns_of_a_batch_go_straight_in():
    batch = RolloutBatch.from_steps(
        [
            {
                "tokens": [1, 2],
                "response_mask": [1, 1],
                "rewards": [0, r],
                "uid": u,
                "trajectory": t,
                "step": s,
                "state": o,
            }
            for u, t, s, o, r in [("p", 0, 0, "A", 0.0), ("p", 0, 1, "B", 1.0), ("p", 1, 0, "A", 0.0)]
        ]
    )
    rewards = segment_reduce(batch.rewards, batch.offsets)
    found = credit.gigpo(rewards, batch.uid, batch.trajectory, batch.state, step=batch.step, gamma=0.5)
    np.testing.assert_allclose(found, [0.75, 0.5, -0.75])


def test_tag_groups_by_hand():
    found = credit.tag_groups(
        [1, 0, 1], [0] * 3, ["plan", "plan", "look"], outcome=[1, 0, 1], scale="none", step_weight=0.5
    )
    np.testing.assert_allclose(found, [1 / 3 + 0.25, -2 / 3 - 0.25, 1 / 3], rtol=1e-6)


# tokens


def test_a_reward_behind_the_mask_moves_to_the_last_live_token():
    options = {"mask": [1, 1, 0, 0, 1, 0], "gamma": 1.0}
    _, returns = credit.reinforce_pp([0, 0, 5, 0, 0, 1], [0, 6], **options)
    np.testing.assert_array_equal(returns, [6, 6, 0, 0, 1, 0])
    _, returns = credit.reinforce_pp([0, 0, 5, 0, 0, 1], [0, 6], dead_rewards="drop", **options)
    np.testing.assert_array_equal(returns, [0, 0, 0, 0, 0, 0])


def test_a_reward_before_the_first_live_token_goes_to_it():
    _, returns = credit.reinforce_pp([3, 0, 1], [0, 3], mask=[0, 1, 1])
    np.testing.assert_array_equal(returns, [0, 4, 1])


def test_a_row_without_live_tokens_earns_nothing():
    advantages, returns = credit.gae([1, 1], [np.nan, np.nan], [0, 2], gamma=1, lam=1, mask=[0, 0])
    assert not advantages.any()
    assert not returns.any()


def test_gae_needs_no_mask_where_the_model_wrote_all():
    for mask in (None, [True, True]):
        advantages, returns = credit.gae([0, 1], [0.5, 0.5], [0, 2], gamma=1, lam=0, mask=mask)
        np.testing.assert_array_equal(advantages, [0, 0.5])
        np.testing.assert_array_equal(returns, [0.5, 1])


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (UnsupportedError, "`dead_rewards`", {"dead_rewards": "keep"}),
        (NonFiniteError, "`gamma`", {"gamma": math.nan}),
        (NonFiniteError, "`rewards`.*index 1", {"rewards": [0, math.nan, 0]}),
        (NonFiniteError, "`values`.*index 0", {"values": [math.inf, 0, 0]}),
        (ShapeError, "`mask`", {"mask": [1, 1]}),
        (ShapeError, "`values`", {"values": [1, 1]}),
        (ShapeError, "`offsets`", {"offsets": [0, 2]}),
    ],
)
def test_gae_names_what_is_wrong(error, words, change):
    arguments = {"rewards": [0, 0, 1], "values": [0, 0, 0], "offsets": [0, 3], "gamma": 1, "lam": 1, "mask": [1, 1, 0]}
    with pytest.raises(error, match=words):
        credit.gae(**{**arguments, **change})


def test_the_baseline_form_broadcasts_and_stays_off_dead_tokens():
    advantages, returns = credit.reinforce_pp_baseline([1, 0], [0, 0], [0, 1, 4], mask=[1, 1, 0, 1])
    np.testing.assert_array_equal(advantages, [0.5, -0.5, 0, -0.5])
    np.testing.assert_array_equal(returns, advantages)
    with pytest.raises(ShapeError, match="`offsets`"):
        credit.reinforce_pp_baseline([1, 0], [0, 0], [0, 4], mask=[1, 1, 0, 1])


def test_whitening_of_little():
    assert credit.whitened([]).shape == (0,)
    assert credit.whitened([3.0]).tolist() == [0]
    assert credit.whitened([0.1] * 7).tolist() == [0] * 7
    assert credit.whitened([5, math.nan, 1], [1, 0, 0]).tolist() == [0, 0, 0]
    np.testing.assert_allclose(credit.whitened([0, 2]), [-(0.5**0.5), 0.5**0.5])
    with pytest.raises(UnsupportedError, match="`values`"):
        credit.whitened([1e300, -1e300])


@pytest.mark.parametrize(
    ("error", "argument", "call"),
    [
        (UnsupportedError, "scale", lambda: credit.best_of_group([1, 0], [0, 0], scale="batch_std")),
        (UnsupportedError, "singleton", lambda: credit.best_of_group([1, 0], [0, 0], singleton="keep")),
        (UnsupportedError, "ddof", lambda: credit.best_of_group([1, 0], [0, 0], ddof=2)),
        (UnsupportedError, "eps", lambda: credit.best_of_group([1, 0], [0, 0], scale="std", eps=-1)),
        (UnsupportedError, "scale", lambda: credit.gpg([1, 0], [0, 0], scale="batch_std")),
        (UnsupportedError, "scale", lambda: gigpo([1, 0], [0, 0], [0, 1], [0, 0], scale="batch_std")),
        (UnsupportedError, "scale", lambda: credit.tag_groups([1], [0], [0], outcome=[1], scale="batch_std")),
        (UnsupportedError, "scale", lambda: credit.grpo([1, 0], [0, 0], scale="batch")),
        (DTypeError, "scale", lambda: credit.grpo([1, 0], [0, 0], scale=[1.0, 1.0])),
        (DTypeError, "scale", lambda: credit.rloo([1, 0], [0, 0], scale=[1.0, 1.0])),
        (DTypeError, "scale", lambda: credit.opo([1, 0], [0, 0], [1, 1], scale=[1.0, 1.0])),
        (UnsupportedError, "ddof", lambda: credit.grpo([1, 0], [0, 0], ddof=True)),
        (DTypeError, "eps", lambda: credit.grpo([1, 0], [0, 0], eps=True)),
        (DTypeError, "step_weight", lambda: gigpo([1, 0], [0, 0], [0, 1], [0, 0], step_weight=True)),
        (DTypeError, "rewards", lambda: credit.grpo(np.ma.masked_array([1.0, 0.0], [False, True]), [0, 0])),
        (UnsupportedError, "length", lambda: credit.opo([1, 0], [0, 0], [1e308, 1e308])),
        (UnsupportedError, "low", lambda: credit.informative_groups([1, 0], [0, 0], low=1, high=0)),
        (UnsupportedError, "tolerance", lambda: credit.informative_groups([1, 0], [0, 0], tolerance=-1)),
        (UnsupportedError, "buffer", lambda: credit.overlong_penalty([1], max_length=10, buffer=11)),
        (UnsupportedError, "length", lambda: credit.overlong_penalty([-1], max_length=10, buffer=5)),
        (UnsupportedError, "factor", lambda: credit.overlong_penalty([9], max_length=10, buffer=5, factor=-1)),
        (UnsupportedError, "factor", lambda: credit.overlong_penalty([9], max_length=10, buffer=5, factor=1e300)),
        (UnsupportedError, "floor", lambda: credit.overlong_penalty([9], max_length=10, buffer=5, floor=1)),
        (DTypeError, "alpha", lambda: credit.gpg([1, 0], [0, 0], alpha=np.array(["a", "b"]))),
        (DTypeError, "low", lambda: credit.informative_groups([1, 0], [0, 0], low="0")),
        (NonFiniteError, "high", lambda: credit.informative_groups([1, 0], [0, 0], high=math.nan)),
        (DTypeError, "tolerance", lambda: credit.informative_groups([1, 0], [0, 0], tolerance=None)),
        (DTypeError, "eps", lambda: credit.whitened([1, 0], eps="0")),
        (UnsupportedError, "eps", lambda: credit.whitened([1, 0], eps=-1)),
        (UnsupportedError, "values", lambda: credit.whitened([0, 1e-200], eps=0)),
        (ShapeError, "gamma", lambda: credit.reinforce_pp([0, 1], [0, 2], gamma=[1, 1], mask=None)),
        (DTypeError, "whiten", lambda: credit.reinforce_pp([0, 1], [0, 2], mask=None, whiten="no")),
        (ShapeError, "offsets", lambda: credit.reinforce_pp_baseline([1], [0], [0, -2], mask=None)),
        (CapacityError, "offsets", lambda: credit.reinforce_pp_baseline([1], [0], [0, 2**62], mask=None)),
        (DTypeError, "gamma", lambda: credit.step_returns([1], [0], [0], step=[0], gamma="1")),
        (DTypeError, "compat", lambda: credit.gigpo([1], [0], [0], [0], step=[0], compat=np.array(["a", "b"]))),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(error, argument, call):
    with pytest.raises(TallystickError) as raised:
        call()
    assert type(raised.value) is error
    assert raised.value.argument == argument


def test_the_best_of_equals_gets_nothing_even_without_eps():
    assert credit.best_of_group([1, 1, 0.5], [0, 0, 1], scale="std", eps=0).tolist() == [0, 0, 0]


# batches


def test_the_filter_takes_a_band_and_a_tolerance():
    accuracy, group = [1, 0, 1, 1, 1, 0, 0.5, 0.5], [0, 0, 1, 1, 1, 1, 2, 2]
    keep = credit.informative_groups(accuracy, group)
    assert keep.tolist() == [True] * 6 + [False] * 2
    banded = credit.informative_groups(accuracy, group, low=0.2, high=0.75)
    assert banded.tolist() == [True] * 2 + [False] * 6
    assert not credit.informative_groups([0.1, 0.1 + 1e-8], [0, 0]).any()
    assert credit.informative_groups([0.1, 0.1 + 1e-8], [0, 0], tolerance=0).all()
    assert credit.informative_groups([], []).shape == (0,)


def test_group_metrics():
    assert credit.group_metrics([1, 0, 1, 1, 0], ["a", "a", "b", "b", "c"]) == {
        "groups/count": 3,
        "groups/size1_frac": 1 / 3,
        "groups/informative_frac": 1 / 3,
    }
    assert set(credit.group_metrics([], []).values()) == {0}


def test_overlong_penalty():
    options = {"max_length": 120, "buffer": 20}
    np.testing.assert_allclose(credit.overlong_penalty([100, 110, 130], **options), [0, -0.5, -1])
    np.testing.assert_allclose(credit.overlong_penalty([110, 130], floor=None, **options), [-0.5, -1.5])
    np.testing.assert_allclose(credit.overlong_penalty([110, 130], factor=2, **options), [-1, -2])
    with pytest.raises(UnsupportedError, match="`buffer`"):
        credit.overlong_penalty([1], max_length=120, buffer=0)
