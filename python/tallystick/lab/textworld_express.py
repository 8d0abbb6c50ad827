"""Games of the package TextWorldExpress, played in one Java process; commands are written word by word under a trie."""

from __future__ import annotations

import json
import os
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from tallystick import _optional
from tallystick.errors import MissingExtraError
from tallystick.lab.environment import Episodes, Observation, StepResult
from tallystick.lab.policy import Decoder, Policy, PolicyConfig, sample
from tallystick.lab.rollouts import PAD, Rollouts
from tallystick.lab.suite import Noise, Report, Settings

_constants = _optional.require("textworld_express.constants", extra="textworld-express")
_bridge = _optional.require("py4j.java_gateway", extra="textworld-express")

Task = tuple[str, int]
"""Fold ("train" or "dev") and seed."""

UNKNOWN, THEN, SEE, END = 1, 2, 3, 4
"""Token ids: a word outside the vocabulary, before each command, before the observation, after a command."""

HISTORY = 3
"""Commands that the prompt recalls."""
PROMPT = 208
"""Tokens of the longest prompt; what is longer loses its oldest."""
COMMAND = 12
"""Tokens of the longest command, end mark included."""


@dataclass(frozen=True)
class Game:
    """One game with its settings.

    Args:
        name: the package's name of it.
        parameters: the package's settings, as it takes them.
        horizon: steps of an episode.
        pool: training seeds, from the first.
    """

    name: str
    parameters: str
    horizon: int
    pool: int


TWC = Game("twc", "numLocations=1,numItemsToPutAway=1,includeDoors=0,limitInventorySize=0", horizon=7, pool=1000)
COIN = Game("coin", "numLocations=8,numDistractorItems=0,includeDoors=0,limitInventorySize=0", horizon=15, pool=200)


