"""What accuracy can be drawn against: one row a quantity, each with its unit and with which way is better."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis.style import GREY, small
from zoo.state import BYTES_PER_SCALAR

FP32, BF16 = BYTES_PER_SCALAR["float32"], BYTES_PER_SCALAR["bfloat16"]
COUNT, BYTES, MEASURED = "count", "bytes", "measured"  # how ticks are written
INCH = 0.52  # for a tick and its number, at least


@dataclass(frozen=True)
class Axis:
    """column: of `analysis.points.points`.  words, unit: of the label; {tokens} is the longest sequence.

    more: more is better, so that the frontier turns round.
    bits: of a scalar, for which `analysis.bounds` says what so much state can recall: first as it is kept,
    then for comparison; none where the quantity is no memory, or is not all of it.  per_scalar: units of this
    axis in a scalar of it.
    """

    column: str
    words: str
    unit: str
    more: bool = False
    bits: tuple[int, ...] = ()
    per_scalar: int = 1
    ticks: str = COUNT

    def cost(self, points: pd.DataFrame) -> pd.Series:
        """What a frontier keeps small: the column itself, or its negative where more is better."""
        sign = -1.0 if self.more else 1.0
        return pd.Series(sign * points[self.column].to_numpy(float), index=points.index)

    def label(self, tokens: str) -> str:
        return f"{self.words.format(tokens=tokens)} ({self.unit})"


SCALARS, IN_BYTES = "scalars per sequence, all layers", "bytes per sequence, all layers"
AXES = {
    "resident": Axis(
        "state_resident", "Resident state, the most in {tokens} tokens", SCALARS, bits=(32, 16, 1)
    ),
    "paper": Axis("state_paper", "State as published figures count it, in {tokens} tokens", SCALARS),
    "touched": Axis("state_touched", "State read by one decode step, the most in {tokens} tokens", SCALARS),
    "fp32": Axis(
        "bytes_fp32", "Resident state in fp32, in {tokens} tokens", IN_BYTES, bits=(32,), per_scalar=FP32,
        ticks=BYTES,
    ),
    "bf16": Axis(
        "bytes_bf16", "Resident state in bf16, in {tokens} tokens", IN_BYTES, bits=(16,), per_scalar=BF16,
        ticks=BYTES,
    ),
    "parameters": Axis("parameters", "Parameters of the model", "scalars", ticks=MEASURED),
    "throughput": Axis(
        "decode_tokens_per_second", "Decode throughput, more is better", "tokens per second, all of a batch",
        more=True, ticks=MEASURED,
    ),
    "operations": Axis(
        "operations", "Training cost of one cell", "floating-point operations", ticks=MEASURED
    ),
    "seconds": Axis("wall_seconds", "Training time of one cell", "seconds", ticks=MEASURED),
}  # fmt: skip
PER_CELL = ("decode_tokens_per_second", "operations", "wall_seconds")  # others belong to the point


def scale(ax: Axes, axis: Axis, low: float, high: float, inches: float) -> None:
    """A log axis from low to high, so many inches long, with ticks as the quantity is spoken of."""
    ax.set_xscale("log", base=10 if axis.ticks == MEASURED else 2)
    ax.set_xlim(low, high)
    if axis.ticks == MEASURED:
        _ones_twos_fives(ax, low, high)
    else:
        _powers_of_two(ax, low, high, in_bytes if axis.ticks == BYTES else _count, _places(inches))


def bytes_on_top(ax: Axes, inches: float) -> None:
    """On top of an axis in scalars, the same in fp32 bytes."""
    low, high = (x * FP32 for x in ax.get_xlim())
    top = ax.secondary_xaxis("top", functions=(_to_bytes, _from_bytes))
    top.set_xscale("log", base=2)
    _powers_of_two(top, low, high, in_bytes, _places(inches))
    top.tick_params(labelsize=small(), colors=GREY)
    top.set_xlabel("the same in bytes, kept in fp32", fontsize=small(), color=GREY)
    top.spines["top"].set_visible(False)


def _to_bytes(scalars: Any) -> Any:
    return scalars * FP32


def _from_bytes(count: Any) -> Any:
    return count / FP32


def in_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} TiB"


def _places(inches: float) -> int:
    return max(2, int(inches / INCH))


def _count(x: float) -> str:
    return f"{x:,.0f}"


def _powers_of_two(ax: Any, low: float, high: float, text: Any, places: int) -> None:
    powers = [n for n in range(0, 64) if low <= 2**n <= high]
    stride = 1 + len(powers) // places
    ax.xaxis.set_major_locator(FixedLocator([2.0**n for n in powers if n % stride == 0]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: text(x)))


def _ones_twos_fives(ax: Axes, low: float, high: float) -> None:
    narrow = high / low < 100
    ax.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
