"""The short convolution by flash-linear-attention: taps in the order of time, and a state of K tokens.

The package reads only the last K - 1 tokens of its state, and sums in float32; y has the dtype of x.
"""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.common.packages import lifted, off_device, too_wide


@lifted(by_channel=True)
def short_conv_fla(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None
) -> Tensor:
    """Convolve by the package's kernel; y has the dtype of x."""
    from fla.modules.convolution import causal_conv1d

    taps = weight.flip(0).T.contiguous()
    state = None if tail is None else F.pad(tail.to(x.dtype).transpose(1, 2), (1, 0)).contiguous()
    return causal_conv1d(x.contiguous(), taps, bias, initial_state=state)[0]


def unfit(x: Tensor, weight: Tensor, bias: Tensor | None = None, tail: Tensor | None = None) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    given = [s for s in (x, weight, bias, tail) if s is not None]
    return too_wide("fla", *given) or off_device("fla", x)
