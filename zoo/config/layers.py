"""Make the layers of a model from a pattern of mixers (model.layers) that repeats over its depth."""

from collections.abc import Callable
from typing import Any

from zoo.common.checks import unknown
from zoo.config.bounds import refusal


def unrolled(config: dict[str, Any], other: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings of each layer of a resolved config, the first layer first.

    other: returns the settings under `mixer=NAME`, for a NAME in the pattern.  ValueError, one line: a wrong
    pattern.
    """
    pattern = config["model"].get("layers")
    if not isinstance(pattern, list) or not pattern:
        raise ValueError(f"model.layers (={pattern!r}) must be a list of mixers, such as [base_conv,mixer].")
    entries = [_entry(entry) for entry in pattern]
    layers = []
    for name, changes in entries:
        mixer = config["mixer"] if name == "mixer" else other(name)
        layers.append(_merged(name, {key: mixer[key] for key in mixer if key != "about"}, changes))
    # zoo.launch.preflight explains an n_layers that is no integer
    depth = config["n_layers"] if isinstance(config["n_layers"], int) else 0
    if too_many := refusal("n_layers", depth):
        raise ValueError(too_many)
    if depth > 0:
        _all_reached([name for name, _ in entries], depth)
    return [layers[i % len(layers)] for i in range(depth)]


def _entry(entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the mixer that a layer of the pattern names, and the changes of its settings."""
    name, changes = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else (entry, {})
    if not isinstance(name, str) or not isinstance(changes, dict):
        raise ValueError(
            f"model.layers entry (={entry!r}) must be a mixer's name or one {{name: {{key: value}}}}."
        )
    return name, changes


def _all_reached(names: list[str], depth: int) -> None:
    """Refuse a depth that cuts off a mixer of the pattern: the cell's name would promise that mixer."""
    last = max(names.index(name) for name in names)
    if depth <= last:
        raise ValueError(
            f"n_layers (={depth}) never reaches {names[last]} in model.layers (={','.join(names)}): "
            f"set n_layers to at least {last + 1}, or shorten the pattern."
        )


def _merged(path: str, settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `settings` with `changes`, which may only name existing keys."""
    merged = dict(settings)
    for key, value in changes.items():
        if key not in settings:
            raise ValueError(
                unknown("key", f"{path}.{key}", [f"{path}.{k}" for k in settings if k[0] != "_"])
            )
        both = isinstance(value, dict) and isinstance(settings[key], dict)
        merged[key] = _merged(f"{path}.{key}", settings[key], value) if both else value
    return merged
