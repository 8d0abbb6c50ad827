"""Episodes in lockstep, rollout columns, the credit that a method of the table gives them, and the pages of claims."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dice import SETTINGS
from rich.console import Console
from tallystick import credit
from tallystick.errors import CorruptionError, UnsupportedError
from tallystick.lab import checkpoint
from tallystick.lab.claims import CLAIMS, Check
from tallystick.lab.config import Config
from tallystick.lab.environment import Episodes, Observation, StepResult, StepRows
from tallystick.lab.policy import Policy, PolicyConfig
from tallystick.lab.progress import closing_table, sparkline
from tallystick.lab.reproduce import judged, reproduce
from tallystick.lab.rollouts import Rollouts
from tallystick.lab.suite import suite
from tallystick.lab.train import CHECKPOINT, START, started
from tallystick.lab.trainer import CreditMethod


class Countdown:
    """`task` steps long; each pays its number; "raise" raises, and so does a task below 0."""

    def reset(self, task):
        if task < 0:
            raise ValueError("below zero")
        self.left = task
        return Observation(str(task))

    def step(self, text):
        if text == "raise":
            raise RuntimeError("asked for")
        self.left -= 1
        return StepResult(Observation(str(self.left)), float(self.left), self.left == 0)

    def state_key(self):
        return f"left {self.left}"


def test_episodes_leave_rows_of_what_was_kept():
    episodes = Episodes([Countdown() for _ in range(4)], [2, -1, 3, 1])
    assert episodes.live == [0, 2, 3]
    episodes.step({0: "", 2: "", 3: ""})
    assert episodes.live == [0, 2]
    episodes.step({0: "", 2: "raise"})
    assert episodes.live == []
    assert episodes.kept() == [0, 3]
    assert [(d.trajectory, d.reason) for d in episodes.dropped] == [
        (1, "ValueError: below zero"),
        (2, "RuntimeError: asked for"),
    ]
    rows = episodes.rows(copies=2)
    assert rows.group.tolist() == [0, 0, 1]
    assert rows.trajectory.tolist() == [0, 0, 3]
    assert rows.step.tolist() == [0, 1, 0]
    assert rows.reward.tolist() == [1.0, 0.0, 0.0]
    assert rows.state == ["left 2", "left 1", "left 1"]
    assert rows.first.tolist() == [0, -1, -1, 2]


def test_episodes_that_all_fail_leave_no_rows():
    rows = Episodes([Countdown()], [-1]).rows(copies=1)
    assert len(rows.group) == len(rows.state) == 0


def example(allowed=None):
    """Two trajectories of one task: two steps and one; a word a step, the second padded on both sides."""
    steps = StepRows(
        group=np.array([0, 0, 0]),
        trajectory=np.array([0, 0, 1]),
        step=np.array([0, 1, 0]),
        reward=np.array([0.0, 1.0, 0.0]),
        state=["a", "b", "a"],
        first=np.array([0, 2]),
    )
    row = np.array([[-1, 0, -1, 1, -1], [-1, -1, 2, -1, -1]])
    tokens = np.array([[1, 2, 3, 4, 0], [0, 5, 6, 0, 0]])
    return Rollouts(tokens, np.zeros_like(tokens), row >= 0, np.where(row >= 0, -0.5, 0.0), row, steps, (), allowed)


def test_selected_sequences_lose_common_padding_and_keep_their_tokens_of_choice():
    whole = example(allowed=np.eye(3, dtype=bool))
    part = whole.select(np.array([1]))
    assert part.tokens.tolist() == [[5, 6]]
    assert part.row.tolist() == [[-1, 2]]
    assert part.allowed.tolist() == [[False, False, True]]
    turned = whole.select(np.array([1, 0]))
    assert turned.tokens.tolist() == [[0, 5, 6, 0], [1, 2, 3, 4]]
    assert turned.allowed.tolist() == np.eye(3, dtype=bool)[[2, 0, 1]].tolist()


def test_outcomes_are_sums_by_trajectory():
    group, outcome = example().outcomes()
    assert group.tolist() == [0, 0]
    assert outcome.tolist() == [1.0, 0.0]


def credited(method, **settings):
    return CreditMethod(Config(method, "larder", 0, replace(SETTINGS, **settings)))(example()).tolist()


def test_methods_get_the_columns_that_they_ask_for():
    half = 0.5**0.5
    assert credited("grpo") == pytest.approx([half, half, -half], abs=1e-5)
    assert credited("dr_grpo") == [0.5, 0.5, -0.5]
    assert credited("gigpo", gamma=0.5) == [0.75, 0.5, -0.75]
    assert credited("gigpo", gamma=0.5, step_weight=0.0) == [0.5, 0.5, -0.5]
    words_of_each_row = [1, 1, 1]
    opo = credit.opo([1.0, 1.0, 0.0], [0, 0, 0], words_of_each_row, trajectory=[0, 0, 1])
    assert credited("opo") == pytest.approx(opo.tolist())


@pytest.mark.parametrize("method", ["gae", "ppo", "nothing"])
def test_methods_that_do_not_credit_rows_are_refused(method):
    with pytest.raises(UnsupportedError, match=method):
        CreditMethod(Config(method, "larder", 0, SETTINGS))


def test_an_unknown_suite_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"`env` must be one of larder, .* found 'chess'"):
        suite("chess")


def test_a_configuration_survives_its_file():
    config = Config("grpo", "larder", 5, SETTINGS, "weights")
    assert Config.from_json(config.to_json(), Path()) == config


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": {"betas": [0.9, 0.95], "speed": 3}}'])
def test_a_file_that_holds_no_configuration_is_named(text):
    with pytest.raises(CorruptionError, match=r"^runs/config\.json holds no configuration"):
        Config.from_json(text, Path("runs/config.json"))


def run(*held_out):
    return [{"held_out": {"success": value}} for value in held_out]


def test_a_claim_is_judged_by_its_interval_and_its_target():
    runs = {"grpo": {0: run(0.1, 0.7), 1: run(0.2, 0.8)}, "gigpo": {0: run(0.1, 0.9), 1: run(0.2, 1.0)}}
    values, text, holds = judged(Check("difference", "gigpo", against="grpo", mean=0.1), runs)
    assert values == pytest.approx([0.2, 0.2])
    assert text == "0.200 [0.200, 0.200]"
    assert holds
    # mean 0.75, s = 0.0707, n = 2: 12.706 * 0.0707 / sqrt(2) = 0.635
    assert judged(Check("end", "grpo", mean=0.7), runs)[1:] == ("0.750 [0.115, 1.385]", True)
    assert not judged(Check("end", "grpo", mean=0.7, worst=0.75), runs)[2]
    assert judged(Check("start", "grpo", mean=0.2), runs)[2]
    wide = {"grpo": {0: run(0.1, 0.2), 1: run(0.2, 0.9)}}
    assert not judged(Check("gain", "grpo", mean=0.3), wide)[2]


def test_a_claim_is_not_judged_by_runs_of_other_hyper_parameters(tmp_path):
    folder = tmp_path / "gigpo" / "grpo-0"
    settings = replace(suite("larder").settings, learning_rate=0.1)
    config = Config("grpo", "larder", 0, settings, str(tmp_path / "gigpo" / START))
    started(config, folder)
    policy = Policy(PolicyConfig(vocabulary=2, slots=1, width=8, layers=1, heads=2), 0)
    checkpoint.write(folder / CHECKPOINT, policy, None, {"config": config.to_json()})
    with pytest.raises(UnsupportedError, match=r"`learning_rate` is 0\.1 in .*grpo-0, found"):
        reproduce("gigpo", tmp_path, tmp_path / "results")


def test_every_claim_names_arms_that_it_runs():
    for claim in CLAIMS.values():
        assert len(claim.seeds) >= 3
        for check in claim.checks:
            assert {check.arm} | ({check.against} - {""}) <= set(claim.arms)


def test_a_sparkline_spans_its_blocks():
    assert sparkline([0.0, 0.5, 1.0, 2.0, -1.0]) == " ▄██ "
    assert len(sparkline([0.5] * 100, width=60)) == 60


def test_the_closing_table_says_where_the_time_went():
    start = {"iteration": 0, "held_out": {"success": 0.2, "dropped": 0.0}}
    names = ("success", "useful_groups", "entropy", "episode_steps", "shared_anchor_steps", "mean_bucket", "dropped")
    end = {"iteration": 1, "held_out": {"success": 0.5, "dropped": 0.0}, **dict.fromkeys(names, 1.0)}
    timing = [
        {"iteration": 0, "warm start": 30.0},
        {"iteration": 1, "rollout": 6.0, "credit": 1.0, "update": 3.0, "tallystick": 0.1},
    ]
    console = Console(width=80)
    with console.capture() as shown:
        console.print(closing_table(Config("grpo", "larder", 0, SETTINGS), Path("runs/one"), [start, end], timing))
    rows = [line.split() for line in shown.get().splitlines()]
    assert ["wall", "time", "40", "s"] in rows
    assert ["of", "it", "warm", "start", "30", "s,", "75%"] in rows
    assert ["of", "it", "rollout", "6", "s,", "15%"] in rows
    assert ["tallystick's", "share", "of", "training", "1.00%"] in rows
