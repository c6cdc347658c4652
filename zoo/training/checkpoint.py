"""Save and load last.ckpt, from which a killed cell goes on; a reader never sees half a checkpoint."""

import pickle
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from zoo.common.checks import one_line
from zoo.common.foreign import visible
from zoo.results.atomic import replacing
from zoo.results.checked import mistake
from zoo.training.train_state import Position

FORMAT = 2  # raise it when the contents change
LATER = {"kernels", "step_form", "to_validate", "fresh"}  # fields of a position that format 1 lacks
READ = (1, FORMAT)  # the formats that can be read
DAMAGED = (RuntimeError, OSError, EOFError, KeyError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile)


def save(path: Path, run_id: str, contents: dict[str, Any]) -> None:
    """Write a checkpoint in one move.  DiskFull: it does not fit, and the previous one stays."""
    with replacing(path, "wb") as file:
        torch.save({"format": FORMAT, "run_id": run_id} | contents, file)


def load(path: Path, run_id: str) -> dict[str, Any] | None:
    """Return the contents, on the CPU; None where there is none.  ValueError: damaged, or another cell's."""
    if not path.exists():
        return None
    if not path.is_file():
        raise ValueError(f"{path} is no file: delete it to start the cell anew.")
    again = "delete it to start the cell anew."
    try:
        # torch.load accepts a tensor with flipped bits, though its CRC-32 stands in the file
        with zipfile.ZipFile(path) as file:
            if damaged := file.testzip():
                raise ValueError(f"{damaged} does not match its check sum")
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGED as error:
        raise ValueError(
            f"{path} is not a complete checkpoint ({one_line(error)[:100].rstrip('.')}): {again}"
        ) from None
    if not isinstance(contents, dict) or contents.get("format") not in READ:
        raise ValueError(f"{path} is not a checkpoint of this version: {again}")
    if contents["run_id"] != run_id:
        other = visible(str(contents["run_id"]))
        raise ValueError(f"{path} belongs to the cell {other}, not to {run_id}: {again}")
    if wrong := _misplaced(contents.get("position")):
        raise ValueError(f"{path} does not say where its cell stands ({wrong}): {again}")
    return contents


def _misplaced(position: Any) -> str | None:
    """Return in words what is wrong with a position; None: it is sound."""
    if not isinstance(position, dict):
        return "it has no position"
    names = {field.name for field in fields(Position)}
    for name in sorted(names - LATER - position.keys()):
        return f"position has no {name}"
    for name in sorted(position.keys() - names):
        return f"position has {visible(str(name))}, which nobody knows"
    if type(position["step"]) is not int or position["step"] < 0:
        return f"step (={visible(str(position['step']))}) is no count"
    return mistake(position, Position)
