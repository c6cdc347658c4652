"""Time and memory of a forgetting curve to texts of 8,192 tokens: rows of up to 16,387.

    python -m benchmarks.forgetting [--longest 8192] [--out benchmarks/tables/forgetting.md]

Two layers of width 64, a convolution and the mixer, on one core, each in a process of its own; what a
model has learned costs nothing, so none is trained.  CPU seconds, which on an idle machine are seconds.
Memory: the process's peak, torch included; `before` is what it had reached when model and text stood.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from zoo.bench.machine import processor
from zoo.config.compose import compose
from zoo.evaluation.forgetting.curve import forgetting_curve, grid
from zoo.evaluation.forgetting.evaluation import predictor
from zoo.evaluation.trained import Trained
from zoo.instantiate import task_of
from zoo.model import build_model
from zoo.tasks.corpora.base import BOS, EOS
from zoo.tasks.text import Text

MIXERS = ("attention", "sliding_window", "based", "mamba2")
COUNT, REPEATS = 24, 10  # lengths and texts a length, as conf/evaluation/forgetting_curve.yaml has them
TIMED = 1  # of the repeats: each costs the same


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    parser.add_argument("--one", metavar="MIXER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.longest)))
        return
    text = report(args.longest)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def report(longest: int) -> str:
    rows = [f"| {mixer} | {line(in_a_process(mixer, longest))} |" for mixer in MIXERS]
    return "\n".join(
        [
            f"| {COUNT} lengths to {longest:,} | CPU s a repeat | of it the longest | {REPEATS} repeats | "
            "peak MB | before |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            f"`python -m benchmarks.forgetting --longest {longest}`; {processor()}, one thread; torch "
            f"{torch.__version__}, Python {platform.python_version()}.  A repeat is a copy row and an lm "
            f"row of every length; {TIMED} was timed, {REPEATS} are {REPEATS // TIMED} times as long.",
        ]
    )


def line(found: dict[str, float]) -> str:
    whole, last = found["seconds"], found["longest_seconds"]
    memory = " | ".join(f"{found[name] / 2**20:,.0f}" for name in ("peak_bytes", "before_bytes"))
    return f"{whole:.1f} | {last:.1f} | {whole * REPEATS / 60:.1f} min | {memory}"


def in_a_process(mixer: str, longest: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.forgetting", "--longest", str(longest), "--one", mixer]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{mixer}: {done.stdout.strip()}", file=sys.stderr)
    return json.loads(done.stdout)


def measure(mixer: str, longest: int) -> dict[str, float]:
    torch.set_num_threads(1)
    layers = "model.layers=[base_conv,mixer]"
    cell = compose([f"mixer={mixer}", "task=text", "d_model=64", layers])
    task = task_of(cell)
    assert isinstance(task, Text)
    ids = task.ids("train")
    trained = Trained(build_model(cell).eval(), task, cell, {})
    before, lengths = peak(), grid(longest, COUNT)
    short, last = timed(trained, ids, lengths[:-1]), timed(trained, ids, lengths[-1:])
    found = {"seconds": short + last, "longest_seconds": last}
    return found | {"peak_bytes": float(peak()), "before_bytes": float(before)}


def timed(trained: Trained, ids: torch.Tensor, lengths: list[int]) -> float:
    began = time.process_time()
    forgetting_curve(predictor(trained), ids, lengths, bos=BOS, eos=EOS, seed=0, repeats=TIMED)
    return (time.process_time() - began) / TIMED


def peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
