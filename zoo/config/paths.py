"""Locate conf/ and sweeps/: beside the package in a checkout, inside it once installed."""

from contextvars import ContextVar
from pathlib import Path

import zoo

_PACKAGE = Path(zoo.__file__).resolve().parent


def _data_folder(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


CONF = _data_folder("conf")
SWEEPS = _data_folder("sweeps")
SWEEPS_PATH = f"zoo-sweeps://{SWEEPS}"  # on Hydra's search path
USER_CONF: ContextVar[Path | None] = ContextVar(
    "USER_CONF", default=None
)  # --config-dir, while Hydra collects its path


def check_config_dir(folder: Path | str | None) -> None:
    """Refuse a --config-dir that is no folder, with a ValueError of one line."""
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"--config-dir (={folder}) must be a folder with yamls of your own.")
