"""A cell checked before anything trains: every name, type and range, each mistake in one line."""

import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from zoo.checks import unknown
from zoo.config import about
from zoo.config.bounds import out_of_bounds
from zoo.config.cell import Cell
from zoo.config.compose import GROUPS
from zoo.config.settings import OptimConfig, TrainerConfig
from zoo.kernels.choice import Kernels, contradiction

SUPPLIED = {"block": ("mixer",)}  # arguments that the program gives, not the config
TOP = {
    **{"d_model": int, "n_layers": int, "seed": int, "lr": float},
    **{"kernels": Kernels, "population": int | Literal["auto"], "max_examples": int | None, "results": str},
    "keep_weights": bool | Literal["auto"],
}
POSITIVE = ("d_model", "n_layers", "lr", "population")


class Validator:
    """Remembers what it has built: cells that differ in seed and lr alone are built once."""

    def __init__(self) -> None:
        self._built: dict[str, list[str]] = {}

    def problems(self, cell: Cell) -> list[str]:
        """What keeps the cell from running; empty when it can.  Nothing is trained and no weight is made."""
        found = _top_level(cell) or _bounds(cell) or _settings(cell)
        if found:
            return found
        if cell.point not in self._built:
            self._built[cell.point] = _sections(cell) or _given(cell) or _said(cell) or _built(cell)
        return list(
            dict.fromkeys(self._built[cell.point] or _kernels(cell) or _weights(cell) or _decay(cell))
        )


def _top_level(cell: Cell) -> list[str]:
    config = cell.config
    valid = [*TOP, *GROUPS]
    found = [unknown("key", key, valid) for key in config if key not in valid]
    found += [line for key, hint in TOP.items() for line in _typed(key, config[key], hint)]
    if found:
        return found
    given = {key: config[key] for key in POSITIVE if config[key] != "auto"}
    return [
        f"{key} (={value}) must be positive and finite."
        for key, value in given.items()
        if not 0 < value < math.inf
    ]


def _bounds(cell: Cell) -> list[str]:
    """Of each mixer once, however many layers it has."""
    model = cell.config["model"] | {"layers": _other_layers(cell)}
    return list(dict.fromkeys(out_of_bounds(cell.config | {"model": model})))


def _other_layers(cell: Cell) -> list[dict[str, Any]]:
    """The layers that are not the chosen mixer as its yaml has it."""
    return [layer for layer in cell.layers if layer != cell.mixer_settings]


def _kernels(cell: Cell) -> list[str]:
    """Beside `_built`, not in it: cells of one point may ask for different kernels."""
    found = contradiction(cell.kernels, cell.trainer.accelerator, cell.trainer.step)
    return [] if found is None else [found]


def _weights(cell: Cell) -> list[str]:
    from zoo.results.weights import refusal

    found = refusal(cell.keep_weights)
    return [] if found is None else [found]


def _decay(cell: Cell) -> list[str]:
    """Beside `_built`, for it needs the learning rate."""
    lr, decay = cell.lr, cell.optim.weight_decay
    if lr * decay < 1:
        return []
    return [
        f"lr * optim.weight_decay (={lr:g} * {decay:g}) must be below 1: a step would turn the weights over."
    ]


def _settings(cell: Cell) -> list[str]:
    """Of optimizer and trainer.  Beside `_built`: cells of one point may differ in where they run."""
    kinds = {"optim": OptimConfig, "trainer": TrainerConfig}
    found = [line for group, kind in kinds.items() for line in arguments(group, cell.config[group], kind)]
    if found:
        return found
    try:
        _ = cell.optim, cell.trainer
    except ValueError as error:
        return [str(error)]
    return []


def _sections(cell: Cell) -> list[str]:
    from zoo.model import SequenceModel

    config = cell.config
    found = [line for group in ("task", "block", "mixer") for line in section(group, config[group])]
    found += [line for layer in _other_layers(cell) for line in section("model.layers", layer)]
    model = {key: value for key, value in config["model"].items() if key != "layers"}
    found += arguments("model", model, SequenceModel, ("blocks", "vocab_size", "seed"))
    return found


def _said(cell: Cell) -> list[str]:
    return about.mistakes(cell.mixer, cell.config["mixer"])


def _given(cell: Cell) -> list[str]:
    """What the whole model says, and no part for itself: its width, and where it stands."""
    d_model = cell.d_model
    parts = [("block", cell.config["block"]), ("mixer", cell.config["mixer"])]
    parts += [("model.layers", layer) for layer in _other_layers(cell)]
    found = [
        f"{path}.d_model (={part['d_model']}) must equal d_model (={d_model}): set d_model alone."
        for path, part in parts
        if part.get("d_model", d_model) != d_model
    ]
    return found + [
        f"{path}.layer (={part['layer']}) must stay 0: the model puts each layer's own place there."
        for path, part in parts
        if part.get("layer")
    ]


