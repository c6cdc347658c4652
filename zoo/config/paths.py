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
    """Refuse a --config-dir that is not laid out like conf/, with a ValueError of one line.

    No yaml in it may have the name of ours: records of the two could not be told apart.
    """
    if folder is None:
        return
    own, rule = Path(folder), f"--config-dir (={folder}) must"
    ours = {path.relative_to(CONF): path for path in CONF.rglob("*.yaml")}
    ours |= {Path("sweep", path.name): path for path in SWEEPS.glob("*.yaml")}
    groups = [own / group for group in sorted({path.parts[0] for path in ours}) if (own / group).is_dir()]
    if not groups:
        raise ValueError(f"{rule} be a folder with yamls of your own in mixer/, task/ or the like.")
    for path in sorted(path for group in groups for path in group.glob("*.yml")):
        raise ValueError(f"{rule} hold files that end on .yaml: rename {path}.")
    for name, path in ours.items():
        if (own / name).exists() and not path.samefile(own / name):
            raise ValueError(f"{rule} not reuse the name of a yaml of zoo, {path}: rename {own / name}.")


def yamls_of(group: str, own: Path | str | None = None) -> dict[str, Path]:
    """Return name -> yaml of a group: ours, and those in the user's folder `own`, which is checked first."""
    check_config_dir(own)
    folders = [CONF] if own is None else [CONF, Path(own)]
    return {path.stem: path for folder in folders for path in sorted((folder / group).glob("*.yaml"))}
