"""Compute the training loss of a model on a batch."""

import torch
from torch import Tensor

from zoo.kernels.linear_cross_entropy import linear_cross_entropy
from zoo.model import SequenceModel
from zoo.tasks.base import Batch


def answer_states(model: SequenceModel, batch: Batch) -> Tensor:
    """Return the hidden states [B * A, D] where answers are asked for."""
    return model(batch.inputs, batch.positions).flatten(0, 1)


def answers_loss(model: SequenceModel, batch: Batch) -> Tensor:
    """Return the mean cross-entropy over the answers, equal to that of all logits with a mask."""
    states, answers = answer_states(model, batch), batch.answers.flatten()
    if not model.bf16_head:
        return linear_cross_entropy(states, model.head_weight, answers)
    with torch.autocast(states.device.type, torch.bfloat16):
        return linear_cross_entropy(states, model.head_weight, answers)
