"""A run that is stopped, killed or failed by its environment loses nothing, and goes on as if nothing had happened."""

import multiprocessing
import random
import re
import shutil
import time
from dataclasses import replace

import pytest
from dice import SETTINGS, DiceLarder, DiceSuite, Silent
from safetensors.numpy import load_file
from tallystick.errors import CorruptionError, TallystickError, UnsupportedError
from tallystick.lab import commands
from tallystick.lab.config import Config
from tallystick.lab.larder_suite import EPISODES
from tallystick.lab.policy import Policy
from tallystick.lab.train import CHECKPOINT, CONFIG, METRICS, lines, reopened, started, train
from tallystick.lab.trainer import FailedEpisodesError
from tallystick.random import Stream

CONFIGURATION = Config("gigpo", "dice", 3, SETTINGS)
ASKED = dict.fromkeys(("method", "env", "seed", "iterations", "start"))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    out = tmp_path_factory.mktemp("straight")
    train(started(CONFIGURATION, out), out, Silent(), made=DiceSuite())
    return out


def same(one, other):
    assert (one / METRICS).read_bytes() == (other / METRICS).read_bytes()
    first, second = load_file(one / CHECKPOINT), load_file(other / CHECKPOINT)
    assert first.keys() == second.keys()
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_six_iterations_are_three_and_three(straight, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(started(CONFIGURATION, out), out, Silent(3, KeyboardInterrupt()), made=DiceSuite())
    assert lines(out)[-1]["iteration"] == 3
    later = Silent()
    train(reopened(out, ASKED), out, later, made=DiceSuite())
    assert [line.iteration for line in later.seen] == [4, 5, 6]
    same(straight, out)


def test_something_was_learnt_in_six_iterations(straight):
    first, last = lines(straight)[1], lines(straight)[-1]
    assert last["reward"] > first["reward"] + 1.0
    assert first["grad_norm"] > 0.0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_run_that_is_killed_at_any_moment_goes_on(straight, tmp_path):
    out = tmp_path / "run"
    begun = started(CONFIGURATION, out)
    start = time.perf_counter()
    moment = random.Random(0)
    kills = 0
    while not (out / METRICS).exists() or lines(out)[-1:] == [] or lines(out)[-1]["iteration"] < 6:
        process = multiprocessing.get_context("fork").Process(
            target=train, args=(reopened(out, ASKED), out, Silent()), kwargs={"made": DiceSuite()}
        )
        process.start()
        process.join(moment.uniform(0.0, 1.5) * (1 + kills))
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        assert time.perf_counter() - start < 120
    train(begun, out, Silent(), made=DiceSuite())  # a kill may fall between the last line and its checkpoint
    same(straight, out)


def test_lines_after_the_checkpoint_and_a_torn_line_are_dropped(straight, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(started(CONFIGURATION, out), out, Silent(2, KeyboardInterrupt()), made=DiceSuite())
    with (out / METRICS).open("a") as file:
        file.write('{"iteration": 3, "success": 0.9, "held_out": {}}\n{"iteration": 4, "succ')
    train(reopened(out, ASKED), out, Silent(), made=DiceSuite())
    same(straight, out)


@pytest.mark.parametrize(
    ("name", "value"), [("method", "grpo"), ("seed", 4), ("env", "larder"), ("start", "other.safetensors")]
)
def test_another_configuration_is_refused_by_name(straight, name, value):
    with pytest.raises(UnsupportedError, match=f"`{name}` is .* found {value!r}") as raised:
        reopened(straight, {**ASKED, name: value})
    assert raised.value.argument == name


def test_an_edited_configuration_is_refused_by_name(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(started(CONFIGURATION, out), out, Silent(1, KeyboardInterrupt()), made=DiceSuite())
    text = (out / CONFIG).read_text()
    (out / CONFIG).write_text(text.replace('"clip_high": 0.28', '"clip_high": 0.3'))
    with pytest.raises(UnsupportedError, match=r"`clip_high` is 0\.28"):
        reopened(out, ASKED)


def test_a_run_that_is_made_longer_stays_so_when_it_is_stopped(straight, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(straight, out)
    longer = reopened(out, {**ASKED, "iterations": 9})
    with pytest.raises(KeyboardInterrupt):
        train(longer, out, Silent(7, KeyboardInterrupt()), made=DiceSuite())
    assert reopened(out, ASKED).settings.iterations == 9


@pytest.mark.parametrize(
    "asked", [{"method": "gippo"}, {"method": "gae"}, {"seed": -1}, {"seed": 2**70}, {"start": "nowhere.safetensors"}]
)
def test_what_cannot_be_trained_is_refused_before_it_has_a_folder(tmp_path, asked):
    with pytest.raises(TallystickError):
        commands.run({**ASKED, **asked}, tmp_path / "run", None)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_not_begun_again(straight):
    with pytest.raises(UnsupportedError, match="holds a run already"):
        started(CONFIGURATION, straight)


def test_a_folder_without_a_run_is_not_resumed(tmp_path):
    with pytest.raises(UnsupportedError, match="holds no run"):
        reopened(tmp_path, ASKED)


def test_a_damaged_checkpoint_is_named(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(started(CONFIGURATION, out), out, Silent(1, KeyboardInterrupt()), made=DiceSuite())
    (out / CHECKPOINT).write_bytes((out / CHECKPOINT).read_bytes()[:1000])
    with pytest.raises(CorruptionError, match=r"checkpoint\.safetensors"):
        reopened(out, ASKED)


class Faulty(DiceLarder):
    """Raises at the given steps of the given games, counted over all games of a suite."""

    def __init__(self, suite):
        super().__init__()
        self.suite = suite
        suite.games += 1
        self.number = suite.games

    def step(self, text):
        if self.suite.fails(self.number, self.state.steps):
            raise RuntimeError("the kettle exploded")
        return super().step(text)


class FaultySuite(DiceSuite):
    def __init__(self, fails):
        super().__init__()
        self.fails, self.games = fails, 0

    def environment(self):
        return Faulty(self)


def test_an_episode_that_raises_is_dropped_and_counted(tmp_path):
    suite = FaultySuite(lambda game, step: game % 5 == 0 and step == 7)
    progress = Silent()
    train(started(replace(CONFIGURATION, method="grpo"), tmp_path / "run"), tmp_path / "run", progress, made=suite)
    trained = [line.metrics for line in progress.seen if line.iteration]
    assert len(trained) == 6
    assert all(3 <= line["dropped"] <= 4 for line in trained)
    assert all(line.held_out["dropped"] > 0 for line in progress.seen if line.held_out)


def test_what_is_left_of_a_rollout_is_whole():
    def noise(ids, turn):
        return Stream(0).draw(turn, ids, "test")

    suite = FaultySuite(lambda game, step: game in (2, 7) and step == 3)
    policy = Policy(suite.policy, 0)
    got = suite.rollout(policy, suite.training[:3], 3, noise)
    whole = DiceSuite().rollout(policy, suite.training[:3], 3, noise)
    assert [(d.trajectory, d.reason) for d in got.dropped] == [
        (1, "RuntimeError: the kettle exploded"),
        (6, "RuntimeError: the kettle exploded"),
    ]
    kept = [0, 2, 3, 4, 5, 7, 8]
    assert sorted(set(got.steps.trajectory)) == kept
    assert (got.tokens == whole.tokens[kept]).all()
    assert (got.steps.trajectory[got.row[:, 14]] == kept).all()
    assert (got.steps.step[got.row[:, 24]] == 1).all()


def test_a_group_with_fewer_than_two_rollouts_stops_the_run_which_goes_on_later(straight, tmp_path):
    out = tmp_path / "run"
    before = EPISODES * len(DiceSuite().held_out) + 2 * SETTINGS.tasks * SETTINGS.copies
    # games of the first evaluation and of two iterations, of which the last three fail
    suite = FaultySuite(lambda game, step: before - 3 < game <= before and step == 2)
    with pytest.raises(FailedEpisodesError, match=r"group 3 kept 1 of 4 rollouts.*kettle exploded"):
        train(started(CONFIGURATION, out), out, Silent(), made=suite)
    assert lines(out)[-1]["iteration"] == 1
    train(reopened(out, ASKED), out, Silent(), made=DiceSuite())
    same(straight, out)


def test_the_command_says_how_to_go_on_after_an_interrupt(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(commands.suite.__globals__["_SUITES"], "dice", ("dice", "DiceSuite"))

    def interrupted(config, out, progress):
        return train(config, out, Silent(2, KeyboardInterrupt()))

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(commands, "train", interrupted)
        assert commands.run({**ASKED, "env": "dice", "seed": 3}, out, None) == 130
    assert f"tallystick train --resume {out}" in capsys.readouterr().out
    assert commands.run(ASKED, None, out) == 0
    shown = capsys.readouterr().out
    assert "5/6" in shown
    assert "held-out" in shown
    assert (out / "curve.png").stat().st_size > 10_000


def test_runs_are_compared_however_far_they_came(straight, tmp_path, capsys):
    begun = tmp_path / "begun"
    with pytest.raises(KeyboardInterrupt):
        train(started(CONFIGURATION, begun), begun, Silent(0, KeyboardInterrupt()), made=DiceSuite())
    assert commands.compare([straight, begun], tmp_path / "pictures" / "compare.png") == 0
    assert re.search(r"gigpo \(dice\) +mean .* of 2: .*@6 .*@0$", capsys.readouterr().out, re.MULTILINE)
    assert (tmp_path / "pictures" / "compare.png").stat().st_size > 10_000
    (begun / METRICS).write_text("")
    with pytest.raises(UnsupportedError, match="begun holds no run"):
        commands.compare([straight, begun], tmp_path / "compare.png")
