"""Train, validate and test one cell."""

from collections.abc import Callable
from pathlib import Path

from zoo.config.cell import Cell
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.training.build import build
from zoo.training.callbacks import make_callbacks
from zoo.training.learner import Learner, fit, test
from zoo.training.loggers import loggers_of
from zoo.training.process import prepare
from zoo.training.resume import resume
from zoo.training.runs import Runs
from zoo.training.single_step import SingleStep
from zoo.training.truth import check_run


def train(cell: Cell, folder: Path, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Train the cell, from `folder`/last.ckpt if it is there; write that file and metrics.csv.

    An Outcome means that training and the test ran to their end, or that the loss stopped being finite.
    Raises ValueError (a machine that lacks what the cell asks for, a damaged checkpoint; before any step) and
    KeyboardInterrupt (Ctrl-C or SIGTERM; the checkpoint holds the last step, where the next call goes on).
    """
    with prepare(cell) as choice:
        run = build(cell, folder, report)
        resume(run)
        check_run(run)
        run.callbacks = make_callbacks(cell)
        runs, step = Runs([run]), SingleStep(run)
        with loggers_of(cell, folder) as run.loggers:
            learner = Learner(runs, step, choice)
            fit(learner)
            test(learner)
        learner.conclude()
    assert run.outcome is not None
    return run.outcome
