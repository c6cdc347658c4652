"""Read the yamls on Hydra's search path: names, texts, and the configs that Hydra composes from them."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import ConfigCompositionException, HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from zoo.config.paths import CONF, USER_CONF
from zoo.config.words import parse

ROOT = "config"  # conf/config.yaml
SWAPPED = "mixer"  # the group that is swapped without composing the other groups again
Composed = tuple[DictConfig, dict[str, str]]  # a config without Hydra's own part, and group -> chosen name


@contextmanager
def _hydra(config_dir: Path | None) -> Iterator[Any]:
    """Yield Hydra over our yamls and, where given, one more folder; restore its old state at the end."""
    given = USER_CONF.set(config_dir)
    try:
        with initialize_config_dir(str(CONF), job_name="zoo", version_base="1.3"):
            yield GlobalHydra.instance().hydra
    finally:
        USER_CONF.reset(given)


def loader(config_dir: Path | None) -> ConfigLoader:
    """Return Hydra's reader of our yamls and those in `config_dir`; it works on after Hydra is closed."""
    with _hydra(config_dir) as hydra:
        for source in hydra.config_loader.get_sources():
            source.load_config = _copied(cache(source.load_config))  # else parsed for each composition
        return hydra.config_loader


def _copied(load: Callable[[str], ConfigResult]) -> Callable[[str], ConfigResult]:
    """Return a `load` that copies its result, since Hydra changes it."""
    return lambda config_path: copy.deepcopy(load(config_path))


def sweep(config_dir: Path | None, words: Sequence[str], task: TaskFunction) -> None:
    """Compose once, and pass the words to the sweeper; task: for a launcher of another package to call."""
    with _hydra(config_dir) as hydra:
        hydra.multirun(ROOT, task, Yamls(hydra.config_loader).without_null(words))


class Yamls:
    """The yamls that a loader finds, each read once, and each set of group choices composed once."""

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self.is_group = cache(lambda path: any(source.is_group(path) for source in loader.get_sources()))
        self.options = cache(loader.get_group_options)
        self.composed = cache(self._composed)
        self._without_mixer = cache(self._composed_without_mixer)
        self._mixer = cache(self._plain_mixer)

    def source(self, name: str) -> ConfigSource | None:
        """Return the first source that has the yaml, which is the one that Hydra uses."""
        return next((source for source in self.loader.get_sources() if source.is_config(name)), None)

    def _composed(self, choices: tuple[str, ...]) -> Composed:
        """Compose the group choices.  HydraException: Hydra's own."""
        parsed = [parse(line) for line in choices]
        mixers = [override for override in parsed if override.key_or_group == SWAPPED]
        if len(mixers) == 1 and _is_choice(mixers[0]):
            name = str(mixers[0].value())
            mixer = self._mixer(name)
            rest = self._without_mixer(tuple(line for line in choices if parse(line) != mixers[0]))
            if mixer and rest:
                cfg = OmegaConf.merge({SWAPPED: mixer}, rest[0])
                OmegaConf.set_struct(cfg, True)
                return cfg, {SWAPPED: name, **rest[1]}  # pyright: ignore[reportReturnType]
        return self._whole(choices)

    def read(self, words: Iterable[str], mode: RunMode) -> DictConfig:
        """Compose conf/config.yaml with these words.  HydraException: a word names nothing."""
        return self.loader.load_configuration(ROOT, self.without_null(words), run_mode=mode)

    def without_null(self, words: Iterable[str]) -> list[str]:
        """Return the words without GROUP=null, which counts as left out; Hydra refuses it."""

        def counts(o: Override) -> bool:
            return o.is_delete() or o.value() is not None or not self.is_group(o.key_or_group)

        return [line for line in words if counts(parse(line))]

    def _whole(self, choices: Sequence[str]) -> Composed:
        cfg = self.read(choices, RunMode.RUN)
        chosen = cfg.hydra.runtime.choices
        with open_dict(cfg):
            cfg.pop("hydra")
        return cfg, {key: name for key, name in chosen.items() if not key.startswith("hydra/") and name}

    def _composed_without_mixer(self, choices: tuple[str, ...]) -> Composed | None:
        """Compose all groups but the mixer; None: another yaml sets a key of the mixer."""
        try:
            cfg, chosen = self._whole([f"~{SWAPPED}", *choices])
        except (HydraException, OmegaConfBaseException):  # composing the whole gives a better message
            return None
        return None if SWAPPED in cfg else (cfg, chosen)

    def _plain_mixer(self, name: str) -> DictConfig | None:
        """Read a mixer's yaml; None: it does not exist, or it merges other yamls."""
        source = self.source(f"{SWAPPED}/{name}")
        if source is None:
            return None
        try:
            read = source.load_config(f"{SWAPPED}/{name}")
        except (OmegaConfBaseException, RecursionError):
            raise ValueError(f"{SWAPPED}/{name}.yaml must be a tree: something in it holds itself.") from None
        if not isinstance(read.config, DictConfig):
            raise ValueError(f"{SWAPPED}/{name}.yaml must hold {{key: value}}, like `d_model: ${{d_model}}`.")
        if "defaults" in read.config or read.header["package"]:
            return None
        return read.config


def _is_choice(override: Override) -> bool:
    plain = override.type == OverrideType.CHANGE and override.package is None
    return plain and isinstance(override.value(), str)


def change(cfg: DictConfig, override: Override) -> None:
    """Apply a key=value word to the config, as Hydra's own compose does.

    HydraException or OmegaConfBaseException: the word sets no existing key.
    """
    key, value = override.key_or_group, override.value()
    if override.package is not None:
        raise ConfigCompositionException(f"{override.input_line}: there is no config group {key}")
    if override.is_delete():
        return _delete(cfg, override)
    there = OmegaConf.select(cfg, key, throw_on_missing=False) is not None
    if override.is_add() and there and not isinstance(value, dict | list):
        raise ConfigCompositionException(f"{override.input_line}: {key} is there already: leave out the +")
    OmegaConf.update(cfg, key, value, merge=True, force_add=override.is_add() or override.is_force_add())


def _delete(cfg: DictConfig, override: Override) -> None:
    value = OmegaConf.select(cfg, override.key_or_group, throw_on_missing=False)
    if value is None or override.value() not in (None, value):
        raise ConfigCompositionException(f"{override.input_line}: the config has {value} there")
    path, _, last = override.key_or_group.rpartition(".")
    with open_dict(cfg):
        del (OmegaConf.select(cfg, path) if path else cfg)[last]
