"""Causal depthwise convolution with a short filter of a few taps."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.short_conv import native
from zoo.kernels.short_conv.native import short_conv_native
from zoo.kernels.short_conv.reference import short_conv_reference
from zoo.kernels.short_conv.shifted import short_conv_grouped, short_conv_shifted

OP = Op(
    "short_conv",
    {
        "reference": short_conv_reference,
        "grouped": short_conv_grouped,
        "native": short_conv_native,
        "shifted": short_conv_shifted,
    },
    others=("fla",),
)
FEW_TAPS = 8  # up to here a sum of shifted products beats conv1d on a CPU, forward and backward


def short_conv(
    x: Float[Tensor, "B T C"],
    weight: Float[Tensor, "K C"],
    bias: Float[Tensor, "C"] | None = None,
    tail: Float[Tensor, "B K-1 C"] | None = None,
) -> Float[Tensor, "B T C"]:
    """Convolve each channel by itself: y_t = sum over r < K of weight_r x_{t-r} (+ bias).

    tail: what came before x_0; None: zeros.  In torch, y has the wider dtype of x and weight; kernels sum in
    float32, and y has the dtype of x.
    """
    inputs = (x, weight, bias, tail)
    if native.unfit(*inputs) is None:
        return OP.run("native", *inputs)
    return OP.run("grouped" if len(weight) > FEW_TAPS else "shifted", *inputs)


__all__ = [
    "FEW_TAPS",
    "OP",
    "short_conv",
    "short_conv_grouped",
    "short_conv_native",
    "short_conv_reference",
    "short_conv_shifted",
]
