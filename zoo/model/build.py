"""Build a model from a cell's config: each part by its `_target_`, with initial weights of its own."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch

from zoo.blocks.base import Block
from zoo.config.cell import Cell
from zoo.config.settings import TrainerConfig, settings
from zoo.config.targets import make
from zoo.mixers.base import EMBEDDING, Mixer, Shared
from zoo.mixers.projections import stretch
from zoo.model.codecs.codec import Form
from zoo.model.linear_layers import by_the_op
from zoo.model.rounded_model import RoundedModel
from zoo.model.sequence_model import SequenceModel, seeded
from zoo.tasks.base import Task
from zoo.tasks.build import task_of


def build_model(cell: Cell) -> SequenceModel:
    """Build the model of a cell, with its initial weights, in its precision, for its task's vocabulary."""
    return model_of(cell, task_of(cell))


def model_of(cell: Cell, task: Task) -> SequenceModel:
    """Build the model of a cell for its task, with its initial weights and in its precision."""
    model = model_for(task, cell.config).to(weights_dtype(cell.trainer))
    if cell.adaptation:
        stretch(model, cell.adaptation.rope_scale)
    return model


def weights_dtype(trainer: TrainerConfig) -> torch.dtype:
    """Return the dtype of the weights, and so of a checkpoint."""
    return torch.float64 if trainer.precision == "64-true" else torch.float32


@lru_cache(maxsize=8)
def outline(cell: Cell) -> SequenceModel:
    """Build the model without weights, on the meta device, for its shapes and sizes; it is shared."""
    return fresh_outline(cell)


def fresh_outline(cell: Cell) -> SequenceModel:
    """Build an outline that the caller may change.  The task is built off "meta", since it may read data."""
    task = task_of(cell)
    with torch.device("meta"):
        return model_of(cell, task)


def model_for(task: Task, config: Mapping[str, Any]) -> SequenceModel:
    """Build a model from plain dicts, with a task's vocabulary and the input and output ends it needs."""
    return model_from_config(config, task.vocab_size, task.decoder, task.stacked)


def model_from_config(
    config: Mapping[str, Any], vocab_size: int, decoder: bool = False, stacked: bool = False
) -> SequenceModel:
    """Build a model from plain dicts: `seed`, `block` and `model` as in a Cell's config.

    decoder, stacked: as a Task has them.

    Every part draws its initial weights from its own generator, seeded by (seed, the part's name), so that
    the embedding and each layer start the same whatever the other parts are.  Only model.redraw
    re-initialises a mixer.
    """
    model, block = without_about(config["model"]), without_about(config["block"])
    seed = config["seed"]
    blocks = []
    for i, layer in enumerate(model.pop("layers")):
        with seeded(seed, f"layers.{i}"):
            mixer = make(placed(layer, i), Mixer)
        with seeded(seed, f"blocks.{i}"):
            blocks.append(make(placed(block, i), Block, mixer=mixer))
    for block in blocks:
        by_the_op(block)
    mixers = [block.mixer for block in blocks]
    check_reads(mixers)
    share(mixers)
    ends = {"vocab_size": vocab_size, "decoder": decoder, "stacked": stacked}
    if (codec := model.pop("state_codec", None)) is not None:
        if not isinstance(codec, Mapping):
            raise ValueError(f"model.state_codec (={codec}) must be null or like {{format: int4, every: 8}}.")
        try:
            form = settings("model.state_codec", Form, codec)
        except ValueError as error:
            raise ValueError(f"model.state_codec: {error}") from None
        return RoundedModel(blocks, state_codec=form, seed=seed, **ends, **model)
    return SequenceModel(blocks, seed=seed, **ends, **model)


def without_about(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a constructor takes, without `about`, which is for people and other yamls."""
    return {key: value for key, value in settings.items() if key != "about"}


def placed(settings: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the settings of a part at layer `index`: a setting called `layer` is that index."""
    return dict(settings) | ({"layer": index} if "layer" in settings else {})


def check_reads(mixers: Iterable[Mixer]) -> None:
    """Raise ValueError where a layer reads what neither it nor anything below it leaves."""
    left = {EMBEDDING}
    for i, mixer in enumerate(mixers):
        left.update(mixer.leaves)
        if missing := sorted({*mixer.reads} - left):
            raise ValueError(
                f"{type(mixer).__name__} (layer {i} of model.layers) reads {missing[0]!r}, and what is left "
                f"below it is {', '.join(sorted(left))}: put a layer that leaves it further down."
            )


def share(mixers: Iterable[Mixer]) -> None:
    """Let the layers of each share group use the weights of the group's lowest."""
    first: dict[str, Shared] = {}
    for mixer in mixers:
        if isinstance(mixer, Shared) and first.setdefault(mixer.share_group, mixer) is not mixer:
            mixer.share(first[mixer.share_group])
