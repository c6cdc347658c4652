"""zoo: what can a fixed-size memory recall?"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def begins(package: str) -> None:
    """Let Ctrl-C end `python -m package.command` without a traceback while it imports, which takes seconds.

    For the first line of a package.  `terminal.command` and `interrupts` listen from then on."""
    named = any(word.split(".")[0] == package for word in sys.orig_argv)
    if not named or sys.argv[:1] != ["-m"]:
        return
    if not _has_place():
        print("the current folder has been deleted: cd to one that exists.", file=sys.stderr)
        sys.exit(2)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _has_place() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


begins(__name__)


PARTS = ("bench", "blocks", "config", "evaluation", "kernels", "mixers", "model", "results", "tasks")


def __getattr__(name: str) -> Any:
    """Import `zoo.load` and the parts of zoo when they are asked for: they need torch."""
    if name == "load":
        return import_module("zoo.evaluation.trained").load
    if name in PARTS:
        return import_module(f"zoo.{name}")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(["__version__", "load", *PARTS])
