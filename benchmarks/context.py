"""Time and memory of one layer against the length of its context: full attention, and what is to save it.

    OMP_NUM_THREADS=1 python -m benchmarks.context --out benchmarks/tables/context.md

Writes the table, and its numbers beside it (context.csv).  Processor time of one thread, not the clock on the
wall, least of a few calls: other work on the machine counts little.  Memory: what torch's allocator holds at
most in a call, beyond what it held before, by the profiler's record of every allocation.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from zoo.bench.machine import Machine
from zoo.config.compose import compose
from zoo.model import build_model

SPANS = "mixer=se_attn mixer.chunk_size=1024 mixer.block_size=32 mixer.top_k=8"
SUBJECTS = {  # name -> words
    "Attention": "mixer=attention",
    "Sliding window": "mixer=sliding_window mixer.window=1024",
    "S²-Attn": "mixer=s2_attn mixer.group_size=1024",
    "SE-Attn, a choice a chunk": f"{SPANS} mixer.selection=chunk",
    "SE-Attn, a choice a token": f"{SPANS} mixer.summary=mean_key",
}
SHARED = "d_model=64 mixer.num_heads=2 mixer.position=rope mixer.bias=true"
LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536)
FORWARD, BOTH = "forward", "forward and backward"
REPEATS, LONG = 3, 3.0  # calls that are timed; one alone where it takes so many seconds
SECONDS, BYTES = 10.0, 2 * 2**30  # a call that takes more is the longest of its kind
COLUMNS = ("subject", "tokens", "pass", "seconds", "peak_bytes", "left_out", "device", "versions")

HEAD = """# Time and memory against context

One layer of width 64 with two heads, one sequence, float32, one thread of {device}; {versions}.
Milliseconds of processor time, the least of up to {repeats} calls, and the most MB that torch's allocator
held beyond what it held before. The machine had other work: ratios within this table count. Behind a call
of more than {seconds:g} s or {gib:g} GiB, longer ones are left out. All but full attention
have 1,024 tokens in view. SE-Attn chooses 8 blocks of 32 tokens more: once a chunk, as published (and not
causal), or for every token, by their mean keys. `python -m benchmarks.context` makes it.

![](../../docs/figures/context.png)
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--out", type=Path, help="where the table goes, and its numbers as .csv; else it is printed"
    )
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help=f"tokens (default: {LENGTHS[-1]})")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lengths = [length for length in LENGTHS if length <= options.longest]
    if not lengths:
        parser.error(f"--longest (={options.longest}) must be at least {LENGTHS[0]}")
    rows = pd.DataFrame([row for name in SUBJECTS for row in measured(name, lengths)], columns=[*COLUMNS])
    if options.out:
        rows.to_csv(options.out.with_suffix(".csv"), index=False, float_format="%.6g")
        options.out.write_text(page(rows))
    else:
        print(page(rows), end="")
    return 0


def measured(name: str, lengths: list[int]) -> Iterator[dict[str, Any]]:
    """A row for each length and pass of a subject."""
    machine = Machine("cpu", 1)
    cell = compose([*SUBJECTS[name].split(), *SHARED.split()])
    mixer = build_model(cell).mixers[cell.chosen_layer]
    for kind, run in ((FORWARD, partial(forward, mixer.eval())), (BOTH, partial(both, mixer))):
        found: list[tuple[float, float]] = []
        for length in lengths:
            about: dict[str, Any] = {"subject": name, "tokens": length, "pass": kind}
            about |= {"device": machine.device, "versions": machine.versions}
            if why := too_much(found):
                yield about | {"left_out": why}
                continue
            x = torch.randn(1, length, cell.d_model, generator=torch.Generator().manual_seed(0))
            found.append((seconds(machine, partial(run, x)), peak_bytes(partial(run, x))))
            yield about | dict(zip(("seconds", "peak_bytes"), found[-1], strict=True))
            print(name, kind, length, *found[-1], file=sys.stderr)


def forward(mixer: torch.nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        mixer(x)


def both(mixer: torch.nn.Module, x: Tensor) -> None:
    torch.autograd.grad(mixer(x).square().mean(), [*mixer.parameters()])


def seconds(machine: Machine, run: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < LONG:
        began = machine.now()
        run()
        times.append(machine.now() - began)
    return min(times)


def peak_bytes(run: Callable[[], object]) -> int:
    """The most that the allocator holds at once in a call, beyond what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    assert record.profiler is not None and record.profiler.kineto_results is not None
    held = most = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()  # pyright: ignore
            most = max(most, held)
    return most


def too_much(found: list[tuple[float, float]]) -> str:
    """Why the next length is left out: what the one before took; "": it is not.

    No growth is guessed at: implementations change with the length.
    """
    time, size = found[-1] if found else (0.0, 0.0)
    return f"over {SECONDS:g} s" if time > SECONDS else f"over {BYTES / 2**30:g} GiB" if size > BYTES else ""


def page(rows: pd.DataFrame) -> str:
    """The table in Markdown, from the columns of the CSV."""
    first = rows.iloc[0]
    limits = {"repeats": REPEATS, "seconds": SECONDS, "gib": BYTES / 2**30}
    lines = [HEAD.format(device=first["device"], versions=first["versions"], **limits)]
    lengths = sorted(set(rows["tokens"]))
    for kind in (FORWARD, BOTH):
        lines += [f"| {kind}: ms, MB | " + " | ".join(f"{length:,}" for length in lengths) + " |"]
        lines += ["|---|" + "--:|" * len(lengths)]
        for name, group in rows.loc[rows["pass"] == kind].groupby("subject", sort=False):
            lines.append(
                f"| {name} | "
                + " | ".join(map(_words, group.sort_values("tokens").to_dict("records")))
                + " |"
            )
        lines.append("")
    return "\n".join(lines)


def _words(row: dict) -> str:
    if pd.isna(row["seconds"]):
        return str(row["left_out"])
    return f"{1000 * row['seconds']:,.0f}, {row['peak_bytes'] / 2**20:,.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
