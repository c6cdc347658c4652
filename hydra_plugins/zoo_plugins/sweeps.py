"""sweeps/*.yaml as the config group `sweep`, in our program alone."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin

from zoo.config.hydra_private import YamlFolder
from zoo.config.paths import CONF, SWEEPS, SWEEPS_PATH

GROUP = "sweep"


class SweepFiles(YamlFolder):
    """A folder of yamls without the level that names their group."""

    @staticmethod
    def scheme() -> str:
        return "zoo-sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        if not self.is_config(config_path):
            raise ConfigLoadError(f"no such sweep: {config_path}")
        return super().load_config(config_path.removeprefix(f"{GROUP}/"))

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{GROUP}/") and super().is_config(
            config_path.removeprefix(f"{GROUP}/")
        )

    def _names(self) -> list[str]:
        return sorted(path.stem for path in SWEEPS.glob("*.yaml"))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == GROUP:
            return [] if results_filter == ObjectType.GROUP else self._names()
        return [GROUP] if config_path == "" and results_filter != ObjectType.CONFIG else []


class SweepPath(SearchPathPlugin):
    """Hydra asks every installed plugin, in every program: only the one that reads our conf/ gets sweeps."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if any(element.path.removeprefix("file://") == str(CONF) for element in search_path.get_path()):
            search_path.append("zoo", SWEEPS_PATH)
