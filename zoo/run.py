"""The entry: `python -m zoo.run mixer=based d_model=128` runs a cell, `-m` every cell of a grid."""

import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from types import FrameType
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig

from zoo import results
from zoo.attempt import CellFailed, run_cell
from zoo.config import Composer, composer, first_line, parse
from zoo.display import CellDisplay
from zoo.outcome import Terminated
from zoo.paths import CONF
from zoo.sweep import SweepFailed, checked
from zoo.validate import Validator

OK, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def main() -> int:
    """Run what the command line asks for; the exit code says how it went.

    0: all done.  1: a cell failed.  2: the command cannot be run, and nothing was.  130, 143: interrupted.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _attended()
    finally:
        signal.signal(signal.SIGTERM, before)


def _attended() -> int:
    """Every way that a command ends, in words and as a code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come through, to be said in one line
    args = get_args_parser().parse_args()
    try:
        sys.argv = [sys.argv[0], *_deferred(args, sys.argv[1:])]
        _hydra(args)
    except HydraException as error:
        return _say("\n".join(_mistakes(args) or [first_line(error)]), USAGE)
    except ValueError as error:
        return _say(str(error), USAGE)
    except CellFailed as error:
        return _say(f"failed: {error.reason}\nthe traceback: {error.cell.folder / 'error.txt'}", FAILED)
    except SweepFailed:
        return FAILED
    except KeyboardInterrupt as stop:
        code = TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
        return _say("interrupted; the same command goes on where this one stopped", code)
    return OK


def _hydra(args: Namespace) -> None:
    """Hydra parses, composes and, with -m, sweeps; `one` runs a single cell."""

    errors: list[Exception] = []

    def one(cfg: DictConfig) -> None:
        del cfg  # composed again below, with the checks that every cell goes through
        try:
            run_one(_composer(args), HydraConfig.get().overrides.task)
        except (ValueError, CellFailed) as error:
            errors.append(error)  # past Hydra, which would print it its own way

    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(one)()
    if errors:
        raise errors[0]


def run_one(composer: Composer, overrides: list[str]) -> None:
    """Check, run and show one cell.  ValueError: it cannot run; CellFailed: it raised."""
    cell = composer.cell(overrides)
    mistakes = checked(cell, Validator())
    if mistakes:
        raise ValueError("\n".join(mistakes))
    results.check_writable(cell.folder.parent)
    was_done = results.is_done(cell.folder)
    with CellDisplay(cell) as display:
        record = run_cell(cell, display.progress)
    display.report(record, was_done)


def _composer(args: Namespace) -> Composer:
    return composer(Path(args.config_dir) if args.config_dir else None)


def _mistakes(args: Namespace) -> list[str]:
    """Our own words for what Hydra refused."""
    try:
        swept = [line for line in args.overrides if parse(line).is_sweep_override()]
    except HydraException as error:
        return [first_line(error)]
    if swept and not args.multirun:
        return [f"{line} names several values: add -m to run a cell for each." for line in swept]
    return _composer(args).mistakes(args.overrides)


def _deferred(args: Namespace, argv: list[str]) -> list[str]:
    """With mixer=a,b swept, make mixer.window=8 a sweep over one value.

    Otherwise Hydra would look for the key in the default mixer, before it knows which are swept.
    """
    if not args.multirun:
        return argv
    parsed = {line: parse(line) for line in args.overrides}
    swept = {o.key_or_group for o in parsed.values() if o.is_sweep_override()}
    late = {
        line
        for line, o in parsed.items()
        if o.key_or_group.split(".")[0] in swept and "." in o.key_or_group and not o.is_sweep_override()
    }
    return [_as_sweep(line) if line in late else line for line in argv]


def _as_sweep(line: str) -> str:
    key, value = line.split("=", 1)
    return f"{key}=choice({value})"


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _terminate(signum: int, frame: FrameType | None) -> Any:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
