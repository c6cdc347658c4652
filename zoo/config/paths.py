"""Where conf/ and sweeps/ lie: beside the package in a checkout, inside it once installed."""

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
OWN: ContextVar[Path | None] = ContextVar("OWN", default=None)  # --config-dir, while Hydra collects its path
