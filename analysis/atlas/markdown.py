"""Write rows of Markdown tables, and scores in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..statistics.chance import at_chance
from ..statistics.seeds import apart


def row(fields: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(fields)} |"


def head(names: Sequence[str]) -> Iterator[str]:
    """Yield the first two lines of a table, in which all columns but the first are numbers."""
    yield row([*names])
    yield row(["---", *["--:"] * (len(names) - 1)])


def in_words(point: Mapping[str, Any], digits: int) -> str:
    """Return a point's accuracy in words: "-" at chance; each seed, and no mean, where they are apart."""
    if at_chance(point["accuracy"], point["chance"]):
        return "-"
    seeds = sorted(apart(point["seed_accuracies"]))
    return "/".join(f"{seed:.2f}" for seed in seeds) if seeds else f"{point['accuracy']:.{digits}f}"


def starred(point: Mapping[str, Any]) -> str:
    """Return a point's accuracy in words, with a star if no smaller state is better."""
    return f"{in_words(point, 3)}{'*' if point['on_frontier'] else ''}"
