"""Compose cells from command-line overrides as Hydra does, but each set of group choices only once.

Plain Hydra takes a tenth of a second per cell, and its own sweeper composes every cell twice.  Here the files
are read and merged once for each set of group choices (zoo/config/yamls.py).  The value overrides of a point
are then applied to a copy, and all its cells get their seeds and learning rates from one template
(zoo/config/template.py); the result is the same (tests/config/test_config.py).
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    ConfigTypeError,
    InterpolationKeyError,
    OmegaConfBaseException,
)

from zoo.common.checks import unknown
from zoo.config import yamls
from zoo.config.cell import VARIED, Cell
from zoo.config.layers import unrolled
from zoo.config.paths import check_config_dir
from zoo.config.start import started
from zoo.config.template import filled, template
from zoo.config.words import (
    GROUPS,
    first_line,
    is_plain,
    keys_of,
    nameless,
    parse,
    settable,
    shared,
    wrong_key,
)
from zoo.config.yamls import Yamls

KEYS = ("d_model", "n_layers", "seed", "lr", "kernels", "population", "max_examples", "results")
KEYS += ("loss", "rerun", "keep_weights")
NEEDED = (*GROUPS, *KEYS)


@dataclass(frozen=True)
class Point:
    """Cells that differ in seed and lr only.  usual: seed and lr where no word gives them."""

    template: dict[str, Any]
    usual: dict[str, Any]
    choices: dict[str, str]

    def config(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the config of one of its cells; given: seed or lr, where words give them."""
        return filled(self.template, self.usual | given)

    @cached_property
    def name(self) -> str:
        """Return the point's name: the run id with a fixed seed and lr, also in keys that refer to them."""
        return Cell(self.config({"seed": 0, "lr": 1}), self.choices).run_id


