"""Build a user's own Lightning callbacks (`trainer.callbacks`), which run beside our loop."""

from typing import Any

from pytorch_lightning import Callback, callbacks

from zoo.common.checks import reason
from zoo.config.arguments import mistakes
from zoo.config.cell import Cell
from zoo.config.targets import check, make, target

INSTEAD = {
    callbacks.ProgressBar: "zoo has its own display",
    callbacks.BatchSizeFinder: "set optim.batch_size",
    callbacks.GradientAccumulationScheduler: "set optim.batch_size",
    callbacks.LearningRateFinder: "sweep lr, and validation rows choose",
    callbacks.LearningRateMonitor: "it needs a logger of Lightning's, and optim.schedule says the rates",
    callbacks.StochasticWeightAveraging: "it cannot be copied into a checkpoint",
}


def make_callbacks(cell: Cell) -> list[Callback]:
    """Build each callback.  ValueError, one line: a wrong name or settings, or a conflict with the cell."""
    targets = cell.trainer.callbacks
    if targets and cell.population not in (1, "auto"):
        raise ValueError(
            f"trainer.callbacks see one cell in a process, population (={cell.population}) has more: "
            "use population=1."
        )
    every = cell.optim.check_val_every_n_epoch
    if targets and every != 1:
        raise ValueError(
            "trainer.callbacks hear of a validation after each epoch, and "
            f"optim.check_val_every_n_epoch (={every}) leaves some out: make it 1."
        )
    return [_made(f"trainer.callbacks[{i}]", dict(settings)) for i, settings in enumerate(targets)]


def _made(path: str, settings: dict[str, Any]) -> Callback:
    check(settings, Callback, path)
    kind = target(settings["_target_"], Callback, path)
    for other, instead in INSTEAD.items():
        if issubclass(kind, other):
            raise ValueError(f"{path} (={settings['_target_']}) cannot be used: {instead}.")
    if wrong := mistakes(path, {key: value for key, value in settings.items() if key != "_target_"}, kind):
        raise ValueError(wrong[0])
    try:
        return make(settings, Callback)
    except Exception as error:  # whatever its constructor raises
        raise ValueError(f"{path} (={settings['_target_']}) cannot be built: {reason(error)}.") from error
