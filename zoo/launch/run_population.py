"""Make one attempt at a population, as `run_cell` does at a cell; each member has a folder and a record."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import yaml

from zoo.common import interrupts
from zoo.common.checks import reason
from zoo.config.cell import Cell
from zoo.config.yaml_text import as_yaml
from zoo.launch.grouping import Apart, Group, Together
from zoo.launch.run_cell import record
from zoo.results import lease, store
from zoo.results.atomic import is_full, room
from zoo.results.environment import machine
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.results.source import with_source

Send = Callable[[tuple[int, Progress] | Together], None]
Report = Callable[[Progress], None]


def run_population(group: Group, send: Send, here: dict[str, Any] | None = None) -> Apart | None:
    """Train and evaluate the cells of `group`, each from its checkpoint if it has one, and record each.

    Members of the population that have ended, or that another process runs, stay as ghosts: their rows are
    computed and not used, so that the numbers of the others stay the same to the last bit.
    None: every member has its record.  Apart: the cells cannot, or should not, train as one; no member has
    lost any progress.  KeyboardInterrupt and DiskFull: as for a cell.
    """
    with room(group.cells[0].folder), ExitStack() as claims:
        free = [i for i, cell in enumerate(group.cells) if _claimed(claims, cell)]
        todo = [i for i in free if not store.is_done(group.cells[i].folder)]
        if len(todo) < len(group.cells):
            rest = tuple((i,) for i in range(len(group.cells)) if i not in free)
            return Apart(((*todo,), *rest) if todo else rest, group.why_alone, continued=bool(group.among))
        try:
            return _train(group, send, here or machine())
        except (Exception, SystemExit) as error:
            if is_full(error):
                raise
            interrupts.check()  # an error with which a library answers an interrupt is no failure
            from zoo.training.population.stack import Unstackable

            raised = f"a population of {len(group.cells)} raised {reason(error)}"
            return _one_by_one(group.cells, str(error) if isinstance(error, Unstackable) else raised)


def _claimed(claims: ExitStack, cell: Cell) -> bool:
    try:
        claims.enter_context(lease.held(cell.folder))
    except lease.Busy:
        return False
    return True


def _one_by_one(cells: Sequence[Any], why: str, ruling: bool = False) -> Apart:
    return Apart(tuple((i,) for i in range(len(cells))), why, ruling)


def _train(group: Group, send: Send, here: dict[str, Any]) -> Apart | None:
    from zoo.training.build import build  # torch and Lightning: seconds
    from zoo.training.population.train import share_streams, train_population
    from zoo.training.population.trial import check_lifts, too_long
    from zoo.training.process import prepare
    from zoo.training.resume import resume
    from zoo.training.truth import check_run

    began, rows = time.perf_counter(), _rows(group)
    live = [row for row, cell in enumerate(rows) if cell in group.cells]
    number = {row: group.cells.index(rows[row]) for row in live}

    def report(row: int) -> Report | None:
        return (lambda at: send((number[row], at))) if row in number else None

    def finished(row: int) -> Callable[[Outcome], None]:
        def finish(outcome: Outcome) -> None:
            whole = {"wall_seconds": time.perf_counter() - began}
            entry = record(rows[row], outcome) | environment[row]
            store.finish(rows[row].folder, entry | {"population": entry["population"] | whole})

        return finish

    environment = [_environment(rows, row, here) for row in range(len(rows))]
    trainer = rows[live[0]].trainer
    with prepare(rows[live[0]]) as choice:
        every = [resume(build(cell, cell.folder, report(i), finished(i))) for i, cell in enumerate(rows)]
        members = [every[row] for row in live]
        check_run(members[0])
        uneven = _uneven(members)
        if uneven:
            return uneven
        share_streams(every)
        hopeless = too_long(members, trainer) if group.to_measure else None
        apart = _one_by_one(members, hopeless, ruling=True) if hopeless else None
        if apart is None:
            check_lifts(members, trainer)
            apart = _measured(members, trainer, send) if group.to_measure else None
        if apart:
            return apart
        choice.ran.clear()
        for row in live:
            store.begin(rows[row].folder, as_yaml(rows[row].config), environment[row])
        train_population(every, choice, live)
    return None


def _rows(group: Group) -> tuple[Cell, ...]:
    """Return the population, one cell a row: the group's cells, and the others as their folders hold them."""
    mine = {cell.run_id: cell for cell in group.cells}
    rows = [mine.get(run_id) or _noted_cell(group.cells[0], run_id) for run_id in group.whole]
    return tuple(row for row in rows if row) if all(rows) else group.cells


def _noted_cell(like: Cell, run_id: str) -> Cell | None:
    """Return the cell of that name beside a cell like it; None: its folder is gone or of another version."""
    path = like.folder.parent / run_id / "config.yaml"
    if not path.exists():
        return None
    cell = replace(like, config=yaml.safe_load(path.read_text()) | {"results": like.results})
    return cell if cell.run_id == run_id else None


def _environment(cells: Sequence[Cell], member: int, here: dict[str, Any]) -> dict[str, Any]:
    others = [cell.run_id for i, cell in enumerate(cells) if i != member]
    population = {"size": len(cells), "member": member, "with": others}
    return cells[member].words | with_source(here, cells[member].config) | {"population": population}


def _uneven(members: Sequence[Any]) -> Apart | None:
    """Split members that a kill left at different steps: members at the same step go on as one."""
    places: dict[tuple[int, bool, bool], list[int]] = {}
    for i, run in enumerate(members):
        position = run.position
        place = (position.step, position.to_validate, position.early_stopped)
        places.setdefault(place, []).append(i)
    if len(places) == 1:
        return None
    why = "it went on from a checkpoint of another step than the cells like it"
    return Apart(tuple(tuple(part) for part in places.values()), why, continued=True)


def _measured(members: Sequence[Any], trainer: Any, send: Send) -> Apart | None:
    from zoo.training.population.trial import fitting, slower

    fit = fitting(members, trainer)
    if fit < len(members):
        parts = [tuple(range(i, min(i + fit, len(members)))) for i in range(0, len(members), fit)]
        return Apart(tuple(parts), f"the memory of the device holds {fit} of them")
    why = slower(members, trainer)
    if why:
        return _one_by_one(members, why, ruling=True)
    send(Together())
    return None
