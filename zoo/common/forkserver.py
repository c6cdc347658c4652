"""Start a process that others are forked from, so that what they import is imported once."""

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from zoo.common import interrupts


def start(modules: Sequence[str]) -> ForkServerContext:
    """Start a server that has imported `modules`; return the context of the processes that come from it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*modules])
    with interrupts.unheard(signal.SIGINT):  # it would end with a traceback while it imports
        forkserver.ensure_running()
    return context
