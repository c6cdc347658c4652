"""A long convolution: the sum over its squashed taps, Fu et al. 2023 (arXiv 2302.06646), Eq. 3."""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal
from tests.definitions.s4d import gated
from zoo.mixers.long_conv import LongConv


def definition(mixer: LongConv, x: Tensor) -> Tensor:
    taps = mixer.conv.taps
    k = torch.where(taps.abs() > mixer.conv.squash, taps - mixer.conv.squash * taps.sign(), 0.0 * taps)
    return gated(mixer.out_proj, causal(k.T, x) + mixer.conv.skip * x)
