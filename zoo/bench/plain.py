"""The plain formulation of a training step: what a first draft of a model and its loss does.

Logits in float32 over the whole vocabulary at every position, the loss masked; every op by its definition
(`kernels=reference`: masks, scores and weights as tensors of T x T); AdamW that loops over tensors; memory as
the C library hands it out.  Where the definition of an op is a recurrence, its reference is a loop in Python,
and "all logits" is the fairer alternative: that head and that optimizer under the ops of `kernels=auto`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.config.settings import OptimConfig
from zoo.model import SequenceModel
from zoo.tasks.base import IGNORED, Batch
from zoo.training.optimizer import make_optimizer


def all_logits_loss(model: SequenceModel, batch: Batch) -> Tensor:
    """Mean cross-entropy of the answers, through the logits [B T V] of every position."""
    labels = torch.full_like(batch.inputs, IGNORED).scatter_(1, batch.positions, batch.answers)
    logits = model.logits(model(batch.inputs))
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def plain_optimizer(model: SequenceModel, config: OptimConfig, lr: float) -> torch.optim.AdamW:
    """The parameter groups of `make_optimizer`, without its fused update."""
    fused = make_optimizer(model, config, lr)
    return torch.optim.AdamW(fused.param_groups, foreach=True, fused=False)
