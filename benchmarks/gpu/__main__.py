"""What only a card can say, in parts that take minutes: `python -m benchmarks.gpu PART ... --out DIR`.

  tests    the gpu tests of every kernel; each error beside its bound
  ops      every op beside its alternatives and its floor
  layers   prefill and decode of whole layers; SE-Attn at 65,536 tokens beside attention and a window
  steps    training steps a second of one cell: eager, in a graph, compiled; populations of 4, 16, 64
  sweep    as much of Figure 2 as fits, recorded, archived and drawn
  tune     the static tables of the Triton kernels beside their alternatives
  targets  a table of what was aimed at and what the other parts have measured; made after each of them

  first    the first half hour on a card, in the order of benchmarks/gpu/first.py; --rehearse: on a CPU

Parts may be given together or one by one, with the same --out; a part run again goes on where it can.  Every
command is a process of its own: one that fails or takes too long costs no other its numbers, and is listed
in DIR/commands.csv with its exit code.  Each part leaves its tables in DIR/PART; DIR/tables.zip has all of
them, with logs, pictures and the archive of records, in one file that can be carried away.
"""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.gpu.commands import Place, run
from benchmarks.gpu.first import FIRST
from benchmarks.gpu.pack import pack
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.targets import write_targets
from zoo.kernels.available import no_device

TARGETS = "targets"


def main() -> int:
    """0 where every command of the parts ended well; 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="+", choices=[*PARTS, TARGETS, "all", "first"], metavar="PART")
    parser.add_argument("--rehearse", action="store_true", help="as --device cpu --small")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where all tables go")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that every part runs")
    parser.add_argument("--minutes", type=float, default=9.0, help="for each part (default: 9)")
    args = parser.parse_args()
    if args.rehearse:
        args.device, args.small = "cpu", True
    if args.device == "cuda" and (reason := no_device()):
        parser.error(f"--device (=cuda) cannot be had: {reason}.  `--device cpu --small` tries every part.")
    place = Place(args.device, args.small, args.out, args.minutes)
    failed = _first(place) if "first" in args.parts else 0
    for name in PARTS if "all" in args.parts else [part for part in PARTS if part in args.parts]:
        failed += run(name, PARTS[name], place, deadline=time.monotonic() + 60 * args.minutes)
    print(write_targets(place))
    pack(place)
    return 1 if failed else 0


def _first(place: Place) -> int:
    """How many commands failed.  A part that ends early leaves its minutes to the last."""
    failed, ends = 0, time.monotonic()
    for name, (part, minutes) in FIRST.items():
        ends += 60 * minutes
        began = time.monotonic()
        last = name == [*FIRST][-1]
        failed += run(name, part, place, deadline=ends if last else min(ends, began + 60 * minutes))
        pack(place)  # whatever becomes of the rest
    return failed


if __name__ == "__main__":
    sys.exit(main())
