"""Prepare the process that trains: device, kernels, threads, random state and log messages."""

import ctypes
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from zoo.config.cell import Cell
from zoo.kernels.choice import Choice, kernels, lacking
from zoo.training.step import uncompilable

NO_CUDA = "trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


@contextmanager
def prepare(cell: Cell) -> Iterator[Choice]:
    """Make the process ready to train the cell while the context lasts; yield the record of kernels that run.

    ValueError: this machine, which may not be the one that planned the job, lacks what the cell asks for.
    """
    with surroundings(cell.trainer.threads):
        if missing := unavailable(cell):
            raise ValueError(missing)
        with kernels(cell.kernels) as choice:
            yield choice


def unavailable(cell: Cell) -> str | None:
    """Return what this machine lacks for the cell, in one line; None: nothing."""
    if cell.trainer.device == "cuda" and not torch.cuda.is_available():
        return NO_CUDA
    return lacking(cell.kernels) or (uncompilable() if cell.trainer.step == "compile" else None)


@contextmanager
def surroundings(threads: int) -> Iterator[None]:
    """Set the CPU threads and silence Lightning inside the context; `keep_freed_memory` outlasts it."""
    log, before = logging.getLogger("pytorch_lightning"), torch.get_num_threads()
    level = log.level
    log.setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            # Lightning's advice on data loaders and loggers, and its use of what torch has since deprecated
            warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
            warnings.filterwarnings("ignore", message=".*LeafSpec.*")
            # torch's, when an optimizer made for a CUDA graph runs outside of one, as in its warm-up
            warnings.filterwarnings("ignore", message=".*constructed with capturable=True")
            yield
    finally:
        torch.set_num_threads(before)
        log.setLevel(level)


def now(device: str, threads: int) -> float:
    """Read the clock in seconds, once the device has finished; with one CPU thread the process's own clock,
    which no other process delays."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.process_time() if device == "cpu" and threads == 1 else time.perf_counter()


def keep_freed_memory() -> None:
    """Let glibc reuse large freed blocks, for the rest of the process.

    By default glibc returns each block to the system, and a step pays again for every page of every tensor
    above some 100 kB: up to a third of its time at d_model 64.  Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return
    mallopt(M_MMAP_THRESHOLD, 2**30)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
