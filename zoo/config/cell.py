"""Describe a cell: one training run, given by its resolved config and named by a hash of that config."""

import hashlib
import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo.config.about import about
from zoo.config.settings import ADAMW, AdaptationConfig, OptimConfig, TrainerConfig, optim_settings, settings

SCHEMA = 1  # raise it when the meaning of a cell changes: every run id changes with it
# keys that say where and how to run, not what to run
MACHINE_ONLY = ("results", "logger", "kernels", "population", "rerun", "keep_weights")
MACHINE_ONLY_TRAINER = ("accelerator", "step", "threads", "checkpoint_every", "checkpoint_seconds")
# Settings added since the first cells, with the values that keep a cell, and so its run id, as before.
USUAL: dict[str, dict[str, Any]] = {  # by group, "cell" for top keys, or by _target_ of a mixer
    "cell": {"loss": "answers"},
    "trainer": {"callbacks": []},
    "model": {"redraw": False, "state_codec": None},
    "optim": {"check_val_every_n_epoch": 1, "_target_": ADAMW},
    "zoo.mixers.attention.Attention": {"dropout": 0.0},
    "zoo.mixers.hyena.Hyena": {"train_features": False},
    "zoo.mixers.lightning_attention.LightningAttention": {
        "value_dim": None,
        "activation": "silu",
        "gate": True,
    },
    "zoo.mixers.mamba3.Mamba3": {"decay_activation": "softplus"},
}
VARIED = ("lr", "seed")  # cells that differ in these only make one point of a plot


