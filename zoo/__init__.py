"""zoo: what can a fixed-size memory recall?"""

import signal
import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def begins(package: str) -> None:
    """For the first line of a package: while `python -m package.command` imports, for seconds, Ctrl-C ends it
    without a traceback.  `terminal.command` and `interrupts` listen from then on."""
    named = any(word.split(".")[0] == package for word in sys.orig_argv)
    if named and sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


begins(__name__)


def __getattr__(name: str) -> Any:
    """`zoo.load` (zoo/evaluation/trained.py) needs torch, which `import zoo` alone does not pay for."""
    if name == "load":
        return import_module("zoo.evaluation.trained").load
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")
