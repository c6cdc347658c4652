"""The families of mixers (`about.family`), in the order of lists and tables."""

from collections.abc import Callable, Iterable
from typing import TypeVar

TITLES = {
    "attention": "Attention",
    "linear": "Linear attention, gated and delta rules",
    "ssm": "State spaces",
    "convolution": "Convolutions",
    "sparse": "Sparse attention and retrieval",
}
T = TypeVar("T")


def by_family(things: Iterable[T], family: Callable[[T], str]) -> dict[str, list[T]]:
    """Title -> its things as they came; the known families in their order, then others by name."""
    groups: dict[str, list[T]] = {name: [] for name in TITLES}
    for thing in sorted(things, key=family):
        groups.setdefault(family(thing), []).append(thing)
    return {TITLES.get(name, name): group for name, group in groups.items() if group}
