"""Parameters that weight decay leaves alone, whatever their shape."""

from torch import nn


def undecayed(*parameters: nn.Parameter) -> None:
    """Flag them for the optimizer: zero is a rate or a share like any other, and no simpler a model."""
    for parameter in parameters:
        parameter.no_weight_decay = True  # pyright: ignore[reportAttributeAccessIssue]
