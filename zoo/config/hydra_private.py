"""Hydra's private parts, wrapped: no other module of zoo touches `hydra._internal`.

Why any does: Hydra's public `compose` reads every yaml anew, its own among them, and takes 80 ms a cell, and
its `main` composes the same command line two or three times.  Whoever moves to another version of Hydra has
this file to read again, then WRITTEN_FOR and pyproject.toml to raise (tests/test_config.py).
"""

import copy
from collections.abc import Iterable, Sequence

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import (
    CachingConfigRepository,
    ConfigRepository,
    IConfigRepository,
)
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.defaults_list import Overrides, create_defaults_list
from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

WRITTEN_FOR = "1.3.8"  # of hydra-core

Loader = ConfigLoaderImpl  # of configs, from the yamls on a search path
Repository = IConfigRepository  # of yamls, by group and name
YamlFolder = FileConfigSource
command_line_parser = get_args_parser  # of every flag that Hydra has


def loader(path: Iterable[tuple[str, str]]) -> Loader:
    """Over a search path of (who gives it, "file://FOLDER"); the first that has a yaml wins."""
    Plugins.instance()  # registers Hydra's own config sources, and ours
    setup_globals()
    found = ConfigSearchPathImpl()
    for provider, place in path:
        found.append(provider, place)
    made = Loader(found)
    made.repository = Yamls(found)
    return made


class Yamls(ConfigRepository):
    """Each read from the disk once, where Hydra reads those of every set of group choices anew."""

    _read: dict[str, ConfigResult | None]

    def load_config(self, config_path: str) -> ConfigResult | None:
        """A copy of the caller's own: Hydra merges other yamls into it."""
        if config_path not in self._read:
            self._read[config_path] = super().load_config(config_path)
        return copy.deepcopy(self._read[config_path])

    def __deepcopy__(self, memo: object) -> "Yamls":
        """Hydra's copy for one set of choices, which shares what was read."""
        return copy.copy(self)

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Another search path (hydra.searchpath), and so other yamls."""
        self._read = {}
        super().initialize_sources(config_search_path)


def reading_once(loader: Loader) -> Repository:
    """Its yamls, each made a config once."""
    return CachingConfigRepository(loader.repository)


def composed(loader: Loader, config_name: str, choices: list[str]) -> tuple[DictConfig, dict[str, str]]:
    """The config with these group choices, without Hydra's own part, and group -> chosen name.

    HydraException: as Hydra says it.
    """
    try:
        cfg, chosen = _without_hydras(loader, config_name, choices)
    except (HydraException, OmegaConfBaseException):  # wrong, or about Hydra itself
        cfg = loader.load_configuration(config_name, choices, run_mode=RunMode.RUN)
        chosen = cfg.hydra.runtime.choices
    with open_dict(cfg):
        cfg.pop("hydra", None)
    return cfg, {k: name for k, name in chosen.items() if not k.startswith("hydra/") and name}


def _without_hydras(
    loader: Loader, config_name: str, choices: list[str]
) -> tuple[DictConfig, dict[str, str | None]]:
    """As Loader.load_configuration, but its own yamls, which are half of all, are left out."""
    parsed, yamls = loader._parse_overrides_and_create_caching_repo(config_name, choices)
    loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
    root = yamls.load_config(config_name)
    assert root and isinstance(root.config, DictConfig) and root.defaults_list is not None
    usual = {*root.config.hydra, "launcher", "sweeper"}
    root.defaults_list = [
        d for d in root.defaults_list if not str(getattr(d, "group", "")).startswith("hydra/")
    ]
    found = create_defaults_list(yamls, config_name, parsed, prepend_hydra=False, skip_missing=False)
    cfg = loader._compose_config_from_defaults_list(found.defaults, yamls)
    if not usual.issuperset(cfg.hydra):
        raise HydraException("a yaml says more about Hydra than zoo's own: it is for Hydra to check")
    OmegaConf.set_struct(cfg, True)
    Loader._apply_overrides_to_config(found.config_overrides, cfg)
    return cfg, found.overrides.known_choices


def values(repository: Repository, overrides: list[Override]) -> list[Override]:
    """Those that set a value, and choose no yaml of a group."""
    return Overrides(repository, overrides).config_overrides


def apply(values: list[Override], config: DictConfig) -> None:
    """Change the config as these overrides say."""
    Loader._apply_overrides_to_config(values, config)


def sweep(loader: Loader, config_name: str, words: Sequence[str], task: TaskFunction) -> None:
    """Compose once, and hand the words to the sweeper; task: what a launcher of another package calls."""
    Hydra("zoo", loader).multirun(config_name, task, [*words])
