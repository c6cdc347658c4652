"""last.ckpt: where a killed cell goes on.  A reader meets a whole one or none."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from zoo.checks import one_line
from zoo.results.atomic import replacing

FORMAT = 2  # raise it when the contents change
READ = (1, FORMAT)  # 1: without what the position tells of kernels, the form of steps and an open validation
DAMAGED = (RuntimeError, OSError, EOFError, KeyError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile)


def save(path: Path, run_id: str, contents: dict[str, Any]) -> None:
    """Write a checkpoint in one move.  DiskFull: it does not fit, and the one before stays."""
    with replacing(path, "wb") as file:
        torch.save({"format": FORMAT, "run_id": run_id} | contents, file)


def load(path: Path, run_id: str) -> dict[str, Any] | None:
    """Return the contents, on the CPU; None where there is none.  ValueError: damaged, or another cell's."""
    if not path.exists():
        return None
    again = "delete it to start the cell anew."
    try:
        _check_sums(path)
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGED as error:
        raise ValueError(
            f"{path} is not a complete checkpoint ({one_line(error)[:100].rstrip('.')}): {again}"
        ) from None
    if not isinstance(contents, dict) or contents.get("format") not in READ:
        raise ValueError(f"{path} is not a checkpoint of this version: {again}")
    if contents["run_id"] != run_id:
        raise ValueError(f"{path} belongs to the cell {contents['run_id']}, not to {run_id}: {again}")
    return contents


def _check_sums(path: Path) -> None:
    """torch.load reads a tensor with flipped bits without a word, though its CRC-32 stands in the file."""
    with zipfile.ZipFile(path) as file:
        if damaged := file.testzip():
            raise ValueError(f"{damaged} does not match its check sum")
