"""Make the configs of cells that differ in seed and lr only from one template, resolved twice in all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Two values for each key that no config holds by chance: a leaf that changes with them depends on that key.
PROBES = {"seed": (271_828_182, 314_159_265), "lr": (0.5772156649, 0.6931471806)}


@dataclass(frozen=True)
class Hole:
    """The place in a template of a key's value: "seed" or "lr"."""

    key: str


def template(resolve: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any] | None:
    """Return a template of the configs that `resolve` makes, to be filled with any seed and lr: dicts and
    lists, with a Hole in each place of such a value, whether by interpolation or not.

    None: a config depends on a value in another way than by containing it ("run-${seed}").
    """
    first, second = (resolve({key: probes[i] for key, probes in PROBES.items()}) for i in (0, 1))
    try:
        return _compared(first, second)
    except LookupError:
        return None


def _compared(first: Any, second: Any) -> Any:
    """Merge both trees into one with Holes; LookupError where they differ in anything but a probe."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: _compared(first[key], second[key]) for key in first}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_compared(one, other) for one, other in zip(first, second, strict=True)]
    if first == second:
        return first
    for key, probes in PROBES.items():
        if (first, second) == probes:
            return Hole(key)
    raise LookupError


def filled(node: Any, values: Mapping[str, Any]) -> Any:
    """Return a copy of a template with these values in its holes."""
    if isinstance(node, dict):
        return {key: filled(item, values) for key, item in node.items()}
    if isinstance(node, list):
        return [filled(item, values) for item in node]
    return values[node.key] if isinstance(node, Hole) else node
