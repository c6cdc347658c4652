"""Make each name in zoo.mixers build the class that a yaml of conf/mixer names, with its settings."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, Signature, getdoc
from typing import Any, TypeAlias

import yaml
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from zoo.common.checks import unknown
from zoo.config.arguments import parameters
from zoo.config.compose import compose
from zoo.config.paths import CONF
from zoo.mixers.base import Mixer

Named: TypeAlias = Callable[..., Mixer]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAMLS = CONF / "mixer"
_CONTEXT = ("d_model", "n_layers", "seed", "block")  # what a mixer's yaml may refer to


@cache
def stems() -> dict[str, str]:
    """Map each name in Python to the stem of its yaml."""
    loaded = {path.stem: yaml.load(path.read_text(), _LOADER) for path in sorted(_YAMLS.glob("*.yaml"))}
    targets = [mixer["_target_"] for mixer in loaded.values()]
    return {_name(stem, mixer, targets): stem for stem, mixer in loaded.items()}


def _name(stem: str, mixer: Mapping[str, Any], targets: list[str]) -> str:
    """Return the class's name if it has one yaml or the stem is its module's name, else the label's."""
    *_, module, kind = mixer["_target_"].split(".")
    if targets.count(mixer["_target_"]) == 1 or stem == module:
        return kind
    squeezed = "".join(word[0].upper() + word[1:] for word in re.findall(r"\w+", mixer["about"]["label"]))
    same = squeezed.lower().startswith(kind.lower())
    return kind + squeezed[len(kind) :] if same else squeezed


@cache
def named(name: str) -> Named:
    """Return zoo.mixers.NAME.  AttributeError, one line with the nearest name: there is no such mixer."""
    if name not in stems():
        raise AttributeError(unknown("mixer", f"zoo.mixers.{name}", [f"zoo.mixers.{n}" for n in stems()]))
    stem = stems()[name]
    takes = _signature(stem)

    def build(*args: Any, **settings: Any) -> Mixer:
        for key in settings.keys() - takes.parameters.keys():
            raise TypeError(unknown(f"setting of {name}:", key, takes.parameters))
        if args or "d_model" not in settings:
            raise TypeError(f"{name} takes its settings by keyword, and needs d_model: {name}(d_model=64).")
        return instantiate(_settings(stem, settings), _partial_=True, _convert_="all")()

    build.__name__ = build.__qualname__ = name
    build.__module__ = "zoo.mixers"
    build.__doc__ = f"{getdoc(takes.return_annotation)}\n\nThe defaults are those of conf/mixer/{stem}.yaml."
    build.__signature__ = takes  # pyright: ignore[reportFunctionMemberAccess]
    return build


def _signature(stem: str) -> Signature:
    """Return a keyword-only signature: the yaml's settings, then the other arguments of the class."""
    settings = _settings(stem, {})
    kind = get_class(settings["_target_"])
    taken, _ = parameters(kind)
    defaults = settings | {key: p.default for key, p in taken.items() if key not in settings}
    del defaults["_target_"]
    defaults["d_model"] = Parameter.empty  # the yaml's comes from the cell
    taking = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=taken[key].annotation)
        for key, default in defaults.items()
    ]
    return Signature(taking, return_annotation=kind)


def _settings(stem: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `mixer=STEM`, replaced by the given ones where there are any.

    A dict changes only the entries that it names (feature_map={"nu": 3}); other values replace the yaml's.
    """
    config = _default_cell() | {"mixer": _yaml(stem)}
    root = OmegaConf.create(config, flags={"allow_objects": True})  # feature_map=Taylor2
    for key, value in given.items():
        changes = isinstance(value, Mapping) and "_target_" not in value
        OmegaConf.update(root, f"mixer.{key}", value, merge=changes)
    settings: Any = OmegaConf.to_container(root.mixer, resolve=True)
    return {key: value for key, value in settings.items() if key != "about"}


@cache
def _yaml(stem: str) -> Any:
    return OmegaConf.load(_YAMLS / f"{stem}.yaml")


@cache
def _default_cell() -> dict[str, Any]:
    """Return the settings of the default cell that a mixer's yaml may refer to."""
    config = compose(()).config
    return {key: config[key] for key in _CONTEXT}
