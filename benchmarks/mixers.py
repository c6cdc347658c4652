"""Training speed and peak memory of every mixer, against the plain formulation of attention in the same run.

    python -m benchmarks.mixers [--threads 2] [--sizes small long large] [--out benchmarks/tables/mixers.md]

Each number comes from a process of its own.  Examples per second: batch size over the median step (batch
made, forward, backward, clipping, AdamW) after warm-up; with one thread in CPU seconds, which on an idle
machine are seconds.  Memory: the process's peak, torch included.
`plain` is attention as a first draft has it: logits at every position, a mask, scores and probabilities as
tensors, one projection each for q, k and v, AdamW of the loop-over-tensors kind.
`... in the trainer` is the whole of zoo.training.train, with Lightning's loop, on the same cell.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.bench.machine import processor
from zoo.config.compose import compose
from zoo.config.paths import CONF
from zoo.config.settings import OptimConfig
from zoo.instantiate import task_of
from zoo.model import build_model
from zoo.tasks.base import Batch
from zoo.tasks.batches import BatchStream
from zoo.training.lightning_module import answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.process import keep_freed_memory
from zoo.training.train import train

PLAIN, LOOP = "plain", "trainer:"  # rows that are no mixer of themselves
FULL = "attention"  # what the others' steps are measured in
SIZES = {  # d_model, seq_len, num_kv_pairs, batch
    "small": (64, 64, 4, 64),
    "long": (64, 256, 64, 32),
    "large": (128, 256, 64, 32),
}
VOCAB, LR = 8192, 1e-3
WARM_UP, SECONDS, LEAST = 2, 3.0, 8  # then at least 8 steps, and as many as 3 seconds hold
LOOP_STEPS = {"small": 300, "long": 80, "large": 40}


def main() -> None:
    mixers = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mixers", nargs="+", default=mixers)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "SIZE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], args.one[1], args.threads)))
        return
    text = report(args.mixers, args.sizes, args.threads)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def report(mixers: list[str], sizes: list[str], threads: int) -> str:
    rows = list(dict.fromkeys([PLAIN, FULL, *mixers, LOOP + FULL]))
    found = {(row, size): in_a_process(row, size, threads) for row in rows for size in sizes}
    shapes = [SIZES[size] for size in sizes]
    heads = [f"d {d}, L {length}, {pairs} pairs, batch {batch}" for d, length, pairs, batch in shapes]
    lines = [
        "| | "
        + " | ".join(f"{head}: examples/s | / plain | attention / it | peak MB" for head in heads)
        + " |",
        "|---" * (1 + 4 * len(sizes)) + "|",
        *(line(row, sizes, found) for row in rows),
        "",
        f"`python -m benchmarks.mixers --threads {threads} --sizes {' '.join(sizes)}`; {processor()}; "
        f"torch {torch.__version__}, Python {platform.python_version()}.  Vocabulary {VOCAB}, float32.",
    ]
    return "\n".join(lines)


def line(row: str, sizes: list[str], found: dict[tuple[str, str], dict[str, float]]) -> str:
    cells = []
    for size in sizes:
        got, plain, full = (found[name, size]["examples_per_second"] for name in (row, PLAIN, FULL))
        peak = found[row, size]["peak_bytes"]
        cells += [f"{got:,.0f}", f"{got / plain:.1f}", f"{full / got:.1f}", f"{peak / 2**20:,.0f}"]
    name = row.removeprefix(LOOP) + " in the trainer" if row.startswith(LOOP) else row
    return f"| {name} | " + " | ".join(cells) + " |"


def in_a_process(row: str, size: str, threads: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.mixers", "--threads", str(threads), "--one", row, size]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{row} {size}: {done.stdout.strip()}", file=sys.stderr)
    return json.loads(done.stdout)


def measure(row: str, size: str, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    speed = (
        in_the_trainer(row.removeprefix(LOOP), size, threads) if row.startswith(LOOP) else stepped(row, size)
    )
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"examples_per_second": speed, "peak_bytes": peak}


def cell(row: str, size: str, **optim: Any) -> Any:
    d_model, seq_len, pairs, batch = SIZES[size]
    chosen = [] if row == PLAIN else [f"mixer={row}"]
    load = [f"task.seq_len={seq_len}", f"task.num_kv_pairs={pairs}", f"task.vocab_size={VOCAB}"]
    optim = {"batch_size": batch, "max_epochs": 1} | optim
    return compose(
        [*chosen, "task=mqar_single", *load, f"d_model={d_model}", f"lr={LR}"]
        + [f"optim.{key}={value}" for key, value in optim.items()]
    )


def stepped(row: str, size: str) -> float:
    """Examples per second of the step alone, without Lightning's loop."""
    here = cell(row, size)
    if row != PLAIN:
        keep_freed_memory()  # as zoo.training.train does
    d_model, *_, batch_size = SIZES[size]
    batches = iter(BatchStream(task_of(here), "train", batch_size))
    step = plain_step(d_model) if row == PLAIN else real_step(here)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: list[float] = []
    while len(times) < WARM_UP + LEAST or sum(times) < SECONDS:
        start = clock()
        step(next(batches)[1])
        times.append(clock() - start)
    return batch_size / statistics.median(times[WARM_UP:])


def real_step(here: Any) -> Callable[[Batch], None]:
    optim: OptimConfig = here.optim
    model = build_model(here)
    optimizer = make_optimizer(model, optim, LR)
    parameters = list(model.parameters())

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        answers_loss(model, batch).backward()
        if optim.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, optim.grad_clip)
        optimizer.step()

    return step


def in_the_trainer(mixer: str, size: str, threads: int) -> float:
    steps, batch = LOOP_STEPS[size], SIZES[size][-1]
    here = cell(mixer, size)
    here.config["task"] |= {"train_examples": steps * batch, "valid_examples": batch, "test_examples": batch}
    here.config["trainer"]["threads"] = threads
    with tempfile.TemporaryDirectory() as folder:
        speed = train(here, Path(folder))["examples_per_second"]
    assert speed is not None
    return speed


# the plain formulation -------------------------------------------------------------------------------------


class PlainConv(nn.Module):
    """A gated convolution of 3 taps, as the pattern of layers has one in front."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, 3, padding=2, groups=d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        return mixed * self.proj(x) + x


class PlainAttention(nn.Module):
    """softmax(q k^T / sqrt(d) + mask) v, each a tensor of its own."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[2] ** 0.5
        mask = torch.full(scores.shape[1:], -torch.inf, device=x.device).triu(1)
        return self.out(torch.softmax(scores + mask, dim=-1) @ self.v(x))


class PlainModel(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.mixers = nn.ModuleList([PlainConv(d_model), PlainAttention(d_model)])
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embedding(inputs)
        for norm, mixer in zip(self.norms, self.mixers, strict=False):
            x = x + mixer(norm(x))
        return self.norms[-1](x) @ self.embedding.weight.T


def plain_step(d_model: int) -> Callable[[Batch], None]:
    model = PlainModel(d_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1, foreach=True)

    def step(batch: Batch) -> None:
        labels = torch.full_like(batch.inputs, -100).scatter_(1, batch.positions, batch.answers)
        optimizer.zero_grad()
        logits = model(batch.inputs)
        F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
