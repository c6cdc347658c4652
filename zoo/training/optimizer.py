"""The optimizer and everything `conf/optim` sets."""

import torch
from torch import nn

from zoo.config.settings import OptimConfig


def make_optimizer(model: nn.Module, config: OptimConfig, lr: float) -> torch.optim.AdamW:
    """Make AdamW.  Decayed are matrices, the embedding (with a tied head it is one) among them.

    Not decayed, unless `decay_all`: biases, norms and all else of one dimension, and any parameter that its
    mixer flagged with `parameter.no_weight_decay = True`.
    """
    decayed, rest = [], []
    for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
        (decayed if config.decay_all or is_decayed(parameter) else rest).append(parameter)
    groups = [
        {"params": parameters, "weight_decay": decay}
        for parameters, decay in ((decayed, config.weight_decay), (rest, 0.0))
        if parameters
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(config.betas[0], config.betas[1]), fused=True)


def is_decayed(parameter: nn.Parameter) -> bool:
    """Return whether weight decay acts on it: it does on matrices that do not say otherwise."""
    return parameter.ndim >= 2 and not getattr(parameter, "no_weight_decay", False)