def section(path: str, settings: Mapping[str, Any]) -> list[str]:
    """Compare the settings with the arguments of what they are to build."""
    from zoo.instantiate import target

    try:
        made = target(settings.get("_target_"), _contract(path), path)
    except ValueError as error:
        return [str(error)]
    given = {key: value for key, value in settings.items() if key not in ("_target_", "_partial_")}
    inner = {key: value for key, value in given.items() if isinstance(value, dict) and "_target_" in value}
    found = [line for key, value in inner.items() for line in section(f"{path}.{key}", value)]
    return found + arguments(path, given, made, SUPPLIED.get(path, ()), "_partial_" in settings)


def _contract(path: str) -> Any:
    """What a section must be; inside one, any part."""
    from zoo import instantiate as parts

    kinds = {"task": parts.Task, "block": parts.Block, "mixer": parts.Mixer, "model.layers": parts.Mixer}
    return kinds.get(path, parts.PARTS)


def arguments(
    path: str,
    given: Mapping[str, Any],
    target: Callable[..., Any],
    supplied: Sequence[str] = (),
    partial: bool = False,
) -> list[str]:
    """Unknown, missing (unless `partial`) and ill-typed arguments of `target`: dotted keys below `path`.

    `about` is for people and other parts of the program: no argument.
    """
    given = {key: value for key, value in given.items() if key != "about"}
    parameters, hints = _parameters(target)
    wanted = [name for name in parameters if name not in supplied]
    needed = [] if partial else [n for n in wanted if parameters[n].default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in given]
    found = [
        unknown("key", f"{path}.{key}", [f"{path}.{n}" for n in wanted]) for key in given if key not in wanted
    ]
    found += [f"{path}.{name} must be given: {_name(target)} has no default for it." for name in missing]
    for key in given:
        if key in wanted and key in hints:
            found += _typed(f"{path}.{key}", given[key], hints[key])
    return found


def _parameters(target: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """What it takes, by name, and of which types; a class's `**rest` is what the class above takes."""
    own, hints = dict(inspect.signature(target).parameters), get_type_hints(_function(target))
    rest = [name for name, parameter in own.items() if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    if not rest or not inspect.isclass(target):
        return own, hints
    above, theirs = _parameters(target.__mro__[1])
    return above | {name: own[name] for name in own if name not in rest}, theirs | hints


def _function(target: Callable[..., Any]) -> Callable[..., Any]:
    return target.__init__ if inspect.isclass(target) else target


def _typed(path: str, value: Any, hint: Any) -> list[str]:
    return [] if _fits(value, hint) else [f"{path} (={value!r}) must be {_words(hint)}."]


PLAIN = {
    int: (lambda v: type(v) is int, "an integer"),
    float: (lambda v: type(v) in (int, float), "a number"),
    bool: (lambda v: type(v) is bool, "true or false"),
    str: (lambda v: type(v) is str, "a word"),
    types.NoneType: (lambda v: v is None, "null"),
}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a config value can be an argument of this type; types that no yaml holds are let through."""
    if hint in PLAIN:
        return PLAIN[hint][0](value)
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return value in inner
    if kind in (Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if inspect.isclass(kind) and issubclass(kind, Mapping):
        return isinstance(value, dict)
    if inspect.isclass(kind) and issubclass(kind, Iterable):
        return isinstance(value, list) and (not inner or all(_fits(item, inner[0]) for item in value))
    return True


def _words(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint][1]
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return "one of " + ", ".join(map(str, inner))
    if kind in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(option) for option in inner))
    if inspect.isclass(kind) and issubclass(kind, Mapping):
        return "a {key: value} of settings"
    return "a list" + (f" with each entry {_words(inner[0])}" if inner and inner[0] in PLAIN else "")


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", str(target))


def _built(cell: Cell) -> list[str]:
    """Build what will be built, on the meta device: constructors state their own rules."""
    from zoo.training.train import check

    try:
        check(cell)
    except Exception as error:  # whatever a constructor raises now, it would raise in every attempt
        return [reason(error) if isinstance(error, ValueError) else f"cannot be built: {reason(error)}"]
    return []


def reason(error: Exception) -> str:
    """The error in one line; a ValueError of ours is one already."""
    line = " ".join(str(error).split())
    return line if isinstance(error, ValueError) and line else f"{type(error).__name__}: {line}"
