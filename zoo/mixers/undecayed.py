"""Mark the parameters that weight decay leaves alone, whatever their shape."""

from torch import nn


def undecayed(*parameters: nn.Parameter) -> None:
    """Exempt parameters from weight decay: zero is a rate or a share like any other, and no simpler model."""
    for parameter in parameters:
        parameter.no_weight_decay = True  # pyright: ignore[reportAttributeAccessIssue]
