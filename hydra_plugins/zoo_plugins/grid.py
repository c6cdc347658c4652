"""The sweeper: the grids that the command line spans, handed to the launcher whole.

Differs from Hydra's basic sweeper on purpose: nothing is composed here (the launcher composes every cell
once, and reports all bad ones together), nothing is written, and the launcher's own report stands.
"""

from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser


class GridSweeper(BasicSweeper):
    def __init__(self, params: dict[str, str] | None, grids: list[dict[str, str]] | None) -> None:
        super().__init__(max_batch_size=None, params=params)
        self.grids = grids or [{}]

    def sweep(self, arguments: list[str]) -> Any:
        """Launch every combination of each grid.

        A key on the command line goes before the same key in a grid, and that before the one in `params`.
        """
        assert self.hydra_context is not None and self.launcher is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        cells = []
        for grid in self.grids:
            words = [f"{key}={value}" for key, value in grid.items()]
            overrides = parser.parse_overrides([*self._parse_config(), *words, *arguments])
            cells += self.split_arguments(overrides, max_batch_size=None)[0]
        return self.launcher.launch(cells, initial_job_idx=0)
