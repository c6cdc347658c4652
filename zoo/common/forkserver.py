"""Start a process from which others are forked, so that their modules are imported only once."""

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from zoo.common import interrupts


def start(modules: Sequence[str]) -> ForkServerContext:
    """Start a server that imports `modules` first; return the context for processes forked from it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*modules])
    with interrupts.unheard(signal.SIGINT):  # or Ctrl-C would end it with a traceback while it imports
        forkserver.ensure_running()
    return context
