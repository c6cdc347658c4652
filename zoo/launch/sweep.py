"""Run many cells on one machine: all are checked before any starts, and no done cell runs again."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from zoo.common import forkserver
from zoo.config.cell import Cell
from zoo.config.compose import Composer
from zoo.config.words import parse
from zoo.launch import rerun
from zoo.launch.cards import cards, on_gpu
from zoo.launch.display import SweepDisplay
from zoo.launch.grouping import in_words
from zoo.launch.preflight import Validator
from zoo.launch.process_pool import OUTPUT, PRELOADED, Pool
from zoo.results import lease, manifest, store
from zoo.results.outcome import Failure
from zoo.results.source import other_source, source


class SweepFailed(Exception):
    """Some cells failed; the display has named them."""


def run_sweep(composer: Composer, batch: Iterable[Sequence[str]], n_workers: int | str) -> None:
    """Run every cell of the batch that is not done, n_workers at once, and print how they went.

    Raises ValueError before anything starts, with a line for each mistake; SweepFailed at the end if a cell
    failed; DiskFull at once.  The same call again runs the cells that are missing.
    """
    context = forkserver.start(PRELOADED)  # first, since it imports while the cells are checked
    cells = checked_cells(composer, batch, here=True)
    workers = count(n_workers, cells)
    make_folders(cells)
    todo = unfinished(cells)
    if todo:
        manifest.write(cell for cell in cells if not cell.rerun)
    how = ", ".join(filter(None, (f"{workers} at once", in_words(todo, workers))))
    shown = SweepDisplay(total=len(cells), done=len(cells) - len(todo), how=how, todo=todo)
    with shown as display:
        display.announce(made_otherwise(cells))
        failures = _in_order(todo, lambda cells: Pool(context, workers, display).run(cells), display)
    if not failures:
        rerun.adopt(cells)
    done = [store.read(folder) for cell in cells if store.is_done(folder := newest(cell))]
    display.report(done, failures)
    if failures:
        raise SweepFailed


def _in_order(
    todo: Sequence[Cell], run: Callable[[list[Cell]], list[Failure]], display: SweepDisplay
) -> list[Failure]:
    """Run the cells that others start from first; where one of them fails, its dependents fail too."""
    failures: list[Failure] = []
    for wave in waves(todo):
        failed = {failure.cell.run_id for failure in failures}
        failures += [_lost(cell, display) for cell in wave if cell.start in failed]
        failures += run([cell for cell in wave if cell.start not in failed])
    return failures


def _lost(cell: Cell, display: SweepDisplay) -> Failure:
    lost = Failure(cell, f"{cell.start}, which it starts from, failed")
    store.fail(cell.folder, f"{lost.reason}\n")
    display.started(cell)
    display.failed(cell, lost.reason)
    return lost


def waves(todo: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells in groups, whose cells start from done cells or from cells of an earlier group."""
    names, groups = {cell.run_id for cell in todo}, dict[int, list[Cell]]()
    for cell in todo:
        depth = sum(other.run_id in names for other in cell.lineage[:-1])
        groups.setdefault(depth, []).append(cell)
    return [groups[depth] for depth in sorted(groups)]


def newest(cell: Cell) -> Path:
    """Return the folder of the cell's newest record: the new one, if it has not yet replaced the old."""
    return cell.folder if store.is_done(cell.folder) else cell.place


def made_otherwise(cells: Iterable[Cell]) -> str | None:
    """Return a line about done cells that other source code made and that are not to run again."""
    done = [cell for cell in cells if not cell.rerun and store.is_done(cell.folder)]
    note = other_source([(store.read(cell.folder), cell.config) for cell in done])
    return note and f"{note}; rerun=true runs them again"


def make_folders(cells: Sequence[Cell]) -> None:
    """Make the results folders of the cells, and prepare the cells that are to run again."""
    for folder in {cell.folder.parent for cell in cells}:
        store.check_writable(folder)
    for cell in cells:
        rerun.prepare(cell)


