"""Find, compare and load the weights of a cell that begins with the final weights of another (`start`).

Every tensor of the start must fit a tensor of the same name and shape in the cell's model.  Further tensors
of a swapped mixer (a gate, a landmark) begin fresh, and are named in the record.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from zoo.common.foreign import visible
from zoo.config.cell import Cell
from zoo.evaluation.trained import record_of
from zoo.model import fresh_outline, outline
from zoo.model.low_rank import Trainable
from zoo.model.recipe import adapt
from zoo.results import store, weights
from zoo.results.home import shown
from zoo.results.reading import configured

MIXER = "mixer"  # blocks.N.mixer: the part of a model that may differ from the start's
STARTLESS = "adapts weights that are trained: give start=RUN, a finished cell's folder."


def refusal(cell: Cell) -> str | None:
    """Return in one line why the cell cannot begin from `start`; None: it can.  No weight is made."""
    if cell.start is None:
        return f"adaptation={cell.choices['adaptation']} {STARTLESS}" if cell.adaptation else None
    try:
        fresh = _fresh(_expected(cell), outline(cell), cell)
        if heads := apart(cell, ["num_heads"]):  # no shape tells them apart
            raise ValueError(f"start ({cell.start}) does not fit {cell.mixer}: {heads[0]}.")
        if cell.adaptation:
            adapted(cell, fresh)
    except ValueError as error:
        return str(error)
    return None


def apart(cell: Cell, keys: Collection[str]) -> list[str]:
    """Return the settings of mixers among `keys` that the start has otherwise: "mixer.position is rope there
    and none here"; none where the start's config cannot be read."""
    try:
        start = cell.parent or configured(cell.start_place, record_of(cell.start_place))
    except (ValueError, OSError):
        return []
    return [
        f"mixer.{key} is {there[key]} there and {here[key]} here"
        for there, here in zip(start.layers, cell.layers, strict=False)
        for key in keys
        if key in there and key in here and there[key] != here[key]
    ]


def adapted(cell: Cell, fresh: Collection[str] = ()) -> Trainable:
    """Count the parameters that would train.  No weight is made."""
    assert cell.adaptation is not None
    model = fresh_outline(cell)
    with torch.device("meta"):
        return adapt(model, cell.adaptation, cell.seed, fresh)


def load(cell: Cell, model: nn.Module) -> list[str]:
    """Put the weights of `start` into the model; return the names of the tensors that begin fresh.

    ValueError, one line: `start` has no weights.  `refusal` has checked before that they fit.
    """
    digest = record_of(cell.start_place).get("weights")
    trained = weights.read(cell.start_place, digest)
    tensors = weights.learned(model)
    with torch.no_grad():
        for name in tensors.keys() & trained.keys():
            tensors[name].copy_(trained[name])
    return [name for name in tensors if name not in trained]


def _expected(cell: Cell) -> Mapping[str, Tensor]:
    """Return the tensors of the cell's start; those of a start that is not yet trained are on "meta"."""
    if cell.parent is not None and not store.is_done(cell.parent.folder):
        return weights.learned(outline(cell.parent))
    place = cell.start_place
    if not place.is_dir():
        raise ValueError(
            f"start (={cell.config['start']}) is no folder at {shown(place)}: give that of a finished cell."
        )
    digest = record_of(place).get("weights")
    store.read(place)  # refuses a renamed folder, whose name would become part of this cell's run id
    return _read(place.absolute(), digest)


@lru_cache(maxsize=4)
def _read(place: Path, digest: str | None) -> Mapping[str, Tensor]:
    """Read the weights of a start once: many cells of a sweep begin with the same."""
    return weights.without_counts(weights.read(place, digest))


def _fresh(loaded: Mapping[str, Tensor], model: nn.Module, cell: Cell) -> list[str]:
    """Return the names of the model's tensors that `loaded` lacks.  ValueError, one line: no fit."""
    tensors = weights.learned(model)
    wrong = [
        f"{name} is {weights.size_of(loaded[name])} there and {weights.size_of(tensors[name])} here"
        for name in tensors
        if name in loaded and loaded[name].shape != tensors[name].shape
    ]
    wrong += [
        f"{name} holds {loaded[name].dtype} there and {tensors[name].dtype} here"
        for name in tensors
        if name in loaded and loaded[name].is_floating_point() != tensors[name].is_floating_point()
    ]
    wrong += [
        f"{visible(name)} {weights.size_of(loaded[name])} has no place in it"
        for name in sorted(loaded)
        if name not in tensors
    ]
    fresh = [name for name in tensors if name not in loaded]
    parts = {part for name in loaded if (part := _mixer_of(name))}
    wrong += [
        f"{name} {weights.size_of(tensors[name])} is not there"
        for name in fresh
        if _mixer_of(name) not in parts
    ]
    if wrong:
        raise ValueError(f"start ({cell.start}) does not fit {cell.mixer}: {weights.first_of(wrong)}.")
    return fresh


def _mixer_of(name: str) -> str:
    """Return the mixer that a tensor belongs to: "blocks.1.mixer", or "" for any other tensor."""
    part, inside, _ = name.partition(f".{MIXER}.")
    return part if inside else ""
