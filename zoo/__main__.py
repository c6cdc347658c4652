"""`zoo COMMAND ...`, and `python -m zoo COMMAND ...`: every command of zoo and analysis by its name.

In a checkout analysis is a package of its own at the top; in a wheel it is zoo.analysis.
"""

import runpy
import sys
from importlib.util import find_spec
from typing import NoReturn

from zoo.common.checks import unknown
from zoo.common.terminal import OK, USAGE, command, say

COMMANDS = {
    "run": ("zoo", "train a cell, or a sweep with -m"),
    "plan": ("zoo", "say what a sweep would train: cells, states, time"),
    "status": ("zoo", "say how a results folder stands"),
    "evaluate": ("zoo", "ask trained cells further questions"),
    "collect": ("zoo.results", "gather the records of several folders into one"),
    "archive": ("zoo.results", "pack finished cells into one file"),
    "mixers": ("zoo", "list the mixers and their states"),
    "tasks": ("zoo", "list, show and check tasks"),
    "kernels": ("zoo", "say which kernels this machine takes"),
    "bench": ("zoo", "measure speed"),
    "pareto": ("analysis", "draw accuracy against state"),
    "report": ("analysis", "write one page to explore results in"),
    "figures": ("analysis", "draw published figures beside ours, and other pictures"),
    "statistics": ("analysis", "print what the points say together, as tables"),
    "claims": ("analysis", "test claims that were written before a sweep"),
    "state_bits": ("analysis", "say how many bits a state needs: frontier, claims, predictions"),
    "expected": ("analysis", "hold results against expected numbers"),
    "quotes": ("analysis", "compute again the numbers that pages quote"),
    "atlas": ("analysis", "write the page of what each memory can do"),
    "recall_gap": ("analysis", "set recall beside what a text model loses"),
}


def script() -> NoReturn:
    """Run what `zoo` is called with, and exit as it does."""
    command(main)


def main() -> int:
    """Run one command as `python -m` would; 2 where there is no such command."""
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word in ("-h", "--help"):
        lines = [f"  {word:<12}{does}" for word, (_, does) in COMMANDS.items()]
        print("\n".join(["usage: zoo COMMAND ...   (`zoo COMMAND --help` says more)", "", *lines]))
        return OK
    if word not in COMMANDS:
        return say(f"{unknown('command', word, COMMANDS)}  `zoo --help` lists them.", USAGE)
    sys.argv = sys.argv[1:]
    runpy.run_module(f"{_package(COMMANDS[word][0])}.{word}", run_name="__main__", alter_sys=True)
    return OK


def _package(name: str) -> str:
    """Return the package of a command as it is installed here."""
    inside = f"zoo.{name}"
    return inside if name == "analysis" and find_spec(inside) else name


if __name__ == "__main__":
    command(main)