def checked_cells(composer: Composer, batch: Iterable[Sequence[str]], here: bool) -> list[Cell]:
    """Return the distinct cells of a batch, all checked, each after the cells that it starts from.

    Nothing is written.  ValueError lists every mistake.
    here: the cells run on this machine, which then must have the device that they ask for.
    """
    cells, first = dict[str, Cell](), dict[str, tuple[Cell, Sequence[str]]]()  # first: of each run id
    wrong: dict[str, list[str]] = {}
    validator = Validator()
    for overrides in batch:
        try:
            lineage = composer.cell(overrides).lineage
            mistakes = next((errors for cell in lineage if (errors := checked(cell, validator, here))), [])
            one = lineage[-1], overrides
            mistakes = mistakes or _one_lost(*first.setdefault(one[0].run_id, one), *one)
        except ValueError as error:
            mistakes = str(error).splitlines()
        else:
            cells |= {cell.run_id: cell for cell in lineage if cell.run_id not in cells}
        for mistake in mistakes:
            wrong.setdefault(mistake, []).append(" ".join(overrides))
    if wrong:
        raise ValueError("\n".join(f"{mistake} [{_cells(which)}]" for mistake, which in wrong.items()))
    return list(cells.values())


def _one_lost(first: Cell, words: Sequence[str], cell: Cell, others: Sequence[str]) -> list[str]:
    """Return a line if a cell has the run id of an earlier one, but would run otherwise or elsewhere."""
    if (first.config, first.rerun) == (cell.config, cell.rerun):
        return []
    keys = ", ".join(dict.fromkeys(parse(word).key_or_group for word in others if word not in words))
    return [f"{keys} must have one value in a sweep, as no run id tells it: give a command for each value."]


def checked(cell: Cell, validator: Validator, here: bool = True) -> list[str]:
    """Return the problems of a cell and, if `here`, of this machine.  ValueError: its folder is damaged."""
    errors = validator.problems(cell) or _refused(cell, here)
    if not errors:
        _check_folder(cell)
    return errors


def _check_folder(cell: Cell) -> None:
    folder = cell.folder
    try:
        store.check_place(folder)
        store.check_checkpoint(folder, None if cell.rerun else source(cell.config))  # rerun starts over
        if store.is_done(folder):
            store.read(folder)
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be read ({error.strerror}): give another with results=FOLDER."
        ) from None


def _refused(cell: Cell, here: bool) -> list[str]:
    """Check the cell that this one starts from, and the device of this machine."""
    from zoo.training.initial_weights import refusal  # torch: seconds, which a misspelt word should not cost
    from zoo.training.process import unavailable

    wrong = refusal(cell) or (unavailable(cell) if here else None)
    return [wrong] if wrong else []


def _cells(which: list[str]) -> str:
    return which[0] if len(which) == 1 else f"{len(which)} cells; the first: {which[0]}"


def unfinished(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells without a record, and delete what a kill at the very end left beside a record."""
    todo: list[Cell] = []
    for cell in cells:
        if store.is_done(cell.folder):
            _tidy(cell.folder)
        else:
            todo.append(cell)
    return todo


def _tidy(folder: Path) -> None:
    left = {OUTPUT, "error.txt", *(name for name in os.listdir(folder) if name.endswith(".part"))}
    if lease.holder(folder):
        return
    lease.forget(folder)
    for name in left:
        (folder / name).unlink(missing_ok=True)


def count(n_workers: int | str, cells: Sequence[Cell]) -> int:
    """Return how many cells run at once; "auto": one per GPU if cells train on GPUs, else cores / threads."""
    if n_workers == "auto" and any(map(on_gpu, cells)):
        return max(1, len(cards()))
    if n_workers == "auto":
        threads = max((cell.trainer.threads for cell in cells), default=1)
        return max(1, len(os.sched_getaffinity(0)) // threads)
    if type(n_workers) is not int or n_workers < 1:
        raise ValueError(f"hydra.launcher.n_workers (={n_workers}) must be a positive integer or auto.")
    return n_workers
