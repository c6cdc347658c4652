"""List the cells of a sweep, as words: a union of grids, times shared axes, less exclusions.

An axis is a key with its values.  Axes are multiplied; those under `zip` move together, row by row.  A
sweep is {axes, grids, exclude}: see sweeps/README.md, which also explains how the command line changes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, OverrideType, RangeSweep

from zoo.common.checks import unknown

SELECTOR = "mixer"  # on the command line this key selects grids; every other key replaces an axis
GROUP = "sweep"  # the file that the axes come from
ZIP = "zip"
MOST = 1_000_000  # cells of a sweep; more would take minutes before the first message


@dataclass(frozen=True)
class Axis:
    """An axis: key -> its words ("d_model=64", ...), equally many for each key, which move together."""

    words: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(next(iter(self.words.values())))

    def rows(self) -> list[dict[str, str]]:
        """Return key -> word, for each place on the axis."""
        return [dict(zip(self.words, row, strict=True)) for row in zip(*self.words.values(), strict=True)]


Grid = tuple[Axis, ...]


def cells(parts: Mapping[str, Any], arguments: Iterable[str], loader: ConfigLoader) -> list[list[str]]:
    """Return every cell of the sweep `parts`, changed by the command line's `arguments`; last axis fastest.

    parts: {"axes": {key: values}, "grids": [{key: values}], "exclude": [{key: values}]}, where values are a
        list, one value, or a string as on the command line ("8,16", "range(4)", "glob(linear_*)"); the key
        `zip` holds {key: values} whose keys move together, or a list of those.
    ValueError, one line: an axis without values or given twice, zipped axes of different lengths, an
    exclusion that names no axis, nothing left.
    """
    reader = Reader(OverridesParser.create(config_loader=loader))
    given = reader.arguments(arguments)
    shared = reader.axes(parts["axes"], "axes")
    listed = [
        reader.axes(grid, f"grid {i}") for i, grid in enumerate(_listed(parts["grids"], "grids"), 1)
    ] or [()]
    grids = [_joined(grid, shared, f"grid {i}") for i, grid in enumerate(listed, 1)]
    excluded = [
        reader.exclusion(entry, {*_keys(*grids), *given}) for entry in _listed(parts["exclude"], "exclude")
    ]
    if SELECTOR in given and SELECTOR in _keys(*listed):
        grids = _selected(grids, given.pop(SELECTOR).words[SELECTOR], shared)
    grids = [_changed(grid, given) for grid in grids]
    _refuse_more(sum(prod(map(len, grid)) for grid in grids), "the sweep has", "cells")
    rows = [row for grid in grids for row in _rows(grid)]
    if not rows:
        raise ValueError("the sweep has no cells: give a mixer that it has, or add grids to it.")
    remaining = [row for row in rows if not any(reader.matches(row, entry) for entry in excluded)]
    if not remaining:
        raise ValueError(f"exclude removes all {len(rows)} cells of the sweep: nothing is left to run.")
    return [list(row.values()) for row in remaining]


class Reader:
    """Reads axes from a sweep's yaml and from the command line."""

    def __init__(self, parser: OverridesParser) -> None:
        self.parser = parser
        self._values: dict[str, Any] = {}

    def arguments(self, lines: Iterable[str]) -> dict[str, Axis]:
        """Return key -> its axis.  A later word replaces an earlier one of a single value.

        ValueError: a word would replace several values, or is no axis.
        """
        given: dict[str, Axis] = {}
        for line in lines:
            key, axis = self._argument(line)
            if key in given and given[key] != axis and len(given[key]) > 1:
                raise ValueError(f"{key} is given twice, the second time as {line}: give its values in one.")
            given[key] = axis
        return given

    def _argument(self, line: str) -> tuple[str, Axis]:
        override = self._parsed(line)
        key, words = override.key_or_group, _words(override)
        if not words:
            why = "fits no name" if "glob(" in line else "has no values"
            raise ValueError(f"{line} {why}: give one, or leave the key out.")
        if key == GROUP and len(words) > 1:
            raise ValueError(f"{line} names several sweeps: give one a command.")
        return key, Axis({key: words})

    def axes(self, node: Any, where: str) -> Grid:
        """Return the axes of {key: values}, which may hold `zip`."""
        axes: list[Axis] = []
        for key, values in _mapping(node, where).items():
            zips = (values if isinstance(values, list) else [values]) if key == ZIP else [{key: values}]
            axes += [self._axis(_mapping(zipped, f"{ZIP} in {where}"), where) for zipped in zips]
        keys = [key for axis in axes for key in axis.words]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"{key} stands twice in {where}: an axis is swept or zipped, and once.")
        return tuple(axes)

    def _axis(self, zipped: Mapping[str, Any], where: str) -> Axis:
        words = {key: self._words(key, values, where) for key, values in zipped.items()}
        if len({len(line) for line in words.values()}) != 1:
            lengths = ", ".join(f"{key} has {len(line)}" for key, line in words.items())
            raise ValueError(f"{ZIP} in {where} needs keys with equally many values: {lengths or 'no key'}.")
        return Axis(words)

    def _words(self, key: str, values: Any, where: str) -> tuple[str, ...]:
        if isinstance(values, str):
            words = _words(self._parsed(f"{key}={values}"))
        else:
            values = values if isinstance(values, list) else [values]
            words = tuple(f"{key}={as_text(value)}" for value in values)
        if not words:
            raise ValueError(f"{key} in {where} has no values: give one, or leave the key out.")
        return words

    def exclusion(self, node: Any, known: set[str]) -> dict[str, list[Any]]:
        """Return key -> values: a cell that has one of the values of every key is excluded."""
        for key in _mapping(node, "exclude"):
            if key not in known:
                raise ValueError(unknown("axis", key, sorted(known)) + " [exclude]")
        return {
            key: [self._value(word) for word in self._words(key, values, "exclude")]
            for key, values in node.items()
        }

    def matches(self, row: Mapping[str, str], excluded: Mapping[str, list[Any]]) -> bool:
        """Return whether every excluded key is in the row, with one of its excluded values."""
        return all(key in row and self._value(row[key]) in values for key, values in excluded.items())

    def _value(self, word: str) -> Any:
        """Return the value that a word sets: 1e-3 and 0.001 are one value."""
        if word not in self._values:
            self._values[word] = self._parsed(word).value()
        return self._values[word]

    def _parsed(self, line: str) -> Override:
        return self.parser.parse_overrides([line])[0]


