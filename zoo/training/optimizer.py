"""Make the optimizer that conf/optim names: AdamW, any other of torch's, or one of the user's own.

    python -m zoo.run optim._target_=torch.optim.SGD +optim.momentum=0.9 +optim.nesterov=true

Keys of conf/optim that zoo does not know are arguments of the class.  Of zoo's own keys an optimizer gets
`lr`, `betas` where it takes them, and the weight decay in parameter groups, which `grouped` makes.  A user's
own class takes `(params, lr, ...)` as torch's do, with `params` a list of such groups.
"""

import inspect
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zoo.common.checks import reason, unknown
from zoo.config.arguments import mistakes
from zoo.config.settings import ADAMW, OptimConfig
from zoo.config.targets import target

GIVEN = ("params", "lr", "weight_decay", "betas", "fused")  # zoo gives these, if an optimizer takes them


def make_optimizer(model: nn.Module, config: OptimConfig, lr: float) -> Optimizer:
    """Make the optimizer of the parameters that train.

    ValueError: `optim._target_` names no optimizer.  An error of its constructor is not caught.
    """
    kind = target(config._target_, Optimizer, "optim")
    takes = inspect.signature(kind).parameters
    given: dict[str, Any] = {"lr": lr, **config.arguments}
    if "betas" in takes:
        given["betas"] = (config.betas[0], config.betas[1])
    if kind is torch.optim.AdamW:
        given["fused"] = True
    return kind(grouped(model, config, "weight_decay" in takes), **given)


def grouped(model: nn.Module, config: OptimConfig, decays: bool = True) -> list[dict[str, Any]]:
    """Return the parameters that train in two groups: with weight decay, and without.

    Matrices decay, including the embedding, which a tied head shares.  Unless `decay_all`, these do not:
    biases, norms and all else of one dimension, and any parameter that its mixer flagged with
    `parameter.no_weight_decay = True`.  decays: whether the optimizer takes a weight decay.
    """
    decayed, rest = [], []
    for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
        (decayed if config.decay_all or is_decayed(parameter) else rest).append(parameter)
    groups = ((decayed, config.weight_decay), (rest, 0.0))
    return [
        {"params": parameters} | ({"weight_decay": decay} if decays else {})
        for parameters, decay in groups
        if parameters
    ]


def is_decayed(parameter: nn.Parameter) -> bool:
    """Return whether the parameter decays: a matrix does, unless it has `no_weight_decay`."""
    return parameter.ndim >= 2 and not getattr(parameter, "no_weight_decay", False)


def check_optimizer(config: OptimConfig, outline: nn.Module) -> None:
    """Refuse an optimizer that cannot be built or stepped, before any work.

    outline: the model on "meta".  ValueError, a line for each mistake.
    """
    kind = target(config._target_, Optimizer, "optim")
    wrong = _mistakes(kind, config)
    if not wrong and (config._target_ != ADAMW or config.arguments):
        try:
            make_optimizer(outline, config, lr=1.0)
        except Exception as error:  # whatever a constructor raises now, it would raise in training
            wrong = [f"optim._target_ (={config._target_}) cannot be built: {reason(error)}."]
    if wrong:
        raise ValueError("\n".join(wrong))


def _mistakes(kind: type[Optimizer], config: OptimConfig) -> list[str]:
    takes = inspect.signature(kind).parameters
    arguments = [name for name in takes if name not in GIVEN]
    valid = [f"optim.{name}" for name in (*vars(config), *arguments) if name != "arguments"]
    errors = [unknown("key", f"optim.{key}", valid) for key in config.arguments if key not in arguments]
    errors = errors or mistakes("optim", config.arguments, kind, GIVEN)
    if config.weight_decay and "weight_decay" not in takes:
        errors.append(f"optim.weight_decay (={config.weight_decay}) is unknown to {config._target_}: set 0.")
    if inspect.signature(kind.step).parameters["closure"].default is inspect.Parameter.empty:
        errors.append(f"optim._target_ (={config._target_}) needs a closure each step, and zoo gives none.")
    return errors
