"""A Lightning logger beside metrics.csv, for those who want one."""

import importlib.util
from pathlib import Path

from pytorch_lightning.loggers import Logger

from zoo.cell import Cell
from zoo.instantiate import make


def check_logger(cell: Cell) -> None:
    """ValueError where the package that the logger's yaml `requires` is not installed."""
    choice, package = cell.choices["logger"], cell.config["logger"].get("requires")
    if package and importlib.util.find_spec(package) is None:
        raise ValueError(
            f"logger={choice} needs {package}: pip install 'zoo-recall[{choice}]', or use logger=csv."
        )


def make_logger(cell: Cell, folder: Path) -> Logger | None:
    """None for csv.  Others write under the cell's folder, unless their settings say where else."""
    check_logger(cell)
    config = {key: value for key, value in cell.config["logger"].items() if key != "requires"}
    if config.get("_target_") is None:
        return None
    return make(config, Logger, save_dir=str(folder))
