"""Check a cell before anything trains: every name, type and range, with each mistake in one line."""

import math
from typing import Any, Literal

from zoo.common.checks import located, one_line, unknown
from zoo.config import about, arguments
from zoo.config.bounds import out_of_bounds
from zoo.config.cell import Cell
from zoo.config.targets import section
from zoo.config.words import GROUPS
from zoo.kernels.choice import Kernels, contradiction
from zoo.results.source import targets
from zoo.tasks.around import Loss

TOP = {
    **{"d_model": int, "n_layers": int, "seed": int, "lr": float},
    **{"kernels": Kernels, "population": int | Literal["auto"], "max_examples": int | None, "results": str},
    **{"loss": Loss, "keep_weights": bool | Literal["auto"]},
}
OPTIONAL = ("start", "adaptation")  # keys that a cell has only if it uses them
WHOLE, FIRST = ("sweep", "experiment"), "# @package _global_"  # groups whose yamls stand for whole configs
POSITIVE = ("d_model", "n_layers", "lr", "population")


class Validator:
    """Checks cells, and remembers the result: cells that differ in seed and lr only are built once."""

    def __init__(self) -> None:
        self._built: dict[str, list[str]] = {}

    def problems(self, cell: Cell) -> list[str]:
        """Return the mistakes that keep the cell from running, one a line; no weight is made or trained."""
        errors = _top_level(cell) or _bounds(cell) or _settings(cell)
        if errors:
            return errors
        if cell.point not in self._built:
            unbuilt = _sections(cell) or _given(cell) or about.mistakes(cell.mixer, cell.config["mixer"])
            self._built[cell.point] = unbuilt or _chosen(cell) or _built(cell)
        wrong = _apart_from_the_point(cell)
        return list(dict.fromkeys(self._built[cell.point])) or ([wrong] if wrong else [])


def _top_level(cell: Cell) -> list[str]:
    config = cell.config
    valid = [*TOP, *GROUPS, *OPTIONAL]
    errors = [f"the first line of {key}/NAME.yaml must be {FIRST!r}." for key in WHOLE if key in config]
    errors += [unknown("key", key, valid) for key in config if key not in (*valid, *WHOLE)]
    errors += [line for key, hint in TOP.items() for line in arguments.ill_typed(key, config[key], hint)]
    if not errors and not config["results"]:
        errors = ["results (='') must name a folder, such as results/demo."]
    if errors:
        return errors
    given = {key: config[key] for key in POSITIVE if config[key] != "auto"}
    wrong = {key: value for key, value in given.items() if not 0 < value < math.inf}
    return [f"{key} (={value}) must be positive and finite." for key, value in wrong.items()]


def _bounds(cell: Cell) -> list[str]:
    """Check the bounds of each mixer once, however many layers it has."""
    model = cell.config["model"] | {"layers": _other_layers(cell)}
    return list(dict.fromkeys(out_of_bounds(cell.config | {"model": model})))


def _other_layers(cell: Cell) -> list[dict[str, Any]]:
    """Return the layers that differ from the chosen mixer with its settings."""
    return [layer for layer in cell.layers if layer != cell.mixer_settings]


def _apart_from_the_point(cell: Cell) -> str | None:
    """Check what may differ within a point: kernels, whether weights are kept, learning rate."""
    from zoo.results.weights import refusal

    kernels = contradiction(cell.kernels, cell.trainer.accelerator, cell.trainer.step)
    if wrong := kernels or refusal(cell.keep_weights):
        return wrong
    lr, decay = cell.lr, cell.optim.weight_decay
    if lr * decay < 1:
        return None
    return f"lr * optim.weight_decay (={lr:g} * {decay:g}) must be below 1: a step would turn weights over."


def _settings(cell: Cell) -> list[str]:
    """Check optimizer, trainer and adaptation.  Not in `_built`: the trainer may differ within a point."""
    errors: list[str] = []
    for part in ("optim", "trainer", "adaptation"):
        try:
            getattr(cell, part)
        except ValueError as error:
            errors += str(error).splitlines()
    return errors


def _sections(cell: Cell) -> list[str]:
    from zoo.blocks.base import Block
    from zoo.mixers.base import Mixer
    from zoo.model import SequenceModel
    from zoo.tasks.base import Task

    config = cell.config
    errors = section("task", config["task"], Task) + section("block", config["block"], Block, ("mixer",))
    errors += section("mixer", config["mixer"], Mixer)
    errors += [line for layer in _other_layers(cell) for line in section("model.layers", layer, Mixer)]
    model = {k: v for k, v in config["model"].items() if k not in ("layers", "state_codec")}
    supplied = ("blocks", "vocab_size", "seed", "decoder", "stacked")
    errors += arguments.mistakes("model", model, SequenceModel, supplied)
    return errors


def _given(cell: Cell) -> list[str]:
    """Check that no part sets what the whole model decides: the part's width and its layer number."""
    d_model = cell.d_model
    parts = [("block", cell.config["block"]), ("mixer", cell.config["mixer"])]
    parts += [("model.layers", layer) for layer in _other_layers(cell)]
    errors = [
        f"{path}.d_model (={part['d_model']}) must equal d_model (={d_model}): set d_model alone."
        for path, part in parts
        if part.get("d_model", d_model) != d_model
    ]
    return errors + [
        f"{path}.layer (={part['layer']}) must stay 0: the model puts each layer's own place there."
        for path, part in parts
        if part.get("layer")
    ]


def _chosen(cell: Cell) -> list[str]:
    """Check that a layer has the chosen mixer's classes: the cell's name promises that mixer."""
    if [*targets(cell.mixer_settings)] in [[*targets(layer)] for layer in cell.layers]:
        return []
    return [f"model.layers lacks mixer={cell.mixer}: put mixer into it, or choose one of its own mixers."]


def _built(cell: Cell) -> list[str]:
    """Build the cell's parts on the meta device, because constructors check rules of their own."""
    from zoo.training.check import check

    try:
        check(cell)
    except Exception as error:  # whatever a constructor raises now, it would raise in every attempt
        return [one_line(error) if isinstance(error, ValueError) else f"cannot be built: {located(error)}"]
    return []