@dataclass(frozen=True, eq=False)  # compared by identity, so that caches may be keyed by the object
class Cell:
    """One training run, fully described.

    config: plain nested dicts, all interpolations resolved, layer patterns expanded; keys as in
        conf/config.yaml.  config["mixer"] is the chosen mixer's yaml (with `about`),
        config["model"]["layers"] the list of mixer yamls, one a layer (without `about`).
    choices: group -> chosen stem.  overrides: the words of the command line.
    config_dir: the folder of the user's own yamls (--config-dir), "" where there is none.
    point: equal for cells that differ in nothing but seed and lr.
    rerun: it is to run again although it is done, see zoo.launch.rerun.
    parent: the cell that it starts from, if `start` names it by words (zoo/config/start.py).
    """

    config: dict[str, Any]
    choices: dict[str, str]
    overrides: tuple[str, ...] = ()
    point: str = ""
    config_dir: str = ""
    rerun: bool = False
    parent: "Cell | None" = None

    @property
    def lineage(self) -> tuple["Cell", ...]:
        """Return the cells that must be trained before this one, in order, and this cell."""
        return (*(self.parent.lineage if self.parent else ()), self)

    @property
    def start(self) -> str | None:
        """Return the run id of the cell whose weights it begins with; None: it begins with fresh ones."""
        return Path(start).name if (start := self.config.get("start")) else None

    @property
    def start_place(self) -> Path:
        """Return the folder of the cell whose weights this one starts from."""
        start = self.config["start"]
        return Path(start) if "/" in start else Path(self.results) / start

    @property
    def lr(self) -> float:
        """Return the peak learning rate.  ValueError: it is no positive number."""
        rate = self.config["lr"]
        if not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"lr (={rate}) must be a positive number.")
        return rate

    @property
    def seed(self) -> int:
        """Return the seed of initial weights and data."""
        return self.config["seed"]

    @property
    def d_model(self) -> int:
        return self.config["d_model"]

    @property
    def kernels(self) -> str:
        return self.config["kernels"]

    @property
    def population(self) -> int | str:
        """Return the number of cells that may train as one; "auto": as many as measurements show to pay."""
        return self.config["population"]

    @property
    def keep_weights(self) -> bool | str:
        """Return whether to keep final weights; "auto": below 50 MB.  A queued cell may lack the key."""
        return self.config.get("keep_weights", "auto")

    @cached_property
    def optim(self) -> OptimConfig:
        """Return the settings of conf/optim.  ValueError: a setting is unknown, missing or out of range."""
        return optim_settings(self.config["optim"])

    @cached_property
    def trainer(self) -> TrainerConfig:
        """Return the settings of the trainer, checked.  ValueError: the rule, the value and the fix."""
        return settings("trainer", TrainerConfig, self.config["trainer"])

    @cached_property
    def adaptation(self) -> AdaptationConfig | None:
        """Return the recipe of adaptation, checked; None: every weight trains, as from the start."""
        given = self.config.get("adaptation")
        return None if given is None else settings("adaptation", AdaptationConfig, given)

    @property
    def task(self) -> str:
        """Return the stem of the task's yaml."""
        return self.choices["task"]

    @property
    def task_settings(self) -> dict[str, Any]:
        """Return the settings that the task is built from."""
        return self.config["task"]

    def with_task(self, settings: dict[str, Any]) -> "Cell":
        """Return the same cell with another task; max_examples limits no segments that the task has anew."""
        own = all(
            settings.get(split) == self.task_settings.get(split) for split in ("train", "valid", "test")
        )
        limit = {} if own else {"max_examples": None}
        return replace(self, config=self.config | {"task": settings} | limit)

    @property
    def results(self) -> str:
        """Return the results folder that the cell belongs to."""
        return self.config["results"]

    @property
    def logger(self) -> dict[str, Any]:
        return self.config["logger"]

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return label, family and knob of the chosen mixer, from its yaml."""
        return about(self.mixer, self.config["mixer"])

    @cached_property
    def mixer_settings(self) -> dict[str, Any]:
        """Return the settings that the chosen mixer is built from, as they stand in a layer."""
        return {key: value for key, value in self.config["mixer"].items() if key != "about"}

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Return the settings of each layer's mixer, the first layer first."""
        return self.config["model"]["layers"]

    @property
    def mixer(self) -> str:
        """Return the stem of the chosen mixer's yaml."""
        return self.choices["mixer"]

    @property
    def chosen_layer(self) -> int:
        """Return the index of the first layer with the chosen mixer's own settings, else of the last."""
        layers = self.layers
        return layers.index(self.mixer_settings) if self.mixer_settings in layers else len(layers) - 1

    @property
    def science(self) -> dict[str, Any]:
        """Return the part of the config that decides the numbers: no folders, logger, machine or texts."""
        left_out = (*MACHINE_ONLY, *USUAL["cell"])
        config = {key: value for key, value in self.config.items() if key not in left_out} | self.unusual
        if isinstance(start := config.pop("start", None), str):
            config["start"] = Path(start).name  # the folder around it does not count
        elif start is not None:
            config["start"] = start  # words, as in the config of a point
        for group in ("mixer", "block", "model", "trainer"):
            config[group] = {k: v for k, v in config[group].items() if k != "about"}
        config["mixer"] = _unusual(config["mixer"])
        layers = [_unusual(layer) for layer in config["model"]["layers"]]
        config["model"] = _unusual(config["model"], "model") | {"layers": layers}
        trainer = {k: v for k, v in config["trainer"].items() if k not in MACHINE_ONLY_TRAINER}
        config["trainer"] = _unusual(trainer, "trainer")
        config["optim"] = _unusual(config["optim"], "optim")
        return config | {"mixer_name": self.mixer, "schema": SCHEMA}

    @property
    def unusual(self) -> dict[str, Any]:
        """Return the top keys (`loss`) that differ from their usual values, which change the task."""
        return _unusual({key: self.config[key] for key in USUAL["cell"] if key in self.config}, "cell")

    @cached_property
    def run_id(self) -> str:
        """Return the mixer's name and a hash of `science`: the name of the record's folder."""
        return f"{self.mixer}-{hashed(self.science)}"

    @property
    def words(self) -> dict[str, Any]:
        """Return the words of the command line that repeat this cell, for its record."""
        option = {"config_dir": self.config_dir} if self.config_dir else {}
        return {"overrides": list(self.overrides)} | option

    @property
    def place(self) -> Path:
        """Return the folder where the record of this cell belongs."""
        return Path(self.results) / self.run_id

    @property
    def stage(self) -> Path:
        """Return the folder in which cells with `rerun=true` are trained again."""
        return self.place.parent / ".rerun"

    @property
    def folder(self) -> Path:
        """Return the folder to train in: `place`, or under `stage` while `place` holds an earlier record."""
        return self.stage / self.run_id if self.rerun else self.place

    def __str__(self) -> str:
        return " ".join(self.overrides) or "(all defaults)"


def without_starts(cells: Collection[Cell]) -> list[Cell]:
    """Return the cells from which no other of these cells starts."""
    starts = {cell.parent.run_id for cell in cells if cell.parent is not None}
    return [cell for cell in cells if cell.run_id not in starts]


def _unusual(settings: dict[str, Any], group: str | None = None) -> dict[str, Any]:
    """Return the settings without those of USUAL that have their usual value."""
    usual = _usual(settings, group)
    return {key: value for key, value in settings.items() if key not in usual or usual[key] != value}


def as_named_today(mixer: dict[str, Any]) -> dict[str, Any]:
    """Return the mixer's settings with those of USUAL that an older record lacks."""
    return _usual(mixer) | mixer


def _usual(settings: dict[str, Any], group: str | None = None) -> dict[str, Any]:
    return USUAL.get(group or settings.get("_target_", ""), {})


def hashed(value: Any) -> str:
    """Return a hash of a JSON value, twelve hex digits; keys in any order, and 1 equals 1.0."""
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _canonical(value: Any) -> Any:
    """Return the value with 1.0 as 1: they are one number, and must make one cell."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
