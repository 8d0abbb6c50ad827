"""Measures a claim again: the runs, the interval, and the page that says what came out."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tallystick._doctor import processor
from tallystick.errors import TallystickError, UnsupportedError
from tallystick.lab import checkpoint, picture
from tallystick.lab.claims import CLAIMS, Check, Claim
from tallystick.lab.clock import totals
from tallystick.lab.config import Config
from tallystick.lab.policy import Policy
from tallystick.lab.suite import suite
from tallystick.lab.train import CHECKPOINT, CONFIG, START, TIMING, lines, reopened

PROCESSES = 2
_T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""97.5 % quantile of Student's t by degrees of freedom."""
_CURVES = ("success", "useful_groups", "entropy", "episode_steps", "shared_anchor_steps", "mean_bucket")

Runs = dict[str, dict[int, list[dict[str, Any]]]]
"""Lines of metrics.jsonl by arm and seed."""


class FailedRunError(TallystickError):
    """A run of a claim ended with an error; the runs that are done are kept."""

    code = "failed_run"


def reproduce(name: str, runs: Path, out: Path) -> bool:
    """Runs what is missing of a claim, prints and writes the page, and says whether everything came out.

    Args:
        name: of the claim.
        runs: folder of the runs; finished ones are kept, others go on.
        out: folder of the results: NAME.md, NAME.json (curves) and NAME.png.

    Raises:
        MissingExtraError: the environment needs a package that is not installed.
        UnsupportedError: no such claim, or a run in `runs` with other hyper-parameters than those of today.
        FailedRunError: a run ended with an error.
    """
    if name not in CLAIMS:
        raise UnsupportedError(f"`name` must be one of {', '.join(CLAIMS)}, found {name!r}", "name")
    claim = CLAIMS[name]
    settings = replace(suite(claim.env).settings, iterations=claim.iterations)
    shared = "" if claim.start_seed is None else str(runs / name / START)
    ordered = [Config(arm, claim.env, seed, settings, shared) for seed in claim.seeds for arm in claim.arms]
    for config in ordered:
        folder = _folder(runs / name, config.method, config.seed)
        if (folder / CHECKPOINT).exists():
            reopened(folder, config.by_name())
    if claim.start_seed is not None and not Path(shared).exists():
        _make_start(claim.env, claim.start_seed, Path(shared))
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        for done in [pool.submit(_run, config, runs / name) for config in ordered]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)
    found = {arm: {seed: lines(_folder(runs / name, arm, seed)) for seed in claim.seeds} for arm in claim.arms}
    verdicts = [(check, *judged(check, found)) for check in claim.checks]
    seconds = {
        arm: [_wall_time(lines(_folder(runs / name, arm, seed), TIMING)) for seed in claim.seeds] for arm in claim.arms
    }
    page = _page(name, claim, found, seconds, verdicts)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text(page)
    (out / f"{name}.json").write_text(json.dumps(_columns(found)) + "\n")
    picture.curves(
        {arm: list(of_seeds.values()) for arm, of_seeds in found.items()}, out / f"{name}.png", f"claim: {claim.title}"
    )
    print(page)
    return all(shown for *_, shown in verdicts)


def judged(check: Check, runs: Runs) -> tuple[list[float], str, bool]:
    """The check's figure by seed, its mean with the 95 % t interval over seeds, and whether the check holds.

    mean +- t(n-1) s / sqrt(n). A gain or a difference is shown only where the interval lies above 0.
    """
    ends = {seed: _held_out(run)[-1][check.figure] for seed, run in runs[check.arm].items()}
    starts = {seed: _held_out(run)[0][check.figure] for seed, run in runs[check.arm].items()}
    if check.what == "start":
        values = list(starts.values())
    elif check.what == "end":
        values = list(ends.values())
    elif check.what == "gain":
        values = [ends[seed] - starts[seed] for seed in ends]
    else:
        values = [ends[seed] - _held_out(runs[check.against][seed])[-1][check.figure] for seed in ends]
    mean = float(np.mean(values))
    half = _T_975[len(values) - 1] * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    holds = mean <= check.mean if check.what == "start" else mean >= check.mean
    if check.worst is not None:
        holds = holds and min(values) >= check.worst
    if check.what in ("gain", "difference"):
        holds = holds and mean - half > 0
    return values, f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]", holds


