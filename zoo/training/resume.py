"""Continue a cell that is built from its checkpoint, or give it the weights that it starts from."""

from zoo.model.recipe import adapt
from zoo.training import checkpoint, initial_weights
from zoo.training.runs import CHECKPOINT, Run
from zoo.training.train_state import Position


def resume(run: Run) -> Run:
    """Put the run at the position of its checkpoint, or give it the weights that it starts from.

    ValueError: the checkpoint is damaged or another cell's, or the start's weights are missing or damaged.
    """
    cell = run.cell
    saved = checkpoint.load(run.folder / CHECKPOINT, cell.run_id)
    if saved is not None:
        run.position, run.optimizer_state = Position(**saved["position"]), saved["optimizer"]
    elif cell.start:
        run.position.fresh = initial_weights.load(cell, run.model)
    if cell.adaptation:
        adapt(run.model, cell.adaptation, cell.seed, run.position.fresh)
    if saved is not None:
        run.model.load_state_dict(saved["model"])
        run.report_progress(f"resumed at step {run.position.step}")
    elif cell.start:
        fresh = ", ".join(run.position.fresh)
        run.report_progress(f"started from {cell.start}{f', fresh: {fresh}' if fresh else ''}")
    return run
