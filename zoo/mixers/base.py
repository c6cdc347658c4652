"""Every sequence mixer obeys one contract: a causal map on sequences with an explicit memory.

One law ties its two methods together.  For every cut k,

    forward(x)  ==  extend(x[:, :k]) followed by extend(x[:, k:], the state the first call left).

The law *is* causality, decoding, prefill and "the state is all the memory there is".
zoo.mixers.laws checks this law and those that follow from it: python -m zoo.mixers --laws NAME

Dimension letters in the whole project: B batch, T time, D model width, H heads, G key/value heads,
C channels per head, S keys in view, F features, N state dimension.
"""

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.common.part import Part
from zoo.mixers.state import StateSize

Seq = Float[Tensor, "B T D"]
Links = dict[str, Tensor]  # tensors that layers leave to layers above beside the stream, by name
EMBEDDING = "embedding"  # [B T D], left by the model: the tokens as they entered the first layer
State = TypeVar("State", bound=tuple)


class Mixer(nn.Module, Part, ABC, Generic[State]):
    """Mix the tokens of a sequence, and return a state from which later tokens continue it.

    Subclasses take keyword arguments (`**rest`: the parent class's) and draw their own initial weights.
    `State` is a NamedTuple of tensors whose first dimension is the batch; a field is None where there is
    nothing to keep yet.  A plain Python int in it is a counter and no memory.

    causal: outputs never depend on later inputs.
    exact_decode: `extend` from a state reproduces `forward` (the split law).
    A mixer that sets either to False on an instance must have tests that expect the law to fail.
    small_out: model.redraw draws `out_proj` smaller, by sqrt(2 n_layers).
    """

    causal: bool = True
    exact_decode: bool = True
    small_out: bool = False  # true where the reference of the MQAR figures has an `out_proj` too
    reads: tuple[str, ...] = ()  # names from other layers: see Linked
    leaves: tuple[str, ...] = ()

    @abstractmethod
    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Mix `x` after everything `state` remembers (None: the start of a sequence)."""

    def forward(self, x: Seq) -> Seq:
        """Mix a whole sequence: the training path.  Override where something faster exists."""
        return self.extend(x)[0]

    def extend_linked(self, x: Seq, state: State | None, read: Links) -> tuple[Seq, State, Links]:
        """Mix `x` as `extend` does, in a model whose layers may read from each other (Linked)."""
        mixed = self.extend(x, state)
        if not isinstance(mixed, tuple) or len(mixed) != 2:
            name = f"{type(self).__name__}.extend"
            raise ValueError(f"{name} must return (outputs, state), and returned a {type(mixed).__name__}.")
        return *mixed, {}

    def forward_linked(self, x: Seq, read: Links) -> tuple[Seq, Links]:
        """Mix a whole sequence, in a model whose layers may read from each other (Linked)."""
        return self(x), {}

    @abstractmethod
    def state_size(self, seq_len: int) -> StateSize:
        """Count the memory of one sequence after `seq_len` tokens."""

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError if the mixer cannot take `seq_len` tokens.  The default takes any number."""

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the last output that can depend on each input, whatever the inputs and weights are.

        All outputs from the input's own up to that one can depend on it.  A place past the end means the end.

        The default is the end.  A mixer with a bounded view overrides this, or `visible` if its view has
        gaps.  The share of answers in view (the coverage) then bounds the accuracy of any trained model.
        """
        return torch.full((seq_len,), seq_len - 1)

    def visible(self, wanted: Bool[Tensor, "*R T"]) -> Bool[Tensor, "*R T"]:
        """Return the inputs that the wanted outputs can depend on; each row is a separate set."""
        last = wanted.shape[-1] - 1
        count = wanted.cumsum(-1, dtype=torch.int32)
        return wanted | (count[..., self.read_until(last + 1).clamp(max=last)] > count)


class Linked(Mixer[State]):
    """Read tensors of other layers beside the input, or leave some to the layers above, by name.

    reads: names that the layers below leave, or the model's EMBEDDING.
    leaves: names that all layers above may read.
    A name that is both read and left may be missing, as for the lowest layer of its kind; any other missing
    name is an error when the model is built.  The tensors belong to this call's tokens, and are no memory.
    """

    @abstractmethod
    def extend_linked(self, x: Seq, state: State | None, read: Links) -> tuple[Seq, State, Links]:
        """Mix `x` after `state`, with `read` from the layers below, and return what `leaves` names as well.

        read: empty where the mixer stands alone.
        """

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Mix `x` with nothing from other layers to read."""
        return self.extend_linked(x, state, {})[:2]

    def forward_linked(self, x: Seq, read: Links) -> tuple[Seq, Links]:
        """Mix a whole sequence by `extend_linked` from the start."""
        y, _, left = self.extend_linked(x, None, read)
        return y, left


class Shared(Mixer[State]):
    """Share weights with the other layers of a group, while each call keeps a state of its own."""

    share_group: str

    @abstractmethod
    def share(self, first: Self) -> None:
        """Use the shared weights of `first`, the lowest layer of the group, in place of this layer's own."""
