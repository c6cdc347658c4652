"""The command that makes a cell again."""

import shlex
from collections.abc import Iterable

LEFT_OUT = ("results", "logger", "hydra")  # where and how it ran, not what


def command(overrides: Iterable[str], config_dir: str = "") -> str:
    """`python -m zoo.run` with the words of a record, quoted for a shell; without folders and loggers.

    config_dir: the folder of the user's own yamls, whose mixer Python finds from where this is typed.
    """
    folder = ["--config-dir", config_dir] if config_dir else []
    words = [*folder, *(word for word in overrides if not _is_local(word))]
    return " ".join(["PYTHONPATH=. " * bool(folder) + "python -m zoo.run", *map(shlex.quote, words)])


def _is_local(word: str) -> bool:
    key = word.lstrip("+~").split("=", 1)[0]
    return key in LEFT_OUT or key.startswith(tuple(f"{name}{sign}" for name in LEFT_OUT for sign in "./"))
