"""The model: blocks of mixers between an embedding and a head, built from a config."""

from zoo.model.build import (
    build_model,
    fresh_outline,
    model_for,
    model_from_config,
    model_of,
    outline,
    placed,
    weights_dtype,
    without_about,
)
from zoo.model.sequence_model import ModelState, SequenceModel, picked, seeded

__all__ = [
    "ModelState",
    "SequenceModel",
    "build_model",
    "fresh_outline",
    "model_for",
    "model_from_config",
    "model_of",
    "outline",
    "picked",
    "placed",
    "seeded",
    "weights_dtype",
    "without_about",
]
