"""An op of no package of ours, with kernels that are right, wrong, slow, or take their process with them."""

import itertools
import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op

CALLS = itertools.count()


def toy(x: Float[Tensor, "B T C"], weight: Float[Tensor, "C D"]) -> Float[Tensor, "B T D"]:
    return (x @ weight).sin()


def right_in_its_output_alone(x: Tensor, weight: Tensor) -> Tensor:
    return toy(x, (weight + weight.detach()) / 2)


def another_last_bit_each_time(x: Tensor, weight: Tensor) -> Tensor:
    return toy(x, weight) * (1 + 1e-6 * (next(CALLS) % 7))


def wrong_where_the_length_is_no_multiple_of_8(x: Tensor, weight: Tensor) -> Tensor:
    y = toy(x, weight)
    whole = y.shape[1] // 8 * 8
    return torch.cat([y[:, :whole], 0 * y[:, whole:]], 1)


def slow(x: Tensor, weight: Tensor, seconds: float = 0.01) -> Tensor:
    time.sleep(seconds)
    return toy(x, weight)


def refuses(x: Tensor, weight: Tensor) -> Tensor:
    raise RuntimeError(f"out of shared memory at {x.shape} {weight.shape}")


def crashes(x: Tensor, weight: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGSEGV)
    return toy(x, weight)


KERNELS = {
    "right": toy,
    "shifted": lambda x, weight: toy(x, weight) * 1.001,
    "backward": right_in_its_output_alone,
    "end": wrong_where_the_length_is_no_multiple_of_8,
    "bits": another_last_bit_each_time,
    "slow": slow,
    "raises": refuses,
    "crash": crashes,
    "hang": lambda x, weight: slow(x, weight, 1e6),
}


class Toy(Op):
    """Its kernels are functions, not files."""

    def module(self, name: str) -> Any:
        return SimpleNamespace(**{f"toy_{name}": KERNELS[name], "unfit": unfit})


def unfit(x: Tensor, weight: Tensor) -> str | None:
    return None if x.ndim == 3 and weight.ndim == 2 else "x must be [B T C]"


OP = Toy("toy", {"reference": toy, "usual": toy}, others=tuple(KERNELS))
OP.package = __name__
