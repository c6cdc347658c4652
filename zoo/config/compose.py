"""From command-line overrides to a cell, as Hydra composes it, but each set of group choices only once.

Plain Hydra takes tens of milliseconds a cell, and its own sweeper composes every cell twice.  Here the
files are read and merged once for each set of group choices.  The value overrides of a point are then
applied to a copy by Hydra's own function, and all its cells get their seeds and learning rates from one
template (zoo/config/template.py), so that the outcome is the same (tests/test_config.py).
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from zoo.checks import unknown
from zoo.config import hydra_private
from zoo.config.bounds import refusal
from zoo.config.cell import VARIED, Cell
from zoo.config.paths import CONF, SWEEPS_PATH
from zoo.config.template import Template, template

ROOT = "config"  # conf/config.yaml
GROUPS = ("mixer", "task", "block", "model", "optim", "trainer", "logger")  # each names one yaml
KEYS = ("d_model", "n_layers", "seed", "lr", "kernels", "population", "max_examples", "results")
KEYS += ("rerun", "keep_weights")
NEEDED = (*GROUPS, *KEYS)


@dataclass(frozen=True)
class Point:
    """Cells that differ in seed and lr alone.  said: what these are where no word gives them."""

    template: Template
    said: dict[str, Any]
    choices: dict[str, str]

    def config(self, given: dict[str, Any]) -> dict[str, Any]:
        return self.template.filled(self.said | given)

    @cached_property
    def name(self) -> str:
        """The run id with seed and lr set aside, wherever else they are referred to."""
        return Cell(self.config({"seed": 0, "lr": 1}), self.choices).run_id


class Composer:
    """Composes cells from the yamls on one search path."""

    def __init__(self, loader: hydra_private.Loader) -> None:
        self.loader = loader
        self.repository = hydra_private.reading_once(loader)
        self.config_dir = _config_dir(loader)
        self._bases: dict[tuple[str, ...], tuple[DictConfig, dict[str, str]]] = {}
        self._known_keys: dict[tuple[str, ...], frozenset[str]] = {}
        self._points: dict[tuple[str, ...], Point | None] = {}

    def cell(self, overrides: Iterable[str]) -> Cell:
        """The cell that `python -m zoo.run OVERRIDES` would run.

        ValueError, one line for each mistake: an unknown key, group or name, with the nearest valid one.
        """
        overrides = tuple(overrides)
        try:
            return _apart(self._of_point(overrides) or self._by_itself(overrides))
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(self._explained(error, overrides)) from error

    def _of_point(self, overrides: tuple[str, ...]) -> Cell | None:
        """None: its config follows its seed or lr in another way than holding them."""
        parsed = [parse(line) for line in overrides]
        varied = {o.key_or_group: o for o in parsed if o.key_or_group in VARIED}
        if not all(map(_is_plain, varied.values())):
            return None
        shared = _shared(overrides)
        if shared not in self._points:
            self._points[shared] = self._point(shared)
        point = self._points[shared]
        if point is None:
            return None
        config = point.config({key: override.value() for key, override in varied.items()})
        return Cell(config, dict(point.choices), overrides, point.name, self.config_dir)

    def _by_itself(self, overrides: tuple[str, ...]) -> Cell:
        self._refuse(overrides)
        stand_in = Cell(*self._resolved([*_shared(overrides), "seed=0", "lr=1"]))
        return Cell(*self._resolved(overrides), overrides, stand_in.run_id, self.config_dir)

    def _point(self, shared: tuple[str, ...]) -> "Point | None":
        """All cells with these words, whatever their seed and lr."""
        self._refuse(shared)
        cfg, choices = self.config(shared)
        if any(OmegaConf.is_missing(cfg, key) or OmegaConf.is_interpolation(cfg, key) for key in VARIED):
            return None
        said = {key: cfg[key] for key in VARIED}
        try:
            made = template(lambda values: self._expanded(_with(cfg, values)))
        except (OmegaConfBaseException, ValueError):  # said better of the words themselves
            return None
        return None if made is None else Point(made, said, choices)

    def _refuse(self, overrides: tuple[str, ...]) -> None:
        if mistakes := self.mistakes(overrides):
            raise ValueError("\n".join(mistakes))

    def _explained(self, error: Exception, overrides: tuple[str, ...]) -> str:
        """A key inside a {...} value has no override of its own: OmegaConf names it."""
        cause = error.__cause__
        if isinstance(cause, ConfigKeyError | ConfigAttributeError) and cause.full_key:
            groups = tuple(line for line in overrides if self._chooses(parse(line)))
            return unknown("key", cause.full_key, sorted(self._keys(groups)))
        return f"{first_line(error)} [{' '.join(overrides)}]"

    def mistakes(self, overrides: Iterable[str]) -> list[str]:
        """One line for each override that names nothing; what is swept over is left to its cells."""
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
        keys = self._keys(tuple(o.input_line or "" for o in groups))
        return [line for o in parsed if o not in groups for line in _wrong_key(o, keys)]

    def _chooses(self, override: Override) -> bool:
        """group=name, rather than key=value; group={...} is a value too."""
        return self.repository.group_exists(override.key_or_group) and not isinstance(override.value(), dict)

    def _wrong_choice(self, override: Override) -> list[str]:
        group, value = override.key_or_group, override.value()
        if line := nameless(override):
            return [line]
        names = value if isinstance(value, list) else [value]
        valid = self.options(group)
        return [
            unknown(group, str(name), valid) + f" (there are: {', '.join(valid)})"
            for name in names
            if name is not None and name not in valid
        ]

    def _keys(self, groups: tuple[str, ...]) -> frozenset[str]:
        self._base(groups)
        return self._known_keys[groups]

    def config(self, overrides: Iterable[str]) -> tuple[DictConfig, dict[str, str]]:
        """The composed config before interpolation, the caller's own copy, and the group choices."""
        parsed = [parse(line) for line in overrides]
        values = hydra_private.values(self.repository, parsed)
        groups = tuple(line for line, o in zip(overrides, parsed, strict=True) if o not in values)
        base, choices = self._base(groups)
        cfg = copy.deepcopy(base)
        hydra_private.apply(values, cfg)
        return cfg, choices

    def _resolved(self, overrides: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        cfg, choices = self.config(overrides)
        return self._expanded(cfg), choices

    def sweep(self, words: Sequence[str], task: TaskFunction) -> None:
        """Run the sweep as its sweeper and launcher do; task: of a cell, for launchers that are not ours."""
        hydra_private.sweep(self.loader, ROOT, words, task)

    def hydras(self, overrides: Iterable[str]) -> DictConfig:
        """Hydra's own part of a sweep's config: hydra.sweeper and hydra.launcher as these words leave them.

        What is swept over is left out: it belongs to the cells.  HydraException: a word names nothing.
        """
        fixed = [line for line in overrides if not parse(line).is_sweep_override()]
        cfg = self.loader.load_configuration(ROOT, fixed, run_mode=RunMode.MULTIRUN)
        return cfg.hydra

    def options(self, group: str) -> list[str]:
        return self.repository.get_group_options(group)

    def _base(self, groups: tuple[str, ...]) -> tuple[DictConfig, dict[str, str]]:
        if groups not in self._bases:
            cfg = self.loader.load_configuration(ROOT, list(groups), run_mode=RunMode.RUN)
            choices = {k: v for k, v in cfg.hydra.runtime.choices.items() if not k.startswith("hydra/") and v}
            self._known_keys[groups] = frozenset([*keys_of(cfg), *self.loader.list_groups("")])
            with open_dict(cfg):
                del cfg["hydra"]
            self._bases[groups] = cfg, choices
        return self._bases[groups]

    def _expanded(self, cfg: DictConfig) -> dict[str, Any]:
        config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # pyright: ignore
        if isinstance(config["results"], str):
            config["results"] = os.path.expanduser(config["results"])
        pattern = config["model"].get("layers")
        if not isinstance(pattern, list) or not pattern:
            raise ValueError(
                f"model.layers (={pattern!r}) must be a list of mixers, such as [base_conv,mixer]."
            )
        entries = [_entry(entry) for entry in pattern]
        layers = [self._layer(name, changes, config, cfg) for name, changes in entries]
        depth = (
            config["n_layers"] if isinstance(config["n_layers"], int) else 0
        )  # zoo.launch.preflight says the rest
        if too_many := refusal("n_layers", depth):
            raise ValueError(too_many)
        if depth > 0:
            _all_reached([name for name, _ in entries], depth)
        config["model"]["layers"] = [layers[i % len(layers)] for i in range(depth)]
        return config

    def _layer(
        self, name: str, changes: dict[str, Any], config: dict[str, Any], cfg: DictConfig
    ) -> dict[str, Any]:
        layer = config["mixer"] if name == "mixer" else self._other_mixer(name, cfg)
        return _merged(name, {key: value for key, value in layer.items() if key != "about"}, changes)

    def _other_mixer(self, name: str, cfg: DictConfig) -> dict[str, Any]:
        """What `mixer=NAME` would give under this config, without the settings of the chosen mixer."""
        if name not in self.options("mixer"):
            raise ValueError(unknown("layer", name, ["mixer", *self.options("mixer")]) + " [model.layers]")
        chosen = cfg._get_node("mixer")
        with open_dict(cfg):
            cfg["mixer"] = self._base((f"mixer={name}",))[0].mixer
            other = OmegaConf.to_container(cfg.mixer, resolve=True)
            cfg._set_item_impl("mixer", chosen)
        return other  # pyright: ignore


def _shared(overrides: Iterable[str]) -> tuple[str, ...]:
    """The words that all cells of a point have."""
    return tuple(line for line in overrides if parse(line).key_or_group not in VARIED)


def _with(cfg: DictConfig, values: Mapping[str, Any]) -> DictConfig:
    for key, value in values.items():
        cfg[key] = value
    return cfg


def _apart(cell: Cell) -> Cell:
    """`rerun` is about this command and no part of what a cell is: its record does not hold it."""
    config = dict(cell.config)
    rerun = config.pop("rerun")
    if not isinstance(rerun, bool):
        raise ValueError(f"rerun (={rerun}) must be true or false.")
    words = tuple(line for line in cell.overrides if parse(line).key_or_group != "rerun")
    return replace(cell, config=config, overrides=words, rerun=rerun)


def compose(overrides: Iterable[str], config_dir: Path | None = None) -> Cell:
    """The cell that `python -m zoo.run [--config-dir CONFIG_DIR] OVERRIDES` would run."""
    return composer(config_dir).cell(overrides)


def composer(config_dir: Path | None = None) -> Composer:
    """A composer over our conf/ and, where given, one more folder laid out like it."""
    path = [("hydra", "pkg://hydra.conf"), ("main", f"file://{CONF}"), ("zoo", SWEEPS_PATH)]
    if config_dir is not None:
        if not config_dir.is_dir():
            raise ValueError(f"--config-dir (={config_dir}) must be a folder with yamls of your own.")
        path.append(("command-line", f"file://{config_dir.resolve()}"))
    return Composer(hydra_private.loader([*path, ("schema", "structured://")]))


def _config_dir(loader: hydra_private.Loader) -> str:
    """--config-dir as a command repeats it: from where we are if it lies below, else whole; "" without."""
    entries = [e.path for e in loader.get_search_path().get_path() if e.provider == "command-line"]
    if not entries:
        return ""
    path, here = Path(entries[-1].removeprefix("file://")), Path.cwd().resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@lru_cache(maxsize=4096)  # a grid repeats its words; the parser takes a millisecond for each
def parse(line: str) -> Override:
    return OverridesParser.create().parse_overrides([line])[0]


def first_line(error: Exception) -> str:
    """What Hydra or OmegaConf says, in one line."""
    inner = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    line = str(inner).strip().splitlines()[0]
    return f"cannot read {error.override}: {line}" if isinstance(error, OverrideParseException) else line


def nameless(override: Override) -> str | None:
    """A group that is given something else than one name, in one line."""
    group = override.key_or_group
    if group not in GROUPS or override.is_delete() or override.is_sweep_override():
        return None
    if isinstance(override.value(), str | dict):
        return None
    return f"{override.input_line} must name one {group}: -m with {group}=ONE,OTHER runs several."


def _is_plain(override: Override) -> bool:
    """key=value with a value that stands for itself."""
    value = override.value()
    return (
        override.type == OverrideType.CHANGE
        and override.package is None
        and (type(value) in (int, float) or (type(value) is str and "${" not in value and value != "???"))
    )


def _wrong_key(override: Override, keys: frozenset[str]) -> list[str]:
    key = override.key_or_group
    whole = f"{key}@{override.package}" if override.package else key
    if whole in keys:
        return []
    if not key.startswith("hydra"):
        keys = frozenset(k for k in keys if not k.startswith("hydra"))
    return [unknown("key", whole, sorted(keys))]


def _entry(entry: Any) -> tuple[str, dict[str, Any]]:
    """A layer of a pattern: which mixer, and what is changed of its settings."""
    name, changes = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else (entry, {})
    if not isinstance(name, str) or not isinstance(changes, dict):
        raise ValueError(
            f"model.layers entry (={entry!r}) must be a mixer's name or one {{name: {{key: value}}}}."
        )
    return name, changes


def _all_reached(names: list[str], depth: int) -> None:
    """A pattern cut off before its mixer would train something else under the mixer's name."""
    last = max(names.index(name) for name in names)
    if depth <= last:
        raise ValueError(
            f"n_layers (={depth}) never reaches {names[last]} in model.layers (={','.join(names)}): "
            f"set n_layers to at least {last + 1}, or shorten the pattern."
        )


def _merged(path: str, settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, which may name only what is there."""
    merged = dict(settings)
    for key, value in changes.items():
        if key not in settings:
            raise ValueError(
                unknown("key", f"{path}.{key}", [f"{path}.{k}" for k in settings if k[0] != "_"])
            )
        both = isinstance(value, dict) and isinstance(settings[key], dict)
        merged[key] = _merged(f"{path}.{key}", settings[key], value) if both else value
    return merged


def keys_of(node: DictConfig | ListConfig, prefix: str = "") -> list[str]:
    """All dotted keys below a node, inner ones and places in lists included."""
    found = []
    for key in node if isinstance(node, DictConfig) else range(len(node)):
        child = node._get_node(key)  # pyright: ignore
        found.append(f"{prefix}{key}")
        if (
            isinstance(child, DictConfig | ListConfig)
            and not child._is_none()
            and not child._is_interpolation()
        ):
            found += keys_of(child, f"{prefix}{key}.")
    return found
