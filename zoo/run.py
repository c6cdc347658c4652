"""Run cells: `python -m zoo.run mixer=based d_model=128` runs one cell, `-m` every cell of a grid."""

import os
import sys
from argparse import Namespace

from zoo.common import interrupts

if __name__ == "__main__":
    interrupts.begin()

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig

from zoo.common import terminal
from zoo.common.terminal import console
from zoo.config import command_line
from zoo.config.cell import Cell
from zoo.config.compose import Composer
from zoo.config.help import help_text
from zoo.config.paths import CONF
from zoo.config.yamls import ROOT
from zoo.launch import rerun
from zoo.launch.display import CellDisplay
from zoo.launch.preflight import Validator
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.launch.sweep import SweepFailed, checked
from zoo.results import store
from zoo.results.atomic import DiskFull
from zoo.results.source import other_source


def main() -> int:
    """Run what the command line asks for, and return the exit code.

    0: all done.  1: a cell failed, or the disk is full.  2: the command cannot be run, and nothing has run.
    130, 143: interrupted by Ctrl-C, by SIGTERM.
    """
    terminal.open_streams()
    with interrupts.attended():
        try:
            return _uninterrupted()
        except KeyboardInterrupt as stop:
            code = terminal.TERMINATED if isinstance(stop, interrupts.Terminated) else terminal.INTERRUPTED
            return terminal.say("interrupted; the same command goes on where this one stopped", code)


def _uninterrupted() -> int:
    """Run the command; print its error in one line, and return the exit code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises errors, which are reported here in one line
    words = command_line.readable(sys.argv[1:])
    args = command_line.parsed(words)
    try:
        if args.help:
            print(help_text(command_line.composer_of(args), args.overrides, console().width))
            return terminal.OK
        command_line.check(args)
        with interrupts.at_once():
            _run(args, words)
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
    except OSError as error:
        return terminal.unwritable(error)
    return terminal.OK


def _run(args: Namespace, argv: list[str]) -> None:
    """Run a cell; with -m a sweep, through Hydra's sweeper and launcher; for Hydra's own flags, Hydra."""
    composer, hydra_answers = command_line.composer_of(args), command_line.asks_hydra(args)
    if not (args.multirun or hydra_answers):
        return run_one(composer, command_line.one_cell(args, args.overrides))
    errors: list[Exception] = []

    def one(cfg: DictConfig) -> None:
        del cfg  # the cell is composed again, with the checks of every cell
        try:
            run_one(composer, HydraConfig.get().overrides.task)
        except (ValueError, CellFailed, DiskFull) as error:
            errors.append(error)  # raised below, since Hydra would print the error in its own way

    if hydra_answers:
        sys.argv = [sys.argv[0], *command_line.one_cell(args, command_line.deferred(args, argv))]
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=ROOT)(one)()
    else:
        composer.sweep(command_line.deferred(args, args.overrides), one)
    if errors:
        raise errors[0]


def run_one(composer: Composer, overrides: list[str]) -> None:
    """Check, run and show one cell, after those that it starts from.

    ValueError: it cannot run; CellFailed: it raised."""
    validator, lineage = Validator(), composer.cell(overrides).lineage
    for cell in lineage:
        if wrong := checked(cell, validator):
            raise ValueError("\n".join(wrong))
    for cell in lineage:
        if cell is lineage[-1] or not store.is_done(cell.place):
            _run_checked(cell)


def _run_checked(cell: Cell) -> None:
    store.check_writable(cell.folder.parent)
    rerun.prepare(cell)
    was_done = store.is_done(cell.place) and not cell.rerun
    with CellDisplay(cell, was_done) as display:
        record = run_cell(cell, display.progress)
    rerun.adopt([cell])
    display.report(record)
    if was_done and (warning := other_source([(record, cell.config)])):
        display.console.print(f"{warning}; rerun=true runs it again", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