def _words(override: Override) -> tuple[str, ...]:
    """Return one word for each value: "d_model=64,128" -> "d_model=64", "d_model=128"."""
    key = override.get_key_element()
    if override.is_sweep_override():
        if not override.is_discrete_sweep():
            raise ValueError(f"{override.input_line} is no list of values: a grid needs one.")
        _refuse_more(_count(override.value()), f"{override.input_line} has", "values")
        return tuple(f"{key}={value}" for value in override.sweep_string_iterator())
    if override.type == OverrideType.DEL:
        return (override.input_line or key,)
    return (f"{key}={override.get_value_element_as_str()}",)


def _count(values: Any) -> int:
    """Count the values of a sweep override without making them."""
    if isinstance(values, RangeSweep):
        return ceil((values.stop - values.start) / values.step) if values.step else 0  # pyright: ignore
    return len(values.list) if isinstance(values, ChoiceSweep) else 0


def _refuse_more(count: int, who: str, what: str) -> None:
    if count > MOST:
        raise ValueError(f"{who} {count} {what}: a sweep takes at most {MOST}.")


def as_text(value: Any) -> str:
    """Return a yaml value as it is written on the command line."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_text, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _mapping(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise ValueError(f"{where} (={node!r}) must be {{key: values}}.")
    return node


def _listed(node: Any, where: str) -> Sequence[Any]:
    if not isinstance(node, list):
        raise ValueError(f"{where} (={node!r}) must be a list of {{key: values}}.")
    return node


def _keys(*grids: Grid) -> set[str]:
    return {key for grid in grids for axis in grid for key in axis.words}


def _joined(grid: Grid, shared: Grid, where: str) -> Grid:
    """Return the grid's own axes, then the shared axes that it does not set itself."""
    keys = _keys(grid)
    for axis in shared:
        both = keys & axis.words.keys()
        if both and both != axis.words.keys():
            others = ", ".join(key for key in axis.words if key not in both)
            raise ValueError(
                f"{min(both)} in {where} is zipped with {others} in axes: set all of them there, or none."
            )
    return *grid, *(axis for axis in shared if not keys & axis.words.keys())


def _selected(grids: Iterable[Grid], wanted: Sequence[str], shared: Grid) -> list[Grid]:
    """Return the grids of the wanted mixers only; a mixer without a grid gets the shared axes."""
    grids = list(grids)
    named = {word for grid in grids for axis in grid for word in axis.words.get(SELECTOR, ())}
    narrowed = [tuple(_only(axis, wanted) for axis in grid) for grid in grids]
    new = [(Axis({SELECTOR: (word,)}), *shared) for word in wanted if word not in named]
    return [grid for grid in narrowed if all(len(axis) for axis in grid)] + new


def _only(axis: Axis, wanted: Sequence[str]) -> Axis:
    if SELECTOR not in axis.words:
        return axis
    keep = [i for i, word in enumerate(axis.words[SELECTOR]) if word in wanted]
    return Axis({key: tuple(words[i] for i in keep) for key, words in axis.words.items()})


def _changed(grid: Grid, given: Mapping[str, Axis]) -> Grid:
    """Return the grid with the command line's values instead of its own; new keys come first."""
    keys = _keys(grid)
    front = (axis for key, axis in given.items() if key not in keys)
    return *front, *(_replaced(axis, given) for axis in grid)


def _replaced(axis: Axis, given: Mapping[str, Axis]) -> Axis:
    """Replace the words of an axis; one value stands for all rows, else zipped keys need equally many."""
    words = {key: given[key].words[key] if key in given else old for key, old in axis.words.items()}
    if len({len(line) for line in words.values()} - {1}) > 1:
        changed = next(key for key in words if key in given and len(words[key]) > 1)
        others = ", ".join(key for key in words if key != changed)
        raise ValueError(
            f"{changed} is zipped with {others}: give {len(axis)} values, or one, or all of these keys."
        )
    longest = max(map(len, words.values()))
    return Axis({key: line * longest if len(line) == 1 else line for key, line in words.items()})


def _rows(grid: Grid) -> Iterator[dict[str, str]]:
    """Yield key -> word, for each combination of the grid's axes."""
    for rows in product(*(axis.rows() for axis in grid)):
        yield {key: word for row in rows for key, word in row.items()}
