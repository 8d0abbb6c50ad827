"""Single-turn questions of the package reasoning-gym, paid by its own verifiers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from tallystick._optional import require
from tallystick.lab.environment import Episodes, Observation, StepResult
from tallystick.lab.policy import Decoder, Policy, PolicyConfig, sample
from tallystick.lab.rollouts import PAD, Rollouts
from tallystick.lab.suite import Noise, Report, Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # one of its dependencies compares literals with `is`
    _package = require("reasoning_gym", extra="reasoning-gym")

Item = dict[str, Any]
"""What the package generates: "question", "answer" and "metadata"."""

SEPARATOR, END = 1, 2
"""Token ids after the question and after the answer."""


@dataclass(frozen=True)
class Part:
    """One kind of question in the mixture, and the frame that its tokens lie in.

    Args:
        share: of the mixture.
        target: the package's settings that RL trains on.
        easy: its settings for most of the warm start.
        variable: name of the metadata entry that differs from one question to the next.
        slot: first slot of the frame.
        prompt: places of the question, right-aligned; the last is the separator.
        answer: places of the answer, left-aligned, end mark included.
    """

    share: float
    target: dict[str, int]
    easy: dict[str, int]
    variable: str
    slot: int
    prompt: int
    answer: int


MIXTURE = {
    "chain_sum": Part(
        share=0.6,
        target={"min_terms": 2, "max_terms": 4, "min_digits": 1, "max_digits": 3},
        easy={"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
        variable="expression",
        slot=0,
        prompt=25,
        answer=6,
    ),
    "spell_backward": Part(
        share=0.4,
        target={"min_word_len": 3, "max_word_len": 10},
        easy={"min_word_len": 3, "max_word_len": 5},
        variable="word",
        slot=31,
        prompt=12,
        answer=11,
    ),
}
WIDTH = max(part.prompt + part.answer for part in MIXTURE.values())
SLOTS = sum(part.prompt + part.answer for part in MIXTURE.values())


class ReasoningGym:
    """One question, one answer; the reward is 1 where the package's verifier gives full marks, else 0.

    Args:
        source: the package's data sets by name; an item is scored by the one that its metadata names.
    """

    def __init__(self, source: dict[str, Any]) -> None:
        self._source = source
        self._item: Item = {}
        self._done = False

    def reset(self, task: Item) -> Observation:
        """The question."""
        return self.restore((task, False))

    def step(self, text: str) -> StepResult:
        """Scores the answer; a second answer to the same question pays nothing."""
        score = 0.0 if self._done else self._source[dataset(self._item)].score_answer(text, self._item)
        self._done = True
        return StepResult(Observation(self._item["question"]), float(score >= 1), done=True)

    def snapshot(self) -> tuple[Item, bool]:
        """The item, and whether it was answered."""
        return self._item, self._done

    def restore(self, snapshot: tuple[Item, bool]) -> Observation:
        """The question of the snapshot."""
        self._item, self._done = snapshot
        return Observation(self._item["question"])

    def state_key(self) -> str:
        """The question: there is no other state."""
        question: str = self._item["question"]
        return question


class ReasoningGymSuite:
    """`--env reasoning-gym`: 60 % chain sums, 40 % words to spell backward, one token a character.

    Items whose question hashes into one eighth are held out: neither the pool nor the warm start ever shows them.
    """

    name = "reasoning-gym"
    settings = Settings(
        iterations=120,
        tasks=64,
        copies=8,
        minibatches=2,
        learning_rate=3e-4,
        betas=(0.9, 0.95),
        aggregation="seq-mean-token-mean",
        evaluate_every=20,
    )

    def __init__(self) -> None:
        self._target = {name: _dataset(name, part.target) for name, part in MIXTURE.items()}
        self._easy = {name: _dataset(name, part.easy) for name, part in MIXTURE.items()}
        self.tokenizer = tokenizer({name: data[0] for name, data in self._target.items()})
        self.policy = PolicyConfig(vocabulary=self.tokenizer.get_vocab_size(), slots=SLOTS, width=128)
        self.training: Sequence[Item] = self._distinct(1024, seed=1, held_out=False)
        self.held_out: Sequence[Item] = self._distinct(512, seed=2, held_out=True)

    def rollout(self, policy: Policy, tasks: Sequence[Item], copies: int, noise: Noise | None) -> Rollouts:
        """Answers each question `copies` times, at temperature 1, or greedily where there is no noise."""
        items = [task for task in tasks for _ in range(copies)]
        episodes = Episodes([self.environment() for _ in items], items)
        tokens = np.full((len(items), WIDTH), PAD, dtype=np.int64)
        slots = np.zeros((len(items), WIDTH), dtype=np.int64)
        mask = np.zeros((len(items), WIDTH), dtype=np.bool_)
        log_probs = np.zeros((len(items), WIDTH), dtype=np.float32)
        for name, part in MIXTURE.items():
            rows = np.array([i for i in episodes.live if dataset(items[i]) == name], dtype=np.int64)
            if len(rows):
                frame = np.s_[: part.prompt + part.answer]
                slots[rows, frame] = _slots(part)
                prompts = self._prompts(part, [episodes.observations[i].text for i in rows])
                tokens[rows, frame], mask[rows, frame], log_probs[rows, frame] = _write(
                    policy, part, prompts, rows, noise
                )
        answers = self.tokenizer.decode_batch(
            [row[chosen & (row != END)].tolist() for row, chosen in zip(tokens, mask, strict=True)],
            skip_special_tokens=False,
        )
        episodes.step({i: answers[i] for i in episodes.live})
        kept, steps = episodes.kept(), episodes.rows(copies)
        row = np.where(mask, steps.first[:, None], -1)
        return Rollouts(tokens[kept], slots[kept], mask[kept], log_probs[kept], row[kept], steps, episodes.dropped)

    def evaluate(self, policy: Policy, noise: Noise) -> dict[str, float]:
        """Success on the held-out items, sampled four times and greedy, over all and over each kind."""
        kinds = np.array([dataset(item) for item in self.held_out])
        sampled, dropped = self._success(policy, self.held_out, 4, noise)
        greedy, dropped_greedy = self._success(policy, self.held_out, 1, None)
        figures = {"success": float(sampled.mean()), "greedy": float(greedy.mean())}
        for name in MIXTURE:
            figures[name] = float(sampled[kinds == name].mean())
            figures[f"{name}_greedy"] = float(greedy[kinds == name].mean())
        return {**figures, "dropped": float(dropped + dropped_greedy)}

    def warm_start(self, policy: Policy, seed: int, report: Report) -> dict[str, float]:
        """Imitates the package's answers, 85 % of them to easy questions, until 13 % of the pool succeeds."""
        items = self._items(seed, easy=0.85, held_out=False)
        uniform = np.random.default_rng(seed)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3, betas=(0.9, 0.95))
        success, step = 0.0, 0
        while success < 0.13 and step < 600:
            step += 1
            tokens, slots, mask = (torch.from_numpy(column) for column in self._lessons(list(islice(items, 96))))
            loss = -policy.score(tokens, slots, mask).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            if step % 2 == 0:
                pool = self.training[:512]
                success = float(self._success(policy, pool, 1, lambda ids, _: uniform.random(len(ids)))[0].mean())
                report(f"warm start: step {step}, loss {loss.item():.3f}, success {success:.3f}")
        return {"warm_start_steps": float(step), "warm_start_success": success}

    def close(self) -> None:
        """Nothing was started."""

    def environment(self) -> ReasoningGym:
        """A fresh environment that plays this suite's tasks."""
        return ReasoningGym(self._target)

    def _items(self, seed: int, easy: float, held_out: bool) -> Iterator[Item]:
        """Questions of the mixture without end, a share of them easy, on one side of the hash."""
        draw = random.Random(seed)
        names, shares = list(MIXTURE), [part.share for part in MIXTURE.values()]
        while True:
            name = draw.choices(names, shares)[0]
            source = self._easy if draw.random() < easy else self._target
            item = source[name][draw.randrange(2**40)]
            if is_held_out(item["question"]) == held_out:
                yield item

    def _distinct(self, n: int, seed: int, held_out: bool) -> list[Item]:
        found: dict[str, Item] = {}
        for item in self._items(seed, easy=0.0, held_out=held_out):
            found.setdefault(item["question"], item)
            if len(found) == n:
                break
        return list(found.values())

    def _success(
        self, policy: Policy, items: Sequence[Item], copies: int, noise: Noise | None
    ) -> tuple[NDArray[np.float64], int]:
        """Share of each item's answers that earn full marks, and how many were dropped, which earn none."""
        rollouts = self.rollout(policy, items, copies, noise)
        steps = rollouts.steps
        share = np.bincount(steps.group, weights=steps.reward, minlength=len(items)) / copies
        return share, len(rollouts.dropped)

    def _prompts(self, part: Part, questions: Sequence[str]) -> NDArray[np.int64]:
        prompts = np.full((len(questions), part.prompt), PAD, dtype=np.int64)
        for row, encoding in zip(prompts, self.tokenizer.encode_batch(questions), strict=True):
            row[part.prompt - 1 - len(encoding.ids) :] = [*encoding.ids, SEPARATOR]
        return prompts

    def _lessons(self, items: Sequence[Item]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Tokens, slots and answer mask of questions with their answers."""
        tokens = np.full((len(items), WIDTH), PAD, dtype=np.int64)
        slots = np.zeros((len(items), WIDTH), dtype=np.int64)
        mask = np.zeros((len(items), WIDTH), dtype=np.bool_)
        for i, item in enumerate(items):
            part = MIXTURE[dataset(item)]
            answer = [*self.tokenizer.encode(item["answer"]).ids, END]
            stop = part.prompt + len(answer)
            tokens[i, : part.prompt] = self._prompts(part, [item["question"]])[0]
            tokens[i, part.prompt : stop] = answer
            slots[i, : part.prompt + part.answer] = _slots(part)
            mask[i, part.prompt : stop] = True
        return tokens, slots, mask


def tokenizer(examples: dict[str, Item]) -> Tokenizer:
    """A lossless tokenizer of the mixture: each constant phrase one token, everything else one token a character.

    Args:
        examples: any item of each part; what its question holds beside the variable part is constant.
    """
    phrases = [item["question"].split(item["metadata"][MIXTURE[name].variable])[0] for name, item in examples.items()]
    characters = "0123456789 +-=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    entries = ["<pad>", "<sep>", "<end>", *phrases, *characters]
    made = Tokenizer(models.WordLevel({entry: i for i, entry in enumerate(entries)}, unk_token="<unk>"))
    split = "|".join(_escaped(phrase) for phrase in phrases) + "|."
    made.pre_tokenizer = pre_tokenizers.Split(Regex(split), behavior="isolated")
    made.decoder = decoders.Fuse()
    return made


def is_held_out(question: str) -> bool:
    """Whether the question belongs to the held-out eighth: the last three bits of its BLAKE2b hash are 0."""
    return blake2b(question.encode(), digest_size=1).digest()[0] % 8 == 0


def dataset(item: Item) -> str:
    """Name of the data set that an item came from."""
    name: str = item["metadata"]["source_dataset"]
    return name


def _dataset(name: str, settings: dict[str, int]) -> Any:
    return _package.create_dataset(name, seed=0, **settings)


def _slots(part: Part) -> NDArray[np.int64]:
    return np.arange(part.slot, part.slot + part.prompt + part.answer)


def _write(
    policy: Policy, part: Part, prompts: NDArray[np.int64], ids: NDArray[np.int64], noise: Noise | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float32]]:
    """The frames of one part with the policy's answers: tokens, what it chose, log-probabilities of that."""
    shape = (len(prompts), part.prompt + part.answer)
    tokens = np.full(shape, PAD, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.bool_)
    log_probs = np.zeros(shape, dtype=np.float32)
    tokens[:, : part.prompt] = prompts
    slots = np.tile(_slots(part), (len(prompts), 1))
    decoder = Decoder(policy, *shape)
    open_ = np.ones(len(prompts), dtype=np.bool_)
    read = 0
    for at in range(part.prompt, part.prompt + part.answer):
        logits = decoder.feed(tokens[:, read:at], slots[:, read:at])
        chosen, log_prob = sample(logits, None if noise is None else noise(ids, at - part.prompt))
        tokens[open_, at], mask[open_, at], log_probs[open_, at] = chosen[open_], True, log_prob[open_]
        open_ &= chosen != END
        read = at
        if not open_.any():
            break
    return tokens, mask, log_probs


def _escaped(phrase: str) -> str:
    return "".join(f"\\{c}" if c in "()->:." else c for c in phrase)
