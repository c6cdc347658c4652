"""Scale an axis, with ticks in the usual units of its quantity."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from ..statistics.axes import BYTES, FP32, MEASURED, Axis
from .style import GREY, small

INCH = 0.52  # least inches for a tick and its number


def scale(ax: Axes, axis: Axis, low: float, high: float, inches: float) -> None:
    """Set a log axis from low to high, `inches` long, with ticks in the usual units of the quantity."""
    ax.set_xscale("log", base=10 if axis.ticks == MEASURED else 2)
    ax.set_xlim(low, high)
    if axis.ticks == MEASURED:
        measured(ax.xaxis, (1.0, 2.0, 5.0) if high / low < 100 else (1.0,))
    else:
        _powers_of_two(ax, low, high, in_bytes if axis.ticks == BYTES else "{:,.0f}".format, _places(inches))


def fixed(axis: XAxis | YAxis, places: Sequence[float], text: Callable[[float], str]) -> None:
    """Put ticks at these places and nowhere else, each with its text."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: text(x)))


def measured(axis: XAxis | YAxis, digits: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """Put ticks on a log axis at these digits of each power of ten, in engineers' units."""
    axis.set_major_locator(LogLocator(base=10, subs=digits))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(EngFormatter(sep=" "))


def bytes_on_top(ax: Axes, inches: float) -> None:
    """Repeat an axis in scalars at the top of the picture, in fp32 bytes."""
    low, high = (x * FP32 for x in ax.get_xlim())
    ways: Any = (lambda scalars: scalars * FP32, lambda count: count / FP32)
    top = ax.secondary_xaxis("top", functions=ways)
    top.set_xscale("log", base=2)
    _powers_of_two(top, low, high, in_bytes, _places(inches))
    top.tick_params(labelsize=small(), colors=GREY)
    top.set_xlabel("the same in bytes, kept in fp32", fontsize=small(), color=GREY)
    top.spines["top"].set_visible(False)


def in_bytes(count: float) -> str:
    """Return a number of bytes in words: "64 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} TiB"


def _places(inches: float) -> int:
    return max(2, int(inches / INCH))


def _powers_of_two(ax: Any, low: float, high: float, text: Any, places: int) -> None:
    powers = [n for n in range(0, 64) if low <= 2**n <= high]
    stride = 1 + len(powers) // places
    fixed(ax.xaxis, [2.0**n for n in powers if n % stride == 0], text)
