"""Hydra's private parts, wrapped: no other module of zoo touches `hydra._internal`.

Why any does: Hydra's public `compose` reads every yaml anew and takes 80 ms a cell, and its `main` composes
the same command line two or three times.  Whoever moves to another version of Hydra has this file to read
again, then WRITTEN_FOR and pyproject.toml to raise (tests/test_config.py).
"""

from collections.abc import Iterable, Sequence

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.defaults_list import Overrides
from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.types import TaskFunction
from omegaconf import DictConfig

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
    return Loader(found)


def reading_once(loader: Loader) -> Repository:
    """Its yamls, each read from the disk once."""
    return CachingConfigRepository(loader.repository)


def values(repository: Repository, overrides: list[Override]) -> list[Override]:
    """Those that set a value, and choose no yaml of a group."""
    return Overrides(repository, overrides).config_overrides


def apply(values: list[Override], config: DictConfig) -> None:
    """Change the config as these overrides say."""
    Loader._apply_overrides_to_config(values, config)


def sweep(loader: Loader, config_name: str, words: Sequence[str], task: TaskFunction) -> None:
    """Compose once, and hand the words to the sweeper; task: what a launcher of another package calls."""
    Hydra("zoo", loader).multirun(config_name, task, [*words])
