"""The command line: one function a command, heavy imports inside it, errors of our tree as one line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tallystick
from tallystick._optional import require
from tallystick.errors import TallystickError, UnsupportedError


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command in `argv` (of the process where None).

    0 is done, 1 a claim that was not shown, 2 refused with one line on stderr, 130 stopped by Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except TallystickError as error:
        print(f"tallystick {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tallystick {arguments.command}: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tallystick", description="Credit, kept exactly. See each command's --help.")
    parser.add_argument("--version", action="version", version=f"tallystick {tallystick.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train the built-in small policy, with live progress")
    train.add_argument("--method", help="credit method of the table of methods (gigpo)")
    train.add_argument("--env", help="larder, reasoning-gym, textworld-express, textworld-express:coin (larder)")
    train.add_argument("--iterations", type=_positive, metavar="N", help="rollouts and updates (by environment)")
    train.add_argument("--seed", type=int, metavar="N", help="of everything random (0)")
    folder = train.add_mutually_exclusive_group()
    folder.add_argument("--out", type=Path, metavar="DIR", help="folder of the new run (runs/ENV-METHOD-SEED)")
    folder.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in DIR, bit by bit the same")
    train.add_argument("--start", metavar="FILE", help="weights of a checkpoint in place of the warm start")
    train.set_defaults(run=_train)

    compare = commands.add_parser("compare", help="draw runs over one another")
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders that train wrote")
    compare.add_argument(
        "--out", type=Path, default=Path("compare.png"), metavar="FILE", help="the picture (compare.png)"
    )
    compare.set_defaults(run=_compare)

    reproduce = commands.add_parser("reproduce", help="measure a headline claim again, with seeds and an interval")
    reproduce.add_argument("name", metavar="NAME", help="gigpo, reasoning-gym, twc")
    reproduce.add_argument(
        "--runs", type=Path, default=Path("runs/reproduce"), metavar="DIR", help="folder of the runs"
    )
    reproduce.add_argument(
        "--out", type=Path, default=Path("docs/results"), metavar="DIR", help="folder of the results"
    )
    reproduce.set_defaults(run=_reproduce)

    methods = commands.add_parser("methods", help="the table of presets: each paper, its mark, what it needs")
    methods.add_argument(
        "--seed-id", metavar="ID", help="only the methods of one entry of the list of papers, like 000-1"
    )
    methods.add_argument("--mark", choices=["verified", "reported", "draft"], help="only methods of this mark")
    methods.add_argument("--json", action="store_true", help="print JSON, one object a method")
    methods.set_defaults(run=_methods)

    bench = commands.add_parser("bench", help="ours against peers, parity first, in one run (source checkout)")
    bench.add_argument("--group", metavar="NAME", help="only the benchmarks of this group; an unknown one lists them")
    bench.add_argument("--json", metavar="FILE", type=Path, help="also write the results to FILE")
    bench.set_defaults(run=_bench)

    doctor = commands.add_parser("doctor", help="what is installed, which kernels are live, what is missing")
    doctor.set_defaults(run=_doctor)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, found {value}")
    return value


def _train(arguments: argparse.Namespace) -> int:
    _require_lab()
    from tallystick.lab import commands

    asked = {name: getattr(arguments, name) for name in ("method", "env", "seed", "iterations", "start")}
    return commands.run(asked, arguments.out, arguments.resume)


def _compare(arguments: argparse.Namespace) -> int:
    _require_lab()
    from tallystick.lab import commands

    return commands.compare(arguments.runs, arguments.out)


def _reproduce(arguments: argparse.Namespace) -> int:
    _require_lab()
    from tallystick.lab.reproduce import reproduce

    return 0 if reproduce(arguments.name, arguments.runs, arguments.out) else 1


def _require_lab() -> None:
    for package in ("matplotlib", "rich", "tokenizers", "torch"):
        require(package, extra="lab")


def _methods(arguments: argparse.Namespace) -> int:
    from tallystick import methods

    rows = [
        row
        for row in methods.table()
        if (arguments.seed_id is None or arguments.seed_id in row.seeds)
        and (arguments.mark is None or arguments.mark == row.mark)
    ]
    if arguments.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
        return 0
    for row in rows:
        print(f"{row.name:<24} {row.mark:<9} {row.room:<11} {row.citation}")
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    roots = Path.cwd(), Path(__file__).resolve().parents[2]
    checkout = next((root for root in roots if (root / "benches" / "run.py").is_file()), None)
    if checkout is None:
        raise UnsupportedError("the benchmarks and their peers live in a source checkout: run `make bench` there")
    command = [sys.executable, "-m", "benches.run"]
    command += ["--group", arguments.group] if arguments.group else []
    command += ["--json", str(arguments.json.resolve())] if arguments.json else []
    # A process of its own: the thread counts of BLAS and OpenMP are fixed when NumPy loads.
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.call(command, cwd=checkout, env={**os.environ, **single})


def _doctor(arguments: argparse.Namespace) -> int:
    from tallystick import _doctor

    print(_doctor.report())
    return 0
