"""An op at given sizes, as `zoo.bench ops` measures it, and the products that it cannot do without.

Products count 2 for a multiplication and an addition.  Of a form in chunks: of each token what it reads from
the state and adds to it, and its products with the tokens of its own chunk, CHUNK of them at least.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

CHUNK = 16  # tokens: the side of the smallest tile that a tensor core takes
Draw = Callable[..., Tensor]  # shape -> standard normal, in the dtype and on the device of the run
Inputs = list[Any]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """inputs: of the op, made of `Draw`; floats require a gradient where it is trained through.
    flops: the forward pass's products, at least.  outputs, states: scalars that come out, in the dtype of the
    inputs, and in float32.  definition: whether "reference" is worth waiting for.  rivals: label -> another
    op, which gives the same first output or one that this stands in for, and how it takes the inputs.
    on_a_device: functions of the inputs that only a device can run.
    """

    name: str
    op: str
    words: str
    tokens: int
    inputs: Callable[[Draw], Inputs]
    flops: float
    outputs: int
    states: int = 0
    trained: bool = True
    definition: bool = False
    rivals: Mapping[str, tuple[str, Callable[..., Sequence[Any]]]] = field(default_factory=dict)
    on_a_device: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def sizes(**given: int | None) -> str:
    """ "batch=4 num_heads=16"; what is None is left out."""
    return " ".join(f"{name}={size}" for name, size in given.items() if size is not None)


def taylor_features(C: int) -> int:
    """Count the features 1 + u + u^2/2, each product of channels once."""
    return 1 + C + C * (C + 1) // 2


def in_chunks(tokens: int, K: int, V: int) -> float:
    """Count the products of K x V states read and written by that many tokens."""
    return tokens * (4 * K * V + CHUNK * (K + V))
