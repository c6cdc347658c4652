"""Compose cells for both launchers, with the search path that Hydra was started with."""

from abc import ABC
from typing import TYPE_CHECKING

from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from zoo.config.compose import Composer


class ComposingLauncher(Launcher, ABC):
    hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        del task_function, config  # a worker runs a Cell; it needs neither
        self.hydra_context = hydra_context

    def composer(self) -> "Composer":
        # imported here, because Hydra imports plugins in every program that uses Hydra
        from zoo.config.compose import Composer

        assert self.hydra_context is not None
        return Composer(self.hydra_context.config_loader)
