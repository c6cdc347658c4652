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

from zoo import command, results
from zoo.attempt import CellFailed, run_cell
from zoo.config import Composer
from zoo.disk import DiskFull
from zoo.display import CellDisplay, console
from zoo.help import help_text
from zoo.paths import CONF
from zoo.sweep import SweepFailed, checked
from zoo.validate import Validator


def main() -> int:
    """Run what the command line asks for; the exit code says how it went.

    0: all done.  1: a cell failed, or the disk is full.  2: the command cannot be run, and nothing was.
    130, 143: interrupted by Ctrl-C, by SIGTERM.
    """
    with interrupts.attended():
        try:
            return _uninterrupted()
        except KeyboardInterrupt as stop:
            code = command.TERMINATED if isinstance(stop, interrupts.Terminated) else command.INTERRUPTED
            return command.say("interrupted; the same command goes on where this one stopped", code)


def _uninterrupted() -> int:
    """Every other way that a command ends, in words and as a code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come through, to be said in one line
    words = command.readable(sys.argv[1:])
    args = get_args_parser().parse_args(words)
    try:
        if args.help:
            print(help_text(command.composer_of(args), args.overrides, console().width))
            return command.OK
        with interrupts.at_once():
            sys.argv = [sys.argv[0], *command.one_cell(args, command.deferred(args, words))]
            _hydra(args)
    except (HydraException, yaml.YAMLError) as error:
        return command.say(command.mistakes(args, error), command.USAGE)
    except ValueError as error:
        return command.say(str(error), command.USAGE)
    except CellFailed as error:
        return command.say(
            f"failed: {error.reason}\nthe traceback: {error.cell.folder / 'error.txt'}", command.FAILED
        )
    except SweepFailed:
        return command.FAILED
    except DiskFull as error:
        return command.say(str(error), command.FAILED)
    return command.OK


def _hydra(args: Namespace) -> None:
    """Hydra parses, composes and, with -m, sweeps; `one` runs a single cell."""

    errors: list[Exception] = []

    def one(cfg: DictConfig) -> None:
        del cfg  # composed again below, with the checks that every cell goes through
        try:
            run_one(command.composer_of(args), HydraConfig.get().overrides.task)
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
    results.check_writable(cell.folder.parent)
    was_done = results.is_done(cell.folder)
    with CellDisplay(cell) as display:
        record = run_cell(cell, display.progress)
    display.report(record, was_done)


if __name__ == "__main__":
    sys.exit(main())