class Engine:
    """A Java process that plays any number of the package's games at once.

    It ends with `close`, when the object is collected, when Python exits, and when Python is killed. It stands in a
    session of its own, so that Ctrl-C reaches Python alone.

    Raises:
        MissingExtraError: no Java on this machine, or one that is too old.
    """

    def __init__(self) -> None:
        command = [
            java(),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-classpath",
            os.pathsep.join((_bridge.find_jar_path(), _constants.JAR_PATH)),
            "py4j.GatewayServer",
            "--die-on-broken-pipe",
            "--enable-auth",
            "0",
        ]
        self.process = subprocess.Popen(
            command,
            cwd=_constants.BASEPATH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        with self.process.stdout as answer:
            port, token = answer.readline(), answer.readline().decode().strip()
        if not port:
            raise MissingExtraError(f"`{command[0]}` ended at once: TextWorldExpress needs Java 8 or later")
        parameters = _bridge.GatewayParameters(port=int(port), auth_token=token)
        self._gateway = _bridge.JavaGateway(gateway_parameters=parameters)
        self.close = weakref.finalize(self, _end, self.process, self._gateway)

    def play(self, game: Game) -> Any:
        """A fresh instance of the game, independent of all others."""
        instance = self._gateway.jvm.textworldexpress.runtime.PythonInterface()
        refusal = instance.load(game.name, game.parameters)
        if refusal:
            raise RuntimeError(refusal)
        return instance


class TextWorldExpress:
    """A game as the lab plays it; the reward is 1 for the step that wins, else 0.

    Args:
        engine: where it runs.
        game: which one.
    """

    def __init__(self, engine: Engine, game: Game) -> None:
        self._instance = engine.play(game)
        self._horizon = game.horizon
        self._task: Task = ("", 0)
        self._commands: tuple[str, ...] = ()
        self._text = ""

    def reset(self, task: Task) -> Observation:
        """What is seen and held at the start of the seed's game."""
        fold, seed = self._task = task
        self._commands = ()
        return self._seen(json.loads(self._instance.generateNewGameJSON(seed, fold, False)))

    def step(self, text: str) -> StepResult:
        """Plays one command; the game answers one that it does not know, and the step is spent."""
        answer = json.loads(self._instance.stepJSON(text))
        self._commands += (text,)
        done = answer["tasksuccess"] or answer["taskfailure"] or len(self._commands) == self._horizon
        return StepResult(self._seen(answer), float(answer["tasksuccess"]), done)

    def snapshot(self) -> tuple[Task, tuple[str, ...]]:
        """The task and the commands so far: the engine itself cannot be copied."""
        return self._task, self._commands

    def restore(self, snapshot: tuple[Task, tuple[str, ...]]) -> Observation:
        """Plays the commands again, in this very instance."""
        task, commands = snapshot
        observation = self.reset(task)
        for command in commands:
            observation = self.step(command).observation
        return observation

    def state_key(self) -> str:
        """What is seen and held."""
        return self._text

    def _seen(self, answer: dict[str, Any]) -> Observation:
        self._text = f"{answer['look']}\n{answer['inventory']}"
        # the engine lists them in the order of a hash map
        return Observation(self._text, tuple(sorted(answer["validActions"])))


@dataclass(frozen=True)
class Turn:
    """One turn of the b episodes that were live: what the policy read and wrote.

    Args:
        ids: int64 [b], trajectory numbers.
        prompts: int64 [b, P], padded on the left.
        slots: int64 [b, P].
        commands: int64 [b, COMMAND], end mark included, padded on the right.
        chosen: bool [b, COMMAND], True where more than one token was allowed.
        log_probs: float32 [b, COMMAND], of the tokens chosen, under `allowed`; 0 where there was no choice.
        allowed: bool [b, COMMAND, V], children in the trie of the admissible commands.
        path: int64 [b], which admissible command was written.
    """

    ids: NDArray[np.int64]
    prompts: NDArray[np.int64]
    slots: NDArray[np.int64]
    commands: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    log_probs: NDArray[np.float32]
    allowed: NDArray[np.bool_]
    path: NDArray[np.int64]


class TextWorldExpressSuite:
    """`--env textworld-express[:coin]`: each step is a sequence of its own, recent commands and what is seen and held.

    No warm start: under the trie, a fresh policy plays at random among admissible commands, and that wins often enough.

    Args:
        name: what `--env` calls it.
        game: which game.
        iterations: of one run.
    """

    def __init__(self, name: str, game: Game, iterations: int) -> None:
        java()
        self.name = name
        self.game = game
        self.settings = Settings(
            iterations=iterations, tasks=6, copies=8, minibatches=2, learning_rate=1e-3, evaluate_every=30
        )
        self.tokenizer = tokenizer()
        self.policy = PolicyConfig(vocabulary=self.tokenizer.get_vocab_size(), slots=3 + COMMAND)
        self.players: list[TextWorldExpress] = []

    @cached_property
    def engine(self) -> Engine:
        """The Java process, started when first asked for."""
        return Engine()

    @cached_property
    def training(self) -> Sequence[Task]:
        """The first seeds of the package's train fold."""
        return [("train", seed) for seed in self.engine.play(self.game).getSeedsTrain()][: self.game.pool]

    @cached_property
    def held_out(self) -> Sequence[Task]:
        """The first 64 seeds of the package's dev fold."""
        return [("dev", seed) for seed in self.engine.play(self.game).getSeedsDev()][:64]

    def rollout(self, policy: Policy, tasks: Sequence[Task], copies: int, noise: Noise | None) -> Rollouts:
        """Plays each task `copies` times, at temperature 1, or greedily where there is no noise."""
        played = [task for task in tasks for _ in range(copies)]
        while len(self.players) < len(played):
            self.players.append(self.environment())
        episodes = Episodes(self.players[: len(played)], played)
        history: list[list[str]] = [[] for _ in played]
        turns: list[Turn] = []
        while episodes.live:
            live = list(episodes.live)
            seen = [episodes.observations[i] for i in live]
            turn = self._turn(policy, live, [history[i] for i in live], seen, noise, len(turns))
            for i, observation, path in zip(live, seen, turn.path, strict=True):
                history[i].append(observation.admissible[path])
            episodes.step({i: history[i][-1] for i in live})
            turns.append(turn)
        return _rollouts(episodes, turns, copies)

    def evaluate(self, policy: Policy, noise: Noise) -> dict[str, float]:
        """Success on the held-out seeds, sampled eight times and greedy."""
        sampled = greedy = dropped = 0.0
        for first in range(0, len(self.held_out), 8):  # in parts, since each episode has a game of its own
            tasks = self.held_out[first : first + 8]
            at_random = self.rollout(policy, tasks, 8, _shifted(noise, 8 * first))
            likeliest = self.rollout(policy, tasks, 1, None)
            sampled += at_random.steps.reward.sum()
            greedy += likeliest.steps.reward.sum()
            dropped += len(at_random.dropped) + len(likeliest.dropped)
        tasks_held = len(self.held_out)
        return {
            "success": float(sampled) / tasks_held / 8,
            "greedy": float(greedy) / tasks_held,
            "dropped": float(dropped),
        }

    def warm_start(self, policy: Policy, seed: int, report: Report) -> dict[str, float]:
        """None is needed."""
        return {}

    def close(self) -> None:
        """Ends the Java process, if it was started."""
        if "engine" in self.__dict__:
            self.engine.close()

    def environment(self) -> TextWorldExpress:
        """A fresh environment that plays this suite's tasks."""
        return TextWorldExpress(self.engine, self.game)

    def _turn(
        self,
        policy: Policy,
        live: Sequence[int],
        history: Sequence[Sequence[str]],
        seen: Sequence[Observation],
        noise: Noise | None,
        step: int,
    ) -> Turn:
        ids = np.array(live, dtype=np.int64)
        prompts, slots = self._prompts(history, seen)
        paths = self._paths(seen)
        vocabulary = self.policy.vocabulary
        commands = np.full((len(ids), COMMAND), PAD, dtype=np.int64)
        log_probs = np.zeros((len(ids), COMMAND), dtype=np.float32)
        allowed = np.zeros((len(ids), COMMAND, vocabulary), dtype=np.bool_)
        # copies of a task often stand in one state: each prompt is read once
        distinct, first, same = np.unique(prompts, axis=0, return_index=True, return_inverse=True)
        same = same.reshape(-1)
        decoder = Decoder(policy, len(distinct), prompts.shape[1] + COMMAND)
        logits = decoder.feed(distinct, slots[first])[same]
        decoder.repeat(same)
        alive = paths[:, :, 0] != PAD
        for at in range(COMMAND):
            allowed[:, at] = children(paths[:, :, at], alive, vocabulary)
            uniform = None if noise is None else noise(ids, step * COMMAND + at)
            commands[:, at], log_probs[:, at] = sample(logits, uniform, allowed[:, at])
            alive &= paths[:, :, at] == commands[:, at, None]
            if (paths[:, :, at][alive] <= END).all():
                break
            logits = decoder.feed(commands[:, at : at + 1], np.full((len(ids), 1), 3 + at))
        return Turn(ids, prompts, slots, commands, allowed.sum(-1) > 1, log_probs, allowed, alive.argmax(1))

    def _prompts(
        self, history: Sequence[Sequence[str]], seen: Sequence[Observation]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens and slots of "then command ... see observation then", padded on the left."""
        sights = self.tokenizer.encode_batch([observation.text for observation in seen])
        rows = []
        for commands, sight in zip(history, sights, strict=True):
            recent = self.tokenizer.encode_batch(list(commands[-HISTORY:]))
            row = [token for command in recent for token in (THEN, *command.ids)]
            rows.append(([*row, SEE, *sight.ids, THEN][-PROMPT:], len(sight.ids)))
        width = max(len(row) for row, _ in rows)
        tokens = np.full((len(rows), width), PAD, dtype=np.int64)
        slots = np.zeros((len(rows), width), dtype=np.int64)
        slots[:, -1] = 2
        for i, (row, sight_tokens) in enumerate(rows):
            tokens[i, width - len(row) :] = row
            slots[i, max(0, width - sight_tokens - 2) : -1] = 1
        return tokens, slots

    def _paths(self, seen: Sequence[Observation]) -> NDArray[np.int64]:
        """Tokens of each admissible command, end mark included: [b, commands, COMMAND], padded on the right."""
        paths = np.full((len(seen), max(len(o.admissible) for o in seen), COMMAND), PAD, dtype=np.int64)
        for row, observation in zip(paths, seen, strict=True):
            for path, encoding in zip(row, self.tokenizer.encode_batch(list(observation.admissible)), strict=False):
                path[: len(encoding.ids) + 1] = [*encoding.ids, END]
        return paths


def twc() -> TextWorldExpressSuite:
    """`--env textworld-express`: put one thing where common sense says that it belongs."""
    return TextWorldExpressSuite("textworld-express", TWC, iterations=90)


def coin() -> TextWorldExpressSuite:
    """`--env textworld-express:coin`: find the coin among eight rooms."""
    return TextWorldExpressSuite("textworld-express:coin", COIN, iterations=60)


def children(tokens: NDArray[np.int64], alive: NDArray[np.bool_], vocabulary: int) -> NDArray[np.bool_]:
    """The tokens that continue some live command.

    Args:
        tokens: int64 [b, commands], each command's next token.
        alive: bool [b, commands], the commands that begin with what was written so far.
        vocabulary: V.

    Returns:
        bool [b, V]. A command that has ended goes on with padding.
    """
    allowed = np.zeros((len(tokens), vocabulary), dtype=np.bool_)
    row, command = np.nonzero(alive)
    allowed[row, tokens[row, command]] = True
    return allowed


def tokenizer() -> Tokenizer:
    """One token a word, lower case, no punctuation: the words of the package's object list and of its sentences."""
    objects = json.loads((Path(_constants.BASEPATH) / "twc_objects.folds.json").read_text())
    texts = [_SENTENCES]
    for fold in objects.values():
        for thing in fold.values():
            texts += [thing["name"], *thing["locations"]]
    words = sorted({word for text in texts for word in text.lower().split()})
    entries = ["<pad>", "<unk>", "<then>", "<see>", "<end>", *words]
    made = Tokenizer(models.WordLevel({entry: i for i, entry in enumerate(entries)}, unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[^\s.,:]+"), behavior="removed", invert=True)
    return made


def java() -> str:
    """Path of the Java runtime.

    Raises:
        MissingExtraError: there is none.
    """
    found = _optional.java()
    if found is None:
        raise MissingExtraError(
            "TextWorldExpress needs a Java runtime and `java` was not found: install Java 8 or later"
        )
    return found


_SENTENCES = """
    a also an another are arm around backyard barbeque bath bedroom bench case chair close closed coin contains corridor
    currently dining east empty folding garden has in inventory is it line living look mat move night north nothing on
    one open pantry part patio put room see south stove take that the there to tub west workbench you your
"""
"""Words of the package's sentences and rooms that its object list lacks."""


def _rollouts(episodes: Episodes, turns: Sequence[Turn], copies: int) -> Rollouts:
    """The turns as one batch: sequence i is the step of row i."""
    steps = episodes.rows(copies)
    n = len(steps.trajectory)
    prompt = max((turn.prompts.shape[1] for turn in turns), default=1)
    tokens = np.full((n, prompt + COMMAND), PAD, dtype=np.int64)
    slots = np.zeros_like(tokens)
    slots[:, prompt:] = np.arange(3, 3 + COMMAND)
    mask = np.zeros(tokens.shape, dtype=np.bool_)
    log_probs = np.zeros(tokens.shape, dtype=np.float32)
    allowed = np.zeros((n, COMMAND, turns[0].allowed.shape[2] if turns else 1), dtype=np.bool_)
    for number, turn in enumerate(turns):
        kept = steps.first[turn.ids] >= 0
        rows = steps.first[turn.ids[kept]] + number
        start = prompt - turn.prompts.shape[1]
        tokens[rows, start:prompt] = turn.prompts[kept]
        slots[rows, start:prompt] = turn.slots[kept]
        tokens[rows, prompt:] = turn.commands[kept]
        mask[rows, prompt:] = turn.chosen[kept]
        log_probs[rows, prompt:] = turn.log_probs[kept]
        allowed[rows] = turn.allowed[kept]
    row = np.where(mask, np.arange(n)[:, None], -1)
    return Rollouts(tokens, slots, mask, log_probs, row, steps, episodes.dropped, allowed=allowed[mask[:, prompt:]])


def _shifted(noise: Noise, first: int) -> Noise:
    """The noise of trajectories that are numbered from `first` on."""
    return lambda ids, turn: noise(ids + first, turn)


def _end(process: subprocess.Popen[bytes], gateway: Any) -> None:
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()  # the process ends when its standard input does
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
