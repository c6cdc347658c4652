"""Do the first steps of a command, while its package is imported."""

import os
import signal
import sys


def begins(package: str) -> None:
    """Let Ctrl-C end `python -m package.command` without a traceback while it imports, which takes seconds.

    Call this in the first line of a package.  `terminal.command` and `interrupts` handle Ctrl-C later on."""
    named = any(word.split(".")[0] == package for word in sys.orig_argv)
    if not named or sys.argv[:1] != ["-m"]:
        return
    try:
        os.getcwd()
    except OSError:
        print("the current folder has been deleted: cd to one that exists.", file=sys.stderr)
        sys.exit(2)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
