"""Larder made trainable: its tasks, its lockstep rollout under one running context, and the imitation of its guide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from tallystick.lab.environment import Environment, Episodes
from tallystick.lab.larder import HORIZON, LEVELS, WORDS, Guide, Larder, LarderTask
from tallystick.lab.policy import Decoder, Policy, PolicyConfig, sample
from tallystick.lab.rollouts import Rollouts
from tallystick.lab.suite import Noise, Report, Settings
from tallystick.random import Stream

GOAL, SEEN, COMMAND = 6, 8, 2
"""Words of the three frames; a context is one goal, then a view and a command a turn."""
_TURN = SEEN + COMMAND
_CONTEXT = GOAL + HORIZON * _TURN
_SLOTS = np.concatenate([np.arange(GOAL), np.tile(np.arange(GOAL, GOAL + _TURN), HORIZON)])

_TRAINING, _HELD_OUT, _GUIDED = 0, 1_000_000, 2_000_000
"""First seed of each list of tasks, so that no two share a task."""

GUIDED_EPISODES = 3000
GUIDE_NOISE = (0.0, 0.2, 0.5)
IMITATION_BATCH = 24
IMITATION_RATE = 3e-3
IMITATION_STEPS = 600
IMITATION_GOAL = 0.15
"""Imitation ends at this success over half the training tasks, tried every ten steps, or after so many steps."""

EPISODES = 3
"""Episodes of each held-out task."""


class LarderSuite:
    """Larder for `--env larder`; see `tallystick.lab.suite.Suite`."""

    name = "larder"
    settings = Settings()
    policy = PolicyConfig(vocabulary=len(WORDS), slots=GOAL + _TURN, spread=3**-0.5)

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=WORDS[0]))
        self.tokenizer.pre_tokenizer = WhitespaceSplit()
        self.training = _tasks(_TRAINING, 512)
        self.held_out = _tasks(_HELD_OUT, 200)

    def environment(self) -> Environment:
        """A fresh game."""
        return Larder()

    def rollout(self, policy: Policy, tasks: Sequence[LarderTask], copies: int, noise: Noise) -> Rollouts:
        """One sequence an episode: goal, then view and command a turn."""
        played = [task for task in tasks for _ in range(copies)]
        episodes = Episodes([self.environment() for _ in played], played)
        tokens = np.zeros((len(played), _CONTEXT), dtype=np.int64)
        log_probs = np.zeros(tokens.shape, dtype=np.float32)
        reading = np.array(episodes.live)  # the episode behind each row of the decoder
        decoder = Decoder(policy, len(reading), _CONTEXT)
        read = 0
        for turn in range(HORIZON):
            live = np.array(episodes.live)
            if len(live) == 0:
                break
            if len(live) < len(reading):
                decoder.keep(np.searchsorted(reading, live))
                reading = live
            view = GOAL + turn * _TURN
            verb, noun = view + SEEN, view + SEEN + 1
            texts = [episodes.observations[i].text for i in live]
            tokens[live, 0 if turn == 0 else view : verb] = self._ids(texts)
            for place, drawn in ((verb, 2 * turn), (noun, 2 * turn + 1)):
                logits = decoder.feed(tokens[live, read:place], np.tile(_SLOTS[read:place], (len(live), 1)))
                tokens[live, place], log_probs[live, place] = sample(logits, noise(live, drawn))
                read = place
            commands = self.tokenizer.decode_batch(tokens[live, verb : noun + 1].tolist())
            episodes.step(dict(zip(live.tolist(), commands, strict=True)))
        kept = np.array(episodes.kept(), dtype=np.int64)
        steps = episodes.rows(copies)
        row = _step_rows(episodes.length[kept], steps.first[kept])[:, : GOAL + _TURN * int(episodes.length.max())]
        return Rollouts(
            tokens=tokens[kept, : row.shape[1]],
            slots=np.broadcast_to(_SLOTS[: row.shape[1]], row.shape),
            response_mask=row >= 0,
            rollout_log_probs=log_probs[kept, : row.shape[1]],
            row=row,
            steps=steps,
            dropped=episodes.dropped,
        )

    def evaluate(self, policy: Policy, noise: Noise) -> dict[str, float]:
        """Success over the held-out tasks, a few episodes each, and by level."""
        rollouts = self.rollout(policy, self.held_out, EPISODES, noise)
        task, outcome = rollouts.outcomes()
        # an episode that was dropped is not won
        won = np.bincount(task, outcome >= 1.0, len(self.held_out)) / EPISODES
        by_level = {f"success_level_{level}": float(won[level - 1 :: len(LEVELS)].mean()) for level in LEVELS}
        return {"success": float(won.mean()), **by_level, "dropped": float(len(rollouts.dropped))}

    def warm_start(self, policy: Policy, seed: int, report: Report) -> dict[str, float]:
        """Imitates guides of three noise levels up to a given success: a weak start that knows the grammar."""
        stream = Stream(seed)
        tokens, lengths = self._guided(stream)
        mask = _step_rows(lengths, np.zeros_like(lengths)) >= 0
        optimizer = torch.optim.AdamW(policy.parameters(), lr=IMITATION_RATE, fused=True)
        success, step = 0.0, 0
        while success < IMITATION_GOAL and step < IMITATION_STEPS:
            batch = stream.permutation(len(tokens), step, "larder/imitation")[:IMITATION_BATCH]
            length = GOAL + _TURN * int(lengths[batch].max())
            log_probs = policy.score(
                torch.from_numpy(tokens[batch, :length]),
                torch.from_numpy(_SLOTS[:length]).expand(len(batch), -1),
                torch.from_numpy(mask[batch, :length]),
            )
            loss = -log_probs.mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 10 == 0:
                success = self._tried(policy, stream, step)
                report(f"imitation, step {step}: loss {loss.item():.3f} nats a word, success {success:.3f}")
        return {"imitation_steps": float(step), "imitation_success": success}

    def close(self) -> None:
        """Nothing to end."""

    @torch.no_grad()
    def _tried(self, policy: Policy, stream: Stream, step: int) -> float:
        """Share of half the training tasks that the policy wins, one episode each."""

        def noise(ids: NDArray[np.int64], turn: int) -> NDArray[np.float64]:
            uniform: NDArray[np.float64] = stream.draw(step, ids * 2 * HORIZON + turn, "larder/tried")
            return uniform

        _, outcome = self.rollout(policy, self.training[::2], 1, noise).outcomes()
        return float((outcome >= 1.0).mean())

    def _ids(self, texts: list[str]) -> NDArray[np.int64]:
        return np.array([encoding.ids for encoding in self.tokenizer.encode_batch(texts)], dtype=np.int64)

    def _guided(self, stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Contexts int64 [episodes, T] of guided play, and the steps of each."""
        texts, lengths = [], []
        game = Larder()
        for episode, task in enumerate(_tasks(_GUIDED, GUIDED_EPISODES)):
            guide = Guide(GUIDE_NOISE[episode % len(GUIDE_NOISE)], stream, episode)
            view, done, words = game.reset(task).text, False, []
            while not done:
                command = guide.command(view)
                words += [view, command]
                result = game.step(command)
                view, done = result.observation.text, result.done
            texts.append(" ".join(words))
            lengths.append(len(words) // 2)
        tokens = np.zeros((len(texts), _CONTEXT), dtype=np.int64)
        for row, encoding in zip(tokens, self.tokenizer.encode_batch(texts), strict=True):
            row[: len(encoding.ids)] = encoding.ids
        return tokens, np.array(lengths, dtype=np.int64)


def _tasks(first: int, count: int) -> list[LarderTask]:
    """`count` tasks over all levels in turn."""
    return [LarderTask(first + i, LEVELS[i % len(LEVELS)]) for i in range(count)]


def _step_rows(lengths: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [B, T]: `first` + turn on the two command words of each turn that was played, -1 elsewhere."""
    turn, place = np.divmod(np.arange(_CONTEXT) - GOAL, _TURN)
    command = (turn >= 0) & (place >= SEEN) & (turn < lengths[:, None])
    return np.where(command, first[:, None] + turn, -1)
