"""Read the key=value words of a command, and report each mistake in one line."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from zoo.common.checks import unknown
from zoo.config.changes import yaml_mistake
from zoo.config.compose import Composer, composer
from zoo.config.grids import cells
from zoo.config.words import first_line, nameless, parse

SWEEPER = "hydra_plugins.zoo_plugins.grid.GridSweeper"
LAUNCHER = "hydra/launcher"
PARTS = ("axes", "grids", "exclude")
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
FLAGS: dict[str, dict[str, Any]] = {
    "--multirun -m": {"action": "store_true"},
    "--config-dir -cd": {},
    "--cfg -c": {"choices": ("job", "hydra", "all")},
    "--help -h": {"action": "store_true"},
    "--hydra-help": {"action": "store_true"},
    "--version": {"action": "version", "version": f"Hydra {hydra.__version__}"},
    "--resolve": {"action": "store_true"},
    "--package -p": {},
    "--run -r": {"action": "store_true"},
    "--shell-completion -sc": {"action": "store_true"},
    "--config-path -cp": {},
    "--config-name -cn": {},
    "--experimental-rerun": {},
    "--info -i": {"nargs": "?", "const": "all", "choices": INFO},
}


def readable(argv: Sequence[str]) -> list[str]:
    """Quote the names of folders (~, umlauts, 2024) that Hydra would not read as a word."""
    return [_quoted(word) if word.startswith(("results=", "start=")) else word for word in argv]


def parser() -> ArgumentParser:
    """Build a parser of every flag that Hydra has, with Hydra's own help left to Hydra."""
    made = ArgumentParser(add_help=False)
    made.add_argument("overrides", nargs="*")
    for names, how in FLAGS.items():
        made.add_argument(*names.split(), **how)
    return made


def parsed(words: Sequence[str]) -> Namespace:
    """Parse words as Hydra does, with -m anywhere; `--mixer based` ends the command with exit code 2."""
    args, strange = parser().parse_known_intermixed_args(words)
    if strange:
        name = strange[0].lstrip("-").partition("=")[0]
        print(f"{strange[0]} is no option: a setting has no dashes, {name}=VALUE.", file=sys.stderr)
        sys.exit(2)
    return args


def _quoted(word: str) -> str:
    key, value = word.split("=", 1)
    try:
        read = parse(word)
        if read.is_sweep_override() or not isinstance(read.value(), int | float):
            return word
    except HydraException:
        if value[:1] in ("'", '"'):
            return word
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{text}'"


def composer_of(args: Namespace) -> Composer:
    """Return the composer for a command line, `args` as `parsed` reads it."""
    return composer(Path(args.config_dir) if args.config_dir else None)


def asks_hydra(args: Namespace) -> bool:
    """Return whether Hydra must run: for one of its flags (--cfg, --info), or a hydra word without -m.

    Otherwise cells and sweeps are composed without Hydra's main function, and only once.
    """
    ours = ("overrides", "multirun", "config_dir")
    flags = {key: value for key, value in vars(args).items() if key not in ours}
    others = flags != {key: parser().get_default(key) for key in flags}
    return others or (not args.multirun and any(map(_is_hydras, args.overrides)))


def mistakes(args: Namespace, error: HydraException | yaml.YAMLError) -> str:
    """Explain an error of Hydra in our own words, a line for each mistake."""
    if isinstance(error, yaml.YAMLError):
        return yaml_mistake(error)
    try:
        errors = composer_of(args).mistakes(args.overrides)
        errors = errors or _sweeper_mistakes(composer_of(args).hydras(deferred(args, args.overrides)).sweeper)
    except (HydraException, ValueError) as another:
        return composer_of(args).explained(another, args.overrides)
    return "\n".join(errors) or first_line(error)


def check(args: Namespace) -> None:
    """Raise ValueError, one line, where Hydra would answer with a traceback or in its own words."""
    hydra_flag = next((flag for flag in ("cfg", "info") if getattr(args, flag)), None)
    if args.multirun and hydra_flag:
        raise ValueError(f"--{hydra_flag} shows one cell: leave out -m (zoo.plan lists a sweep's cells).")
    if not any("_target_" in word for word in args.overrides if _is_hydras(word)):
        return
    hydras = composer_of(args).hydras(deferred(args, args.overrides))
    for part in ("sweeper", "launcher"):
        name = str(hydras[part].get("_target_"))
        if not name.startswith(("hydra_plugins.", "hydra._internal.core_plugins.")):
            raise ValueError(
                f"hydra.{part}._target_ (={name}) must name a plugin of Hydra: hydra_plugins.MODULE.CLASS."
            )


