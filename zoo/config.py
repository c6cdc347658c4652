"""From a Hydra config to a cell: resolved, expanded, hashed."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from zoo.paths import CONF

SCHEMA = 1  # raise it when the meaning of a cell changes: every run id changes with it
MACHINE_ONLY = ("results", "logger")  # keys that say where and how to run, not what
MACHINE_ONLY_TRAINER = ("accelerator", "threads", "checkpoint_every")


@dataclass(frozen=True)
class Cell:
    """One training run, fully described.

    config: plain nested dicts, all interpolations resolved, layer patterns expanded; keys as in conf/config.yaml.
        config["mixer"] is the chosen mixer's yaml (with `about`), config["model"]["layers"] the list of
        mixer yamls, one a layer (without `about`).
    mixer: stem of the chosen mixer's yaml.  choices: group -> chosen stem.
    """

    config: dict[str, Any]
    choices: dict[str, str]

    @property
    def mixer(self) -> str:
        return self.choices["mixer"]

    @property
    def science(self) -> dict[str, Any]:
        """What decides the numbers: the config without folders, logger, machine and legend texts."""
        config = {key: value for key, value in self.config.items() if key not in MACHINE_ONLY}
        config["mixer"] = {k: v for k, v in config["mixer"].items() if k != "about"}
        config["trainer"] = {k: v for k, v in config["trainer"].items() if k not in MACHINE_ONLY_TRAINER}
        return config | {"mixer_name": self.mixer, "schema": SCHEMA}

    @property
    def run_id(self) -> str:
        text = json.dumps(self.science, sort_keys=True, separators=(",", ":"))
        return f"{self.mixer}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def compose(overrides: list[str], config_dir: Path = CONF) -> Cell:
    """The cell that `python -m zoo.run OVERRIDES` would run."""
    with hydra.initialize_config_dir(str(config_dir), version_base="1.3"):
        cfg = hydra.compose("config", overrides=overrides, return_hydra_config=True)
    return to_cell(cfg)


def to_cell(cfg: DictConfig) -> Cell:
    """Resolve a composed config (with its `hydra` node) and expand its layer pattern."""
    choices = {k: v for k, v in cfg.hydra.runtime.choices.items() if not k.startswith("hydra/") and v}
    own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    config: dict[str, Any] = OmegaConf.to_container(own, resolve=True)  # pyright: ignore
    pattern = config["model"]["layers"]
    config["model"]["layers"] = [_layer(pattern[i % len(pattern)], config) for i in range(config["n_layers"])]
    return Cell(config, choices)


def _layer(entry: str | dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    name, changes = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
    if name == "mixer":
        layer = config["mixer"]
    else:
        scope = {key: config[key] for key in ("d_model", "n_layers")}
        node = OmegaConf.create(scope | {"mixer": OmegaConf.load(CONF / "mixer" / f"{name}.yaml")})
        layer = OmegaConf.to_container(node.mixer, resolve=True)
    return {k: v for k, v in (layer | changes).items() if k != "about"}  # pyright: ignore