class Composer:
    """Composes cells from the yamls on one search path."""

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self.yamls = Yamls(loader)
        # the folder of --config-dir on a search path
        entries = [e.path for e in loader.get_search_path().get_path() if e.provider == "command-line"]
        self.user_conf = Path(entries[-1].removeprefix("file://")) if entries else None
        self.config_dir = _from_here(self.user_conf)
        self._known_keys: dict[tuple[str, ...], frozenset[str]] = {}
        self._points: dict[tuple[str, ...], Point | None] = {}

    def cell(self, overrides: Iterable[str]) -> Cell:
        """Return the cell that `python -m zoo.run OVERRIDES` would run.

        ValueError, one line for each mistake: an unknown key, group or name, with the nearest valid one.
        """
        overrides = tuple(overrides)
        try:
            return started(_apart(self._of_point(overrides) or self._by_itself(overrides)), self.cell)
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(self.explained(error, overrides)) from error

    def _of_point(self, overrides: tuple[str, ...]) -> Cell | None:
        """Return the cell from its point's template; None: seed or lr have an effect beyond their holes."""
        parsed = [parse(line) for line in overrides]
        varied = {o.key_or_group: o for o in parsed if o.key_or_group in VARIED}
        if not all(map(is_plain, varied.values())):
            return None
        words = shared(overrides)
        if words not in self._points:
            self._points[words] = self._point(words)
        point = self._points[words]
        if point is None:
            return None
        config = point.config({key: override.value() for key, override in varied.items()})
        return Cell(config, dict(point.choices), overrides, point.name, self.config_dir)

    def _by_itself(self, overrides: tuple[str, ...]) -> Cell:
        self._refuse(overrides)
        stand_in = Cell(*self._resolved([*shared(overrides), "seed=0", "lr=1"]))
        return Cell(*self._resolved(overrides), overrides, stand_in.run_id, self.config_dir)

    def _point(self, words: tuple[str, ...]) -> "Point | None":
        """Return the point of all cells with these words, whatever their seed and lr; None: no template."""
        self._refuse(words)
        cfg, choices = self.config(words)
        if any(OmegaConf.is_missing(cfg, key) or OmegaConf.is_interpolation(cfg, key) for key in VARIED):
            return None
        usual = {key: cfg[key] for key in VARIED}
        try:
            made = template(lambda values: self._expanded(_with(cfg, values)))
        except (OmegaConfBaseException, ValueError):  # `_by_itself` then gives a better message
            return None
        return None if made is None else Point(made, usual, choices)

    def _refuse(self, overrides: tuple[str, ...]) -> None:
        if mistakes := self.mistakes(overrides):
            raise ValueError("\n".join(mistakes))

    def explained(self, error: Exception, overrides: Sequence[str]) -> str:
        """Return an error in one line; OmegaConf names a wrong key inside a {...} value (no override)."""
        cause = error.__cause__ or error
        if isinstance(cause, ConfigKeyError | ConfigAttributeError) and cause.full_key:
            if self.yamls.is_group(name := cause.full_key):
                return f"key {name} takes a name first, {name}=NAME; then {name}.KEY=VALUE changes a setting."
            groups = tuple(line for line in overrides if self._chooses(parse(line)))
            return unknown("key", cause.full_key, settable(self._keys(groups)))
        if isinstance(cause, ConfigTypeError) and cause.full_key:
            return f"{cause.full_key} must be a list, [..], if it is one in conf/, else {{key: value}}."
        if isinstance(cause, InterpolationKeyError):
            name = first_line(cause).split("'")[1]
            return f"{cause.full_key}=${{{name}}}: {unknown('key', name, settable(self._keys(())))}"
        return first_line(error) + (f" [{' '.join(overrides)}]" if isinstance(error, HydraException) else "")

    def mistakes(self, overrides: Iterable[str]) -> list[str]:
        """Return a line for each override that names nothing; swept overrides are checked in their cells."""
        try:
            return self._mistakes([o for o in map(parse, overrides) if not o.is_sweep_override()])
        except (HydraException, OmegaConfBaseException) as error:
            return [first_line(error)]

    def _mistakes(self, parsed: list[Override]) -> list[str]:
        deleted = [o for o in parsed if o.is_delete() and o.key_or_group in NEEDED]
        groups = [o for o in parsed if self._chooses(o)]
        wrong = [f"{o.input_line} cannot be left out: a cell needs {o.key_or_group}." for o in deleted]
        wrong += [line for o in groups for line in self._wrong_choice(o)]
        if wrong:
            return wrong
        words = tuple(o.input_line or "" for o in groups)
        keys = self._keys(words)
        if any(o.key_or_group.startswith("hydra") for o in parsed):
            keys |= {f"hydra.{key}" for key in keys_of(self.hydras(words))}
        return [line for o in parsed if o not in groups for line in wrong_key(o, keys)]

    def _chooses(self, override: Override) -> bool:
        """Return whether the override is group=name, not key=value; group={...} is a value too."""
        return self.yamls.is_group(override.key_or_group) and not isinstance(override.value(), dict)

    def _wrong_choice(self, override: Override) -> list[str]:
        group, value = override.key_or_group, override.value()
        if line := nameless(override):
            return [line]
        names = value if isinstance(value, list) else [value]
        wrong = [n for n in names if n is not None and not self.yamls.source(f"{group}/{n}")]
        valid = self.options(group) if wrong else []
        names = ", ".join(valid) + ("" if self.user_conf else "; one of your own needs --config-dir")
        return [f"{unknown(group, str(name), valid)} (there are: {names})" for name in wrong]

    def _keys(self, groups: tuple[str, ...]) -> frozenset[str]:
        if groups not in self._known_keys:
            known = keys_of(self.yamls.composed(groups)[0])
            self._known_keys[groups] = frozenset([*known, *self.loader.list_groups("")])
        return self._known_keys[groups]

    def config(self, overrides: Iterable[str]) -> tuple[DictConfig, dict[str, str]]:
        """Return a copy of the composed config, before interpolation, and the group choices."""
        overrides = tuple(overrides)
        groups = tuple(line for line in overrides if self._chooses(parse(line)))
        base, choices = self.yamls.composed(groups)
        cfg = copy.deepcopy(base)
        values = [parse(line) for line in overrides if line not in groups]
        if any(override.key_or_group == "start" for override in values):
            cfg["start"] = None  # the words of `start` replace those of an experiment, and do not merge
        for override in values:
            yamls.change(cfg, override)
        return cfg, choices

    def _resolved(self, overrides: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        cfg, choices = self.config(overrides)
        return self._expanded(cfg), choices

    def sweep(self, words: Sequence[str], task: TaskFunction) -> None:
        """Run the sweep with its sweeper and launcher; task: runs a cell, for launchers that are not ours."""
        yamls.sweep(self.user_conf, words, task)

    def hydras(self, overrides: Iterable[str]) -> DictConfig:
        """Return Hydra's own part of a sweep's config: hydra.sweeper and hydra.launcher under these words.

        Swept words are left out, as they belong to the cells.  HydraException: a word names nothing.
        """
        fixed = [line for line in overrides if not parse(line).is_sweep_override()]
        return self.yamls.read(fixed, RunMode.MULTIRUN).hydra

    def options(self, group: str) -> list[str]:
        """Return the names of the yamls of a group, ours and those of --config-dir."""
        return self.yamls.options(group)

    def _expanded(self, cfg: DictConfig) -> dict[str, Any]:
        config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # pyright: ignore
        if isinstance(config["results"], str):
            config["results"] = os.path.expanduser(config["results"])
        config["model"]["layers"] = unrolled(config, lambda name: self._other_mixer(name, cfg))
        return config

    def _other_mixer(self, name: str, cfg: DictConfig) -> dict[str, Any]:
        """Return what `mixer=NAME` would give under this config, without the settings of the chosen mixer."""
        if name not in self.options("mixer"):
            raise ValueError(unknown("layer", name, ["mixer", *self.options("mixer")]) + " [model.layers]")
        chosen = cfg._get_node("mixer")
        with open_dict(cfg):
            cfg["mixer"] = self.yamls.composed((f"mixer={name}",))[0].mixer
            other = OmegaConf.to_container(cfg.mixer, resolve=True)
            cfg._set_item_impl("mixer", chosen)
        return other  # pyright: ignore


def _with(cfg: DictConfig, values: Mapping[str, Any]) -> DictConfig:
    for key, value in values.items():
        cfg[key] = value
    return cfg


def _apart(cell: Cell) -> Cell:
    """Take `rerun` out of the config and words of a cell: it belongs to the command, not to the record."""
    config = dict(cell.config)
    rerun = config.pop("rerun")
    if not isinstance(rerun, bool):
        raise ValueError(f"rerun (={rerun}) must be true or false.")
    words = tuple(line for line in cell.overrides if parse(line).key_or_group != "rerun")
    return replace(cell, config=config, overrides=words, rerun=rerun)


def compose(overrides: Iterable[str], config_dir: Path | None = None) -> Cell:
    """Return the cell that `python -m zoo.run [--config-dir CONFIG_DIR] OVERRIDES` would run."""
    return composer(config_dir).cell(overrides)


def composer(config_dir: Path | None = None) -> Composer:
    """Return a composer over our conf/ and, where given, one more folder laid out like it."""
    check_config_dir(config_dir)
    return Composer(yamls.loader(config_dir))


def _from_here(path: Path | None) -> str:
    """Return --config-dir for a command that repeats it: relative if below the current folder; "" if None."""
    if path is None:
        return ""
    here = Path.cwd().resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
