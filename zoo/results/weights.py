"""Write and read weights.safetensors, the final weights of a cell, beside its record.

The file holds only numbers and names, so reading it runs no code, unlike a pickle.  A tensor that several
layers share is stored once, under its first name.  The record holds the file's SHA-256, so that damaged
weights, or those of another attempt, are never taken for the record's.
"""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor, nn

from zoo.common.foreign import visible
from zoo.results.atomic import replacing
from zoo.results.home import WEIGHTS, Home, read_bytes, shown

SMALL = 50_000_000  # bytes; keep_weights=auto keeps weights below this size
AGAIN = "train the cell again with keep_weights=true rerun=true"
LACKING = "needs the package safetensors: pip install safetensors, or leave it auto"
MOST_NAMED = 3


def refusal(wanted: object) -> str | None:
    """Return one line that says why this machine cannot keep weights; None: it can."""
    return f"keep_weights=true {LACKING}." if wanted is True and not find_spec("safetensors") else None


def keep(wanted: bool | str, folder: Path, model: nn.Module) -> str | None:
    """Write the weights beside the record in `folder`, in one move; return their SHA-256.

    wanted: `keep_weights`.  None: not kept, and an earlier attempt's are deleted.  DiskFull: they do not fit.
    """
    size = sum(tensor.numel() * tensor.element_size() for tensor in distinct(model).values())
    if not wanted or (wanted == "auto" and (size >= SMALL or not find_spec("safetensors"))):
        (folder / WEIGHTS).unlink(missing_ok=True)
        return None
    from safetensors.torch import save

    content = save({name: tensor.detach().cpu().clone() for name, tensor in distinct(model).items()})
    with replacing(folder / WEIGHTS, "wb") as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def read(folder: Home, digest: str | None) -> dict[str, Tensor]:
    """Read the weights that `keep` wrote.  digest: the record's.  ValueError, one line: none, or damaged."""
    path, content = shown(folder / WEIGHTS), checked(folder, digest)
    if not find_spec("safetensors"):
        raise ValueError(f"{path} {LACKING.partition(',')[0]}.")
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is no safetensors file ({visible(str(error))[:120]}): {AGAIN}.") from None


def checked(folder: Home, digest: str | None, *, linked: bool = True) -> bytes:
    """Return the bytes of the weights.  linked: a link will do.  ValueError, one line: none, or damaged."""
    if not (folder / WEIGHTS).is_file() or digest is None:
        raise ValueError(f"{shown(folder)} has no weights of its record: {AGAIN}.")
    content = read_bytes(folder, WEIGHTS, linked=linked)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{shown(folder / WEIGHTS)} is damaged, or not of its record: {AGAIN}.")
    return content


def check_fit(weights: dict[str, Tensor], model: nn.Module, where: object) -> None:
    """Raise ValueError, one line with names and shapes, if weights do not fit a model, maybe on "meta"."""
    tensors = distinct(model)
    wrong = [f"{name} is missing" for name in tensors if name not in weights]
    wrong += [f"{visible(name)} is in no part of the model" for name in weights if name not in tensors]
    for name in tensors.keys() & weights.keys():
        if tensors[name].shape != weights[name].shape:
            wrong.append(f"{name} is {size_of(weights[name])}, the model's is {size_of(tensors[name])}")
        elif tensors[name].dtype != weights[name].dtype:
            wrong.append(f"{name} is {weights[name].dtype}, the model's is {tensors[name].dtype}")
    if wrong:
        raise ValueError(f"{shown(where)} does not fit its model: {first_of(wrong)}.")


def first_of(wrong: list[str]) -> str:
    """Return the first few mistakes in one line, and how many more there are."""
    more = f"; and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    return "; ".join(wrong[:MOST_NAMED]) + more


def put(weights: dict[str, Tensor], model: nn.Module) -> None:
    """Load the weights into a model that they fit; a shared tensor is loaded under each of its names."""
    first = _first_names(model)
    model.load_state_dict({name: weights[first[name]] for name in first})


def _first_names(model: nn.Module) -> dict[str, str]:
    """Return the name of each tensor -> the first name of the same tensor."""
    first: dict[int, str] = {}
    every = model.state_dict(keep_vars=True)
    return {name: first.setdefault(id(tensor), name) for name, tensor in every.items()}


def distinct(model: nn.Module) -> dict[str, Tensor]:
    """Return each tensor of the model once, by its first name."""
    every, first = model.state_dict(keep_vars=True), _first_names(model)
    return {name: tensor for name, tensor in every.items() if first[name] == name}


def learned(model: nn.Module) -> dict[str, Tensor]:
    """Return each tensor once, without the counts that modules keep in training."""
    return without_counts(distinct(model))


def without_counts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Leave out the counts that modules keep in training (their extra state)."""
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("_extra_state")}


def size_of(tensor: Tensor) -> str:
    """Return the shape of a tensor for a message: "192x64"."""
    return "x".join(map(str, tensor.shape)) or "a number"
