"""The process around a training: threads, random state and log messages, all put back afterwards."""

import ctypes
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


@contextmanager
def surroundings(threads: int) -> Iterator[None]:
    """Inside: so many CPU threads, Lightning silent.  Outside nothing has moved, but `keep_freed_memory`."""
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
            # torch's, on an optimizer that a CUDA graph can hold and that runs without one, as in its warm-up
            warnings.filterwarnings("ignore", message=".*constructed with capturable=True")
            yield
    finally:
        torch.set_num_threads(before)
        log.setLevel(level)


def keep_freed_memory() -> None:
    """Let glibc reuse large blocks that were freed; for the rest of the process.

    By default it hands each back to the system, and a step pays again for every page of every tensor above
    some 100 kB: up to a third of its time at d_model 64.  Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return
    mallopt(M_MMAP_THRESHOLD, 2**30)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
