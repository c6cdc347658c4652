"""What is registered, read from conf/: nothing is listed by hand, so a new yaml is tested on arrival.

ZOO_LAWS_OF=my_conf python -m pytest tests/test_mixer_laws.py     tests the mixers of a folder of your own
"""

import os
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_class
from omegaconf import OmegaConf

from zoo.config import compose as composing
from zoo.config.cell import Cell
from zoo.config.paths import CONF
from zoo.instantiate import make
from zoo.mixers.base import Mixer

WIDTH = 16
FOLDER = Path(os.environ.get("ZOO_LAWS_OF", CONF))


@dataclass(frozen=True)
class Case:
    """One mixer under one of its settings: the yaml's own, or an entry of its `about.variants`."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    folder: Path = FOLDER

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        changes = ",".join(f"{key}={value}" for key, value in self.changes.items())
        return f"{self.name}[{changes}]" if changes else self.name


@cache
def composer() -> composing.Composer:
    """One for all tests of a worker: it reads each yaml once."""
    return composing.composer()


def compose(overrides: Iterable[str]) -> Cell:
    return composer().cell(overrides)


def mixer_yaml(name: str, folder: Path = CONF) -> dict[str, Any]:
    """The mixer's yaml, resolved at width WIDTH."""
    return deepcopy(_resolved(name, folder))


@cache
def _resolved(name: str, folder: Path) -> dict[str, Any]:
    node = OmegaConf.create(
        {"d_model": WIDTH, "n_layers": 2, "seed": 0, "block": {"about": {"position": "none", "bias": True}}}
        | {"mixer": OmegaConf.load(folder / "mixer" / f"{name}.yaml")}
    )
    return OmegaConf.to_container(node.mixer, resolve=True)  # type: ignore[return-value]


def block_yaml(name: str) -> dict[str, Any]:
    """The settings of a block in a model of two layers of width WIDTH."""
    node = OmegaConf.create(
        {"d_model": WIDTH, "n_layers": 2, "block": OmegaConf.load(CONF / "block" / f"{name}.yaml")}
    )
    block: Any = OmegaConf.to_container(node.block, resolve=True)
    return {key: value for key, value in block.items() if key != "about"}


def cases(folder: Path = FOLDER) -> list[Case]:
    found = []
    for path in sorted((folder / "mixer").glob("*.yaml")):
        about = mixer_yaml(path.stem, folder)["about"]
        found += [Case(path.stem, v, folder) for v in ({}, *about.get("variants", []))]
    return found


def settings(case: Case) -> dict[str, Any]:
    config = mixer_yaml(case.name, case.folder)
    unknown = set(case.changes) - {*config, *signature(get_class(config["_target_"])).parameters}
    assert not unknown, f"{case.name}: variant names unknown settings {unknown}"
    return {key: value for key, value in (config | case.changes).items() if key != "about"}


def build(case: Case, seed: int = 0) -> Mixer:
    """The mixer in float64 and eval mode, awake."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        return awake(make(settings(case), Mixer)).double().eval()


@torch.no_grad()
def awake(mixer: Mixer) -> Mixer:
    """With small values where parameters start at zero: a matrix of zeros hides all that stands behind it."""
    for parameter in mixer.parameters():
        if not parameter.any():
            parameter.normal_(std=0.1)
    return mixer


def boundaries(case: Case, most: int = 40) -> list[int]:
    """Lengths on both sides of every integer setting: windows, blocks, chunks and kernels among them."""
    whole = {v for v in _leaves(settings(case)) if type(v) is int and 1 <= v <= most}
    near = {1, 2, 3, 5, 24} | {n + d for v in whole for n in (v, 2 * v) for d in (-1, 0, 1)}
    return sorted(n for n in near if 1 <= n <= most)


def longest(case: Case) -> int:
    """The least `max_len` of the settings: some mixers refuse to go beyond."""
    return min(_named("max_len", settings(case)), default=2**30)


def _named(name: str, node: Any) -> list[Any]:
    if not isinstance(node, dict):
        return []
    return [v for key, value in node.items() for v in ([value] if key == name else _named(name, value))]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    if isinstance(value, list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def held(state: tuple[Any, ...]) -> int:
    """Scalars per sequence in a state: elements beyond the batch; a complex one counts two."""
    count = 0
    for part in state:
        if isinstance(part, tuple):
            count += held(part)
        elif isinstance(part, torch.Tensor) and (part.is_floating_point() or part.is_complex()):
            count += part[0].numel() * (2 if part.is_complex() else 1)
    return count
