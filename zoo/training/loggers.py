"""Make a Lightning logger, which may run beside metrics.csv.

Each logger gets the same: the run's name (the run id), its group (the point: cells that differ in seed and lr
only), its tags (mixer and task, and the user's own) and its config.  A cell that goes on after a kill keeps
its run in the logger.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, WandbLogger

from zoo.config.cell import Cell
from zoo.config.targets import make
from zoo.training.check import logger_kind

OURS = ("requires", "install", "group", "tags")  # keys of conf/logger that are no arguments of a logger
ONE_RUN = "zoo.run_id"  # the tag by which MLflow finds the run of a cell again


def _made(cell: Cell, folder: Path) -> list[Logger]:
    """Make the cell's logger, none for csv."""
    settings, kind = cell.logger, logger_kind(cell.logger)
    if kind is None:
        return []
    arguments = {key: value for key, value in settings.items() if key not in OURS}
    known: dict[str, Any] = {}
    if kind == "WandbLogger":
        known = _wandb(cell, settings)
    elif kind == "MLFlowLogger":
        known = _mlflow(cell, settings, folder)
    logger = make(arguments, Logger, save_dir=str(folder), **known)
    science = cell.science
    model = science["model"] | {"layers": json.dumps(science["model"]["layers"])}  # as text, for any logger
    logger.log_hyperparams(science | {"model": model, "run_id": cell.run_id, "point": cell.point})
    return [logger]


@contextmanager
def loggers_of(cell: Cell, folder: Path) -> Iterator[list[Logger]]:
    """Make the cell's logger, none for csv; it writes under `folder`, unless its settings name another place.

    W&B's run is finished here, which uploads the rest: a worker process exits without W&B's exit hooks.
    """
    loggers, code = _made(cell, folder), 1
    try:
        yield loggers
        code = 0
    finally:
        for logger in loggers:
            if isinstance(logger, WandbLogger):
                logger.experiment.finish(exit_code=code)


def _group(cell: Cell, settings: Mapping[str, Any]) -> str:
    return settings.get("group") or cell.point


def _tags(cell: Cell, settings: Mapping[str, Any]) -> list[str]:
    return [cell.mixer, cell.choices["task"], *(settings.get("tags") or [])]


def _wandb(cell: Cell, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": cell.run_id,
        "id": cell.run_id,
        "resume": "allow",
        "group": _group(cell, settings),
        "tags": _tags(cell, settings),
    }


def _mlflow(cell: Cell, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return MLflow's arguments; it names runs itself, so an earlier attempt's run is found by its tag."""
    from mlflow.tracking import MlflowClient

    uri = settings.get("tracking_uri")
    if uri is None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # else files are refused since MLflow 3.7
        uri = f"file:{folder.resolve() / 'mlruns'}"
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(settings["experiment_name"])
    where = [experiment.experiment_id] if experiment else []
    earlier = client.search_runs(where, f"tags.`{ONE_RUN}` = '{cell.run_id}'", max_results=1) if where else []
    tags = {ONE_RUN: cell.run_id, "group": _group(cell, settings), "tags": " ".join(_tags(cell, settings))}
    return {
        "tracking_uri": uri,
        "run_name": cell.run_id,
        "run_id": earlier[0].info.run_id if earlier else None,
        "tags": tags,
    }
