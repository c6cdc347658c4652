"""Sliding-window attention: token t looks at t - window + 1 .. t, Beltagy et al. 2020 (arXiv 2004.05150)."""

from torch import Tensor

from tests.definitions import attention
from zoo.mixers.sliding_window import SlidingWindow

PACKAGE = attention.PACKAGE


def definition(mixer: SlidingWindow, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(mixer.qkv, x)
    y = attention.attend(mixer.qkv, q, k, v, lambda t: [s for s in range(t + 1) if t - s < mixer.window])
    return attention.project(mixer.out_proj, y)


def package(mixer: SlidingWindow, x: Tensor) -> Tensor:
    return attention.package(mixer, x, mixer.window)
