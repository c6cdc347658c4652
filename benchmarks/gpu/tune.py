"""Static tables beside their alternatives: `python -m benchmarks.gpu.tune --out DIR [--seconds 480]`.

For each kernel at the sizes that matter, the choices nearest to the static one are compiled in processes of
their own.  Those that spill, want too much shared memory or miss the tensor cores are left out; the rest must
give what the static choice gives, and the fastest few are timed in turns with it.  DIR/tune.csv and tune.md
have a row a kernel, DIR/candidates.csv one a choice.  Run again with the same DIR it goes on.  Without a card
(--device cpu) it compiles for an H200, and says what would be timed.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.ahead import FITS, NO_TIME, Ahead, Clock, Job, verdict
from benchmarks.gpu.commands import Place
from benchmarks.gpu.on_card import Graph, Lost, on
from benchmarks.gpu.ranking import fastest
from benchmarks.gpu.tune_tables import Found, Tables
from benchmarks.gpu.tuned import TABLES, tuned
from zoo.kernels.available import absent, no_device

LEAST_S = 10.0  # with less time left nothing is begun
STOPPED = "stopped the card"


def main() -> int:
    """1 where a choice has stopped the card, or none can be tried there."""
    args = _parsed()
    if reason := absent("triton") or (no_device() if args.device == "cuda" else None):
        print(f"tune: nothing to tune: {reason}")
        return int(args.device == "cuda")
    capability = (9, 0) if args.device == "cpu" else torch.cuda.get_device_capability()
    numbers = [n for n, one in enumerate(tuned(args.small)) if not args.ops or one.op in args.ops]
    clock = Clock.of(args.seconds)
    ahead = Ahead(
        numbers=numbers,
        small=args.small,
        dtype=getattr(torch, args.dtype),
        arch=10 * capability[0] + capability[1],
        most=2 if args.small else args.most,
        clock=clock,
    )
    tables = Tables(Place(args.device, args.small, args.out))
    try:
        for job in ahead.jobs(args.workers):
            if not tables.has(job.key):
                said = tables.add(job.key, outcome(job, tables, clock, args.device == "cuda"))
                print(f"{clock.gone:.0f} of {clock.seconds:.0f} s: {said}", flush=True)
    except Lost as error:
        print(f"tune: {error}.  The card must have a new process: run the command again.", flush=True)
        return 1
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="one quick kernel, two choices")
    parser.add_argument("--seconds", type=float, default=480.0, help="in all (default: 480)")
    parser.add_argument("--ops", nargs="+", choices=TABLES, help="these alone (default: all)")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--most", type=int, default=40, help="choices of a kernel (default: 40)")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    return parser.parse_args()


def outcome(job: Job, tables: Tables, clock: Clock, on_card: bool) -> Found:
    """What became of each choice, and the fastest; a choice that stops the card is noted for the next run."""
    values, fates = [value for value, _ in job.verdicts], {}
    for number, (value, future) in enumerate(job.verdicts):
        stopped = tables.fate(job.key, value) == STOPPED
        fates[number] = STOPPED if stopped else verdict(future, clock)
    if not on_card or FITS not in fates.values():
        return Found(values, fates)
    try:
        return timed(job, values, fates, clock)
    except Lost:
        tables.note(job.key, Found(values, fates))
        raise


def timed(job: Job, values: list[Any], fates: dict[int, str], clock: Clock) -> Found:
    """fates: changed where what can be launched is not timed; while one is tried, it has stopped the card."""
    fitting = [number for number, fate in fates.items() if fate == FITS]
    fates.update(dict.fromkeys(fitting, STOPPED))
    card = on(job) if clock.left > LEAST_S else NO_TIME
    fates.update(dict.fromkeys(fitting, card if isinstance(card, str) else FITS))
    if isinstance(card, str):
        return Found(values, fates)
    ready: dict[int, Graph] = {}
    for number in fitting:
        fates[number] = STOPPED
        tried = card.tried(values[number]) if clock.left > LEAST_S else NO_TIME
        fates[number] = FITS if isinstance(tried, Graph) else tried
        if isinstance(tried, Graph):
            ready[number] = tried
    return Found(values, fates, *fastest(card.static, ready, Graph.seconds))


if __name__ == "__main__":
    sys.exit(main())