def _make_start(env: str, seed: int, path: Path) -> None:
    """Writes the weights that all runs start from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    played = suite(env)
    policy = Policy(played.policy, seed)
    played.warm_start(policy, seed, lambda text: print(f"warm start of seed {seed}: {text}", flush=True))
    played.close()
    checkpoint.write(path, policy, None, {})


def _run(config: Config, runs: Path) -> None:
    """One run, unless it is done; goes on with one that was stopped."""
    folder = _folder(runs, config.method, config.seed)
    label = f"{config.method}, seed {config.seed}: "
    if (folder / CHECKPOINT).exists():
        if lines(folder)[-1]["iteration"] >= config.settings.iterations:
            print(f"{label}done before, in {folder}", flush=True)
            return
        options = ["--resume", str(folder)]
    else:
        (folder / CONFIG).unlink(missing_ok=True)
        options = ["--method", config.method, "--env", config.env, "--seed", str(config.seed), "--out", str(folder)]
        options += ["--start", config.start] if config.start else []
    _train([*options, "--iterations", str(config.settings.iterations)], label)


def _train(options: Sequence[str], label: str) -> None:
    """Runs `tallystick train` in a process of one thread and passes its evaluations on."""
    command = [sys.executable, "-c", "from tallystick.cli import main; raise SystemExit(main())", "train", *options]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    last = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **single}
    ) as process:
        for line in process.stdout or ():
            last = line.strip() or last
            if "held-out" in line and "/" in line:
                print(label + line.strip(), flush=True)
    if process.returncode:
        raise FailedRunError(f"{label}exit code {process.returncode}: {last}")


def _page(
    name: str,
    claim: Claim,
    runs: Runs,
    seconds: Mapping[str, Sequence[float]],
    verdicts: Sequence[tuple[Check, list[float], str, bool]],
) -> str:
    seeds = ", ".join(map(str, claim.seeds))
    rows = [
        "| figure, held-out | "
        + " | ".join(f"seed {s}" for s in claim.seeds)
        + " | mean [95 % t interval] | target | |"
    ]
    rows.append("|---" * (len(claim.seeds) + 4) + "|")
    for check, values, interval, holds in verdicts:
        cells = " | ".join(f"{value:.3f}" for value in values)
        rows.append(
            f"| {_label(check)} | {cells} | {interval} | {_target(check)} | {'shown' if holds else 'not shown'} |"
        )
    evidence = [
        "| mean over iterations and seeds | " + " | ".join(claim.arms) + " |",
        "|---" * (len(claim.arms) + 1) + "|",
    ]
    for column in _CURVES[1:]:
        means = [
            np.mean([line[column] for run in runs[arm].values() for line in run if column in line])
            for arm in claim.arms
        ]
        evidence.append(f"| {column.replace('_', ' ')} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    spans = (
        ", ".join(
            f"{held[0]['success']:.3f} to {held[-1]['success']:.3f}" for held in map(_held_out, runs[arm].values())
        )
        for arm in claim.arms
    )
    evidence.append("| held-out success, start to end, by seed | " + " | ".join(spans) + " |")
    times = (f"{np.mean(seconds[arm]):.0f}, at most {max(seconds[arm]):.0f}" for arm in claim.arms)
    evidence.append("| seconds a run, all stages | " + " | ".join(times) + " |")
    last = claim.iterations
    return "\n".join(
        [
            f"# Claim: {claim.title}",
            "",
            f"**{'Shown' if all(holds for *_, holds in verdicts) else 'Not shown'}.**",
            "",
            f"`tallystick reproduce {name}`: {claim.env}, seeds {seeds} (n = {len(claim.seeds)}), {last} iterations a "
            f"run, {PROCESSES} processes of one thread. {_starts(claim)}",
            "",
            f"{_versions()}; {_machine()}.",
            "",
            *rows,
            "",
            "A gain or a difference is shown when its interval lies above 0 and the target is reached.",
            "",
            *evidence,
            "",
            f"![curves]({name}.png) Raw curves: [{name}.json]({name}.json).",
            "",
        ]
    )


def _starts(claim: Claim) -> str:
    if claim.start_seed is not None:
        return f"All runs start from the same weights, the warm start of seed {claim.start_seed}."
    return "Each seed starts from weights of its own."


def _label(check: Check) -> str:
    text = {
        "start": f"{check.arm} before RL",
        "end": f"{check.arm} at the end",
        "gain": f"{check.arm}, end minus start",
        "difference": f"{check.arm} minus {check.against}, at the end",
    }[check.what]
    return f"{check.figure} of {text}"


def _target(check: Check) -> str:
    sign = "≤" if check.what == "start" else "≥"
    return f"mean {sign} {check.mean:.2f}" + ("" if check.worst is None else f", each ≥ {check.worst:.2f}")


def _columns(runs: Runs) -> dict[str, dict[int, dict[str, list[Any]]]]:
    """The curves by arm and seed, column by column, rounded to four places."""
    return {
        arm: {
            seed: {
                "iteration": [line["iteration"] for line in run if "success" in line],
                **{name: [round(line[name], 4) for line in run if name in line] for name in _CURVES},
                "evaluated": [line["iteration"] for line in run if line["held_out"]],
                "held_out": [round(held_out["success"], 4) for held_out in _held_out(run)],
            }
            for seed, run in of_seeds.items()
        }
        for arm, of_seeds in runs.items()
    }


def _held_out(run: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    return [line["held_out"] for line in run if line["held_out"]]


def _wall_time(timing: Sequence[Mapping[str, float]]) -> float:
    """Seconds of a run; "tallystick" lies within the other stages."""
    return sum(seconds for stage, seconds in totals(timing).items() if stage != "tallystick")


def _folder(runs: Path, arm: str, seed: int) -> Path:
    return runs / f"{arm}-{seed}"


def _versions() -> str:
    packages = ("tallystick", "torch", "numpy", "tokenizers")
    return ", ".join(
        [f"Python {platform.python_version()}", *(f"{package} {version(package)}" for package in packages)]
    )


def _machine() -> str:
    return f"{os.cpu_count()} cores of {processor()}, {platform.system()}"
