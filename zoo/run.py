"""The entry: `python -m zoo.run mixer=based d_model=128` runs a cell, `-m` every cell of a grid."""

import os
import sys
from argparse import Namespace

from zoo import interrupts

if __name__ == "__main__":
    interrupts.begin()

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig

from zoo import terminal
from zoo.config import command_line
from zoo.config.compose import Composer
from zoo.config.help import help_text
from zoo.config.paths import CONF
from zoo.launch import rerun
from zoo.launch.display import CellDisplay
from zoo.launch.preflight import Validator
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.launch.sweep import SweepFailed, checked
from zoo.results import store
from zoo.results.atomic import DiskFull
from zoo.results.source import other_source
from zoo.terminal import console


def main() -> int:
    """Run what the command line asks for; the exit code says how it went.

    0: all done.  1: a cell failed, or the disk is full.  2: the command cannot be run, and nothing was.
    130, 143: interrupted by Ctrl-C, by SIGTERM.
    """
    with interrupts.attended():
        try:
            return _uninterrupted()
        except KeyboardInterrupt as stop:
            code = terminal.TERMINATED if isinstance(stop, interrupts.Terminated) else terminal.INTERRUPTED
            return terminal.say("interrupted; the same command goes on where this one stopped", code)


def _uninterrupted() -> int:
    """Every other way that a command ends, in words and as a code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come through, to be said in one line
    words = command_line.readable(sys.argv[1:])
    args = get_args_parser().parse_args(words)
    try:
        if args.help:
            print(help_text(command_line.composer_of(args), args.overrides, console().width))
            return terminal.OK
        with interrupts.at_once():
            sys.argv = [sys.argv[0], *command_line.one_cell(args, command_line.deferred(args, words))]
            _hydra(args)
    except (HydraException, yaml.YAMLError) as error:
        return terminal.say(command_line.mistakes(args, error), terminal.USAGE)
    except ValueError as error:
        return terminal.say(str(error), terminal.USAGE)
    except CellFailed as error:
        return terminal.say(
            f"failed: {error.reason}\nthe traceback: {error.cell.folder / 'error.txt'}", terminal.FAILED
        )
    except SweepFailed:
        return terminal.FAILED
    except DiskFull as error:
        return terminal.say(str(error), terminal.FAILED)
    return terminal.OK


def _hydra(args: Namespace) -> None:
    """Hydra parses, composes and, with -m, sweeps; `one` runs a single cell."""

    errors: list[Exception] = []

    def one(cfg: DictConfig) -> None:
        del cfg  # composed again below, with the checks that every cell goes through
        try:
            run_one(command_line.composer_of(args), HydraConfig.get().overrides.task)
        except (ValueError, CellFailed, DiskFull) as error:
            errors.append(error)  # past Hydra, which would print it its own way

    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(one)()
    if errors:
        raise errors[0]


def run_one(composer: Composer, overrides: list[str]) -> None:
    """Check, run and show one cell.  ValueError: it cannot run; CellFailed: it raised."""
    cell = composer.cell(overrides)
    wrong = checked(cell, Validator())
    if wrong:
        raise ValueError("\n".join(wrong))
    store.check_writable(cell.folder.parent)
    rerun.prepare(cell)
    was_done = store.is_done(cell.place) and not cell.rerun
    with CellDisplay(cell) as display:
        record = run_cell(cell, display.progress)
    rerun.adopt([cell])
    display.report(record, was_done)
    if was_done and (said := other_source([(record, cell.config)])):
        display.console.print(said, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
