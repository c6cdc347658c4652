"""A mixer is checked under several settings: its yaml's own, and each of its `about.variants`."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from zoo.config.paths import CONF
from zoo.config.targets import make
from zoo.mixers.base import Mixer

WIDTH = 16
DEPTH = 2


@dataclass(frozen=True)
class Case:
    """Name one mixer and the changes to its settings.  folder: holds mixer/NAME.yaml."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    folder: Path = CONF

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        changes = ",".join(f"{key}={value}" for key, value in self.changes.items())
        return f"{self.name}[{changes}]" if changes else self.name


def cases(folder: Path = CONF) -> list[Case]:
    """List the cases of every mixer in the folder."""
    names = [path.stem for path in sorted((folder / "mixer").glob("*.yaml"))]
    return [case for name in names for case in cases_of(name, folder)]


def cases_of(name: str, folder: Path = CONF) -> list[Case]:
    """List the yaml's own settings, then its variants.

    A mixer that depends on its depth is in the lowest layer with the yaml's own settings, and in the highest
    with each variant.
    """
    config = mixer_yaml(name, folder)
    highest = {"layer": DEPTH - 1} if "layer" in config else {}
    variants = (config.get("about") or {}).get("variants") or []
    return [Case(name, {}, folder), *(Case(name, variant | highest, folder) for variant in variants)]


def mixer_yaml(name: str, folder: Path = CONF) -> dict[str, Any]:
    """Return the mixer's yaml as a model of DEPTH layers of width WIDTH resolves it."""
    return deepcopy(_resolved(name, folder))


@cache
def _resolved(name: str, folder: Path) -> dict[str, Any]:
    node = OmegaConf.create(
        {
            "d_model": WIDTH,
            "n_layers": DEPTH,
            "seed": 0,
            "block": {"about": {"position": "none", "bias": True}},
        }
        | {"mixer": OmegaConf.load(folder / "mixer" / f"{name}.yaml")}
    )
    return OmegaConf.to_container(node.mixer, resolve=True)  # type: ignore[return-value]


def settings(case: Case) -> dict[str, Any]:
    """Return `_target_` and the arguments of the constructor.

    ValueError: a variant names a setting that the yaml lacks, which no command line could set.
    """
    config = mixer_yaml(case.name, case.folder)
    unknown = set(case.changes) - set(config)
    if unknown:
        raise ValueError(
            f"about.variants of mixer={case.name} names {', '.join(sorted(unknown))}, no setting of it."
        )
    return {key: value for key, value in (config | case.changes).items() if key != "about"}


def build(case: Case, seed: int = 0) -> Mixer:
    """Build the mixer in float64 and eval mode, with no parameter left at zero.

    Its initial weights depend on the seed alone.  The constructor's own errors pass through.
    """
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        return awake(make(settings(case), Mixer)).double().eval()


@torch.no_grad()
def awake(mixer: Mixer) -> Mixer:
    """Give small random values to parameters that start at zero: zeros would hide what they multiply."""
    for parameter in mixer.parameters():
        if not parameter.any():
            parameter.normal_(std=0.1)
    return mixer


def boundaries(case: Case, most: int = 40) -> list[int]:
    """List lengths on both sides of every integer setting: windows, blocks, chunks and kernels among them."""
    whole = {v for v in _leaves(settings(case)) if type(v) is int and 1 <= v <= most}
    near = {1, 2, 3, 5, 24} | {n + d for v in whole for n in (v, 2 * v) for d in (-1, 0, 1)}
    return sorted(n for n in near if 1 <= n <= most)


def longest(case: Case) -> int:
    """Return the least `max_len` of the settings, beyond which some mixers raise; 2^30 without one."""
    return min(_named("max_len", settings(case)), default=2**30)


def _named(name: str, node: Any) -> list[Any]:
    if not isinstance(node, Mapping):
        return []
    return [v for key, value in node.items() for v in ([value] if key == name else _named(name, value))]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    if isinstance(value, list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]
