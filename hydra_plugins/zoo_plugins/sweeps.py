"""Make sweeps/*.yaml the config group `sweep`, in our own program only."""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from zoo.config.paths import CONF, SWEEPS_PATH, USER_CONF

GROUP = "sweep"


class SweepFiles(ConfigSource):
    """A config source: a folder of yamls without the folder level that names their group."""

    @staticmethod
    def scheme() -> str:
        return "zoo-sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        if not self.is_config(config_path):
            raise ConfigLoadError(f"no such sweep: {config_path}")
        path = self._file(config_path)
        header = self._get_header_dict(path.read_text())
        return ConfigResult(self.provider, self.full_path(), OmegaConf.load(path), header)

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{GROUP}/") and self._file(config_path).is_file()

    def _file(self, config_path: str) -> Path:
        return Path(self.path) / f"{config_path.removeprefix(f'{GROUP}/').removesuffix('.yaml')}.yaml"

    def _names(self) -> list[str]:
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == GROUP:
            return [] if results_filter == ObjectType.GROUP else self._names()
        return [GROUP] if config_path == "" and results_filter != ObjectType.CONFIG else []


class SweepPath(SearchPathPlugin):
    """Adds sweeps and the folder of --config-dir to the search path, only in a program that reads our conf/:
    Hydra asks every installed plugin in every program."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if any(element.path.removeprefix("file://") == str(CONF) for element in search_path.get_path()):
            search_path.append("zoo", SWEEPS_PATH)
            if (folder := USER_CONF.get()) is not None:
                search_path.append("command-line", f"file://{folder.resolve()}")
