"""Locate conf/ and sweeps/: beside the package in a checkout, inside it once installed."""

from contextvars import ContextVar
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _data_folder(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


CONF = _data_folder("conf")
SWEEPS = _data_folder("sweeps")
SWEEPS_PATH = f"zoo-sweeps://{SWEEPS}"  # on Hydra's search path
# --config-dir, while Hydra builds its search path
USER_CONF: ContextVar[Path | None] = ContextVar("USER_CONF", default=None)


def check_config_dir(folder: Path | str | None) -> None:
    """Refuse a --config-dir that is no folder, with a ValueError of one line."""
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"--config-dir (={folder}) must be a folder with yamls of your own.")


def yamls_of(group: str, own: Path | str | None = None) -> dict[str, Path]:
    """Return name -> yaml of a group; a yaml in the user's folder `own` replaces ours of the same name."""
    folders = [CONF] if own is None else [CONF, Path(own)]
    return {path.stem: path for folder in folders for path in sorted((folder / group).glob("*.yaml"))}
