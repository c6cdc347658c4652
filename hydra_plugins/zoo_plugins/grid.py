"""The sweeper: it passes all cells of a sweep file and of the command line to the launcher at once.

It differs from Hydra's basic sweeper on purpose: it composes nothing (the launcher composes every cell once,
and reports all bad ones together), writes nothing, and leaves the report to the launcher.
"""

from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class GridSweeper(Sweeper):
    """Sweeps over the cells of axes, grids and exclude, which `zoo.config.grids.cells` explains."""

    def __init__(self, axes: DictConfig, grids: Any, exclude: Any) -> None:
        del axes, grids, exclude  # Hydra has resolved them once too often: `setup` reads them itself
        self.parts: Any = None
        self.hydra_context: HydraContext | None = None
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context = hydra_context
        self.parts = {part: config.hydra.sweeper[part] for part in ("axes", "grids", "exclude")}
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Launch every cell that the grids and the command line span."""
        from zoo.config.grids import (
            cells,  # here, because Hydra imports plugins in every program that uses it
        )

        assert self.hydra_context is not None and self.launcher is not None
        parts = OmegaConf.to_container(OmegaConf.create(self.parts), resolve=True)
        return self.launcher.launch(
            cells(parts, arguments, self.hydra_context.config_loader),  # pyright: ignore[reportArgumentType]
            initial_job_idx=0,
        )
