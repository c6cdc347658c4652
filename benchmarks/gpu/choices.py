"""How a kernel is cut: what its static table says, what it might say instead, and saying that for a while.

A launch looks its choice up in its module every time, so another one holds from the moment that the name in
the module means something else.  Nothing in an op knows of this.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from math import log2
from typing import Any

WARPS, STAGES = (1, 8), (1, 4)
SIZE = (16, 256)  # a product takes 16 at least
SHORT = (2, 16)  # of what is below 16 from the start: steps of a scan, channels without products


@dataclass(frozen=True)
class Knob:
    """place: MODULE:NAME, a table (a function of the kernel's name and of sizes) or a constant.
    kernel: whose entry of the table; None: all of it, or the constant.
    """

    place: str
    kernel: str | None = None

    @property
    def word(self) -> str:
        return self.kernel or self.place.rpartition(":")[2]

    def value(self) -> Any:
        """Of a constant."""
        module, name = self._found()
        return getattr(module, name)

    @contextmanager
    def at(self, value: Any) -> Iterator[None]:
        """Inside, it has this value."""
        module, name = self._found()
        static = getattr(module, name)
        setattr(module, name, self._said(static, value) if callable(static) else value)
        try:
            yield
        finally:
            setattr(module, name, static)

    def _found(self) -> tuple[Any, str]:
        module, _, name = self.place.partition(":")
        return import_module(module), name

    def _said(self, static: Callable[..., Any], value: Any) -> Callable[..., Any]:
        def table(*sizes: Any) -> Any:
            return value if self.kernel in (None, sizes[0]) else static(*sizes)

        return table


@contextmanager
def noted(place: str) -> Iterator[dict[Knob, Any]]:
    """Inside, what a table is asked for, and what it says, in order."""
    whole = Knob(place)
    static, found = whole.value(), {}

    def table(*sizes: Any) -> Any:
        said = static(*sizes)
        found.setdefault(Knob(place, sizes[0]) if isinstance(sizes[0], str) else whole, said)
        return said

    module, name = whole._found()
    setattr(module, name, table)
    try:
        yield found
    finally:
        setattr(module, name, static)


def alternatives(static: Any, most: int) -> list[Any]:
    """To a NamedTuple of blocks, those nearest to it first: halves and doubles, warps and stages."""
    options = [_options(name, size) for name, size in zip(static._fields, static, strict=True)]
    others = [type(static)(*sizes) for sizes in product(*options)]
    return sorted((cut for cut in others if cut != static), key=lambda cut: _far(cut, static))[:most]


def _options(name: str, size: int) -> list[int]:
    least, largest = {"num_warps": WARPS, "num_stages": STAGES}.get(name, SHORT if size < 16 else SIZE)
    if name == "num_stages":
        return list(range(least, largest + 1))
    if size < least:  # what is cut into ones, or not at all, has no half and no double
        return [size]
    return [s for s in (size // 2, size, 2 * size) if s == size or least <= s <= largest]


def _far(cut: Any, static: Any) -> tuple[int, float, tuple[int, ...]]:
    """How many sizes differ, and by how much together; ties as they are written."""
    steps = [abs(log2(one / other)) for one, other in zip(cut, static, strict=True) if other]
    return sum(step > 0 for step in steps), sum(steps), tuple(cut)


def words(value: Any) -> str:
    """As a table shows it."""
    fields = getattr(value, "_fields", None)
    if fields is None:
        return str(value)
    return " ".join(f"{name.removeprefix('num_')} {size}" for name, size in zip(fields, value, strict=True))