def _sweeper_mistakes(sweeper: DictConfig) -> list[str]:
    """Return a line for each key of a sweep file that no sweep has."""
    if sweeper.get("_target_") != SWEEPER:
        return []
    known = [f"hydra.sweeper.{part}" for part in PARTS]
    return [unknown("key", f"hydra.sweeper.{k}", known) for k in sweeper if k not in ("_target_", *PARTS)]


def spanned(composer: Composer, args: Namespace) -> tuple[list[list[str]], DictConfig]:
    """Return the cells that the command line spans, as words, and Hydra's part of the config.

    They are the cells that `python -m zoo.run -m` hands to its launcher (hydra.launcher in that config).
    HydraException or ValueError: see `mistakes`.
    """
    args = Namespace(**vars(args) | {"multirun": True})
    hydras = composer.hydras(deferred(args, args.overrides))
    if hydras.sweeper.get("_target_") != SWEEPER:
        raise ValueError("only hydra/sweeper=grid says beforehand which cells it will run.")
    if wrong := _sweeper_mistakes(hydras.sweeper):
        raise ValueError("\n".join(wrong))
    parts: Any = OmegaConf.to_container(hydras.sweeper, resolve=True)
    words = [line for line in args.overrides if not _is_hydras(line)]
    return cells(parts, words, composer.loader), hydras


def one_cell(args: Namespace, argv: list[str]) -> list[str]:
    """Return the words for Hydra; ValueError: without -m, they do not name exactly one cell."""
    if args.multirun:
        return argv
    swept = [line for line in args.overrides if parse(line).is_sweep_override()]
    if swept:
        lines = (f"{line} names several values: add -m to run a cell for each." for line in swept)
        raise ValueError("\n".join(lines))
    if args.cfg:
        return argv
    # without -m Hydra would run the cell in this process and ignore the launcher
    for line in args.overrides:
        if _key(line) == LAUNCHER and parse(line).value() in composer_of(args).options(LAUNCHER):
            raise ValueError(f"{line} is for sweeps, and one cell would run in this process: add -m.")
    if "sweep" not in map(_key, args.overrides):
        return argv
    matches, _ = spanned(composer_of(args), args)
    exact = [words for words in matches if set(words) == set(args.overrides)]  # as a record's words
    matches = exact[:1] or matches
    if len(matches) > 1:
        name = next(line for line in args.overrides if _key(line) == "sweep")
        raise ValueError(f"{name} is {len(matches)} cells: add -m to run them.")
    return [line for line in argv if line not in args.overrides or _is_hydras(line)] + matches[0]


def deferred(args: Namespace, argv: list[str]) -> list[str]:
    """Turn a setting of a swept group (mixer.window=8) into an axis of one value.

    Otherwise Hydra would look for the key in the default mixer, before it knows the swept ones.
    ValueError: a group without a name, or several values of what is Hydra's.
    """
    for line in args.overrides:
        if wrong := nameless(parse(line)):
            raise ValueError(wrong)
        if _is_hydras(line) and parse(line).is_sweep_override():
            raise ValueError(f"{line} names several values: all cells share it, so give one.")
    if not args.multirun:
        return argv
    swept = {_key(line) for line in args.overrides if parse(line).is_sweep_override()}
    if {"sweep", "experiment"} & set(map(_key, args.overrides)):
        swept.add("mixer")
    late = {
        line
        for line in args.overrides
        if _key(line).partition(".")[0] in swept and "." in _key(line)
        if "=" in line and not parse(line).is_sweep_override()
    }
    return [f"{line.replace('=', '=choice(', 1)})" if line in late else line for line in argv]


def _key(line: str) -> str:
    return parse(line).key_or_group


def _is_hydras(line: str) -> bool:
    return _key(line).startswith(("hydra.", "hydra/"))
