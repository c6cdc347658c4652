"""Submit a batch of cells as jobs: all are checked before any is submitted, and none is submitted twice."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from zoo.common.terminal import counted
from zoo.config.cell import Cell
from zoo.config.compose import Composer
from zoo.launch.display import SweepDisplay
from zoo.launch.slurm import cluster
from zoo.launch.slurm.follow import Part, follow
from zoo.launch.slurm.ledger import Ledger, Tail, ended, share_of
from zoo.launch.slurm.settings import SlurmSettings
from zoo.launch.slurm.share import Share, git, short
from zoo.launch.sweep import SweepFailed, checked_cells, made_otherwise, make_folders, unfinished, waves
from zoo.results import manifest, store
from zoo.results.outcome import Failure


@dataclass(frozen=True)
class Submission:
    """The jobs of one submission.  refused: cells of arrays that sbatch refused after accepting others."""

    ledger: Ledger
    job_ids: list[str]
    parts: list[Part]
    refused: list[Failure]


def run_sweep(composer: Composer, batch: Iterable[Sequence[str]], settings: SlurmSettings) -> None:
    """Submit every cell of the batch that is neither done nor queued, and follow all that are not done.

    ValueError before anything is submitted, a line per mistake.  SweepFailed at the end if a cell failed.
    The same call again follows the jobs that still run, and submits the missing cells.
    """
    settings.check()
    cluster.check_commands()
    cluster.check_partition(settings.partition, settings.timeout_min)
    cells = checked_cells(composer, batch, here=False)
    make_folders(cells)
    settings.check_cells(cells)
    if any(cell.rerun for cell in cells):
        raise ValueError(
            "rerun=true is for hydra/launcher=local: move the old records away, or run it there."
        )
    todo = unfinished(cells)
    parts = list(queued(todo)) if todo else []
    waiting = {run_id for part in parts for run_id in part.cells}
    missing = [cell for cell in todo if cell.run_id not in waiting]
    how = f"{len(waiting)} of them queued already" if waiting else "on SLURM"
    with SweepDisplay(total=len(cells), done=len(cells) - len(todo), how=how, todo=todo) as display:
        display.announce(made_otherwise(cells))
        refused: list[Failure] = []
        for wave in waves(missing):
            starts = {cell.start for cell in wave}
            before = sorted({part.job_id for part in parts if starts & part.cells.keys()})
            made = submit(wave, settings, before)
            announce(display, made, settings, manifest.write(cells))
            parts, refused = parts + made.parts, refused + made.refused
        failures = follow(parts, display, settings.poll_s) if settings.wait else []
    if settings.wait:
        done = [store.read(cell.folder) for cell in cells if store.is_done(cell.folder)]
        display.report(done, failures + refused)
    if failures or refused:
        raise SweepFailed


def queued(cells: Sequence[Cell]) -> Iterator[Part]:
    """Yield the jobs in the queue that will still run some of these cells."""
    wanted = {cell.run_id: cell for cell in cells}
    homes = {cell.folder.parent for cell in cells}
    for job in cluster.jobs():
        share = share_of(job)
        for ledger in (Ledger.read(home, share[0]) for home in homes if share and job.live):
            if ledger is None or share is None:
                continue
            through = ended(Tail(ledger.events(share[1])).new())
            theirs = [i for i in ledger.shares[share[1]] if i in wanted and i not in through]
            if theirs:
                cells_of_it = {run_id: wanted[run_id] for run_id in theirs}
                yield Part(ledger, job.name, share[1], cells_of_it, job_id=job.job_id)


def submit(cells: Sequence[Cell], settings: SlurmSettings, before: Sequence[str] = ()) -> Submission:
    """Submit the cells.  before: ids of jobs that must have ended first.

    ValueError: sbatch accepted none of the jobs.
    """
    flags = settings.flags(cells)
    cluster.check_accepted(flags)
    size = settings.cells_per_job
    groups = [list(cells[i : i + size]) for i in range(0, len(cells), size)]
    revision = git()
    about = {"git_revision": revision[0], "git_clean": revision[1], "settings": settings.recorded()}
    ledger = Ledger.new(cells[0].folder.parent, groups, about)
    shares = [
        Share(group, settings.n_workers, ledger.events(i), Path.cwd(), revision)
        for i, group in enumerate(groups)
    ]
    job_ids: list[str] = []
    parts: list[Part] = []
    for array in arrays(len(shares), settings):
        try:
            after = [*before] if array.after is None else [*before, job_ids[array.after]]
            job_ids.append(_submit_array(ledger, shares, array, after, flags, settings))
        except (FailedJobError, FailedSubmissionError) as error:
            return _stopped(ledger, shares, job_ids, parts, cluster.complaint(str(error)) or str(error))
        name = ledger.job_name(array.start)
        parts += [
            Part(ledger, name, i, {c.run_id: c for c in groups[i]}, job_id=job_ids[-1]) for i in array.numbers
        ]
    return Submission(ledger, job_ids, parts, [])


@dataclass(frozen=True)
class Array:
    """One job array: the shares start .. stop-1, at most `at_once` of them at a time."""

    start: int
    stop: int
    at_once: int
    after: int | None  # the array, counted from 0, that must have ended before this one begins

    @property
    def numbers(self) -> range:
        return range(self.start, self.stop)


def arrays(n_shares: int, settings: SlurmSettings) -> list[Array]:
    """Return arrays of about equal size within the site's limit, which together respect n_parallel.

    SLURM limits each array by itself, so each array gets its part of n_parallel; where there are more arrays
    than jobs allowed at once, some arrays wait for others.
    """
    limit = settings.max_array_size or cluster.max_array_size()
    count = -(-n_shares // limit)
    edges = [n_shares * i // count for i in range(count + 1)]
    lanes = min(count, settings.n_parallel or count)
    made = []
    for i in range(count):
        share, extra = divmod(settings.n_parallel or n_shares * lanes, lanes)
        at_once = share + (i % lanes < extra)
        made.append(Array(edges[i], edges[i + 1], at_once, i - lanes if i >= lanes else None))
    return made


def _submit_array(
    ledger: Ledger,
    shares: list[Share],
    array: Array,
    after: Sequence[str],
    flags: dict[str, Any],
    settings: SlurmSettings,
) -> str:
    executor = SlurmExecutor(ledger.folder, max_num_timeout=settings.max_num_timeout)
    executor.update_parameters(
        job_name=ledger.job_name(array.start),
        time=settings.timeout_min,
        setup=settings.setup_lines,
        signal_delay_s=settings.signal_delay_s,
        array_parallelism=array.at_once,
        dependency=f"afterany:{':'.join(after)}" if after else None,
        additional_parameters=flags,
    )
    jobs = executor.submit_array(shares[array.start : array.stop])
    return jobs[0].job_id.partition("_")[0]


def _stopped(
    ledger: Ledger, shares: list[Share], job_ids: list[str], parts: list[Part], why: str
) -> Submission:
    """Handle a refusal of sbatch: an error if nothing was submitted, else the rest counts as refused."""
    if not job_ids:
        shutil.rmtree(ledger.folder)
        raise ValueError(f"SLURM refused the jobs: {why}")
    cells = [cell for share in shares[len(parts) :] for cell in share.cells]
    return Submission(ledger, job_ids, parts, [Failure(cell, f"not submitted: {why}") for cell in cells])


def announce(display: SweepDisplay, made: Submission, settings: SlurmSettings, sweep_ids: list[str]) -> None:
    """Show what was submitted, and how to follow it."""
    revision, clean = git()
    dirty = "" if clean in (True, None) else ", with uncommitted changes: the records say so"
    which = " ".join(made.job_ids)
    lines = [
        f"sweep {' '.join(sweep_ids)}: {counted(len(made.parts), 'job')} submitted ({which})",
        f"code {short(revision)}{dirty}",
        f"logs {made.ledger.folder}",
        f"to cancel: scancel {which}",
    ]
    if made.refused:
        lines.append(
            f"{len(made.refused)} cells are {made.refused[0].reason}; the same command submits them later"
        )
    if not settings.wait:
        lines.append("not waiting for them; the same command with hydra.launcher.wait=true does")
    for line in lines:
        display.console.print(line, markup=False, soft_wrap=True)
