"""Count a model's memory in scalars per sequence, which is the x-axis of every plot.

What counts as state is everything that must survive after token n-1 so that token n can be processed
exactly: keys and values, sums and their normalisers, the tails of short convolutions, half-filled blocks.
Parameters, position counters and integer indices do not count (the last are reported as `aux_ints`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

BYTES_PER_SCALAR = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class StateSize:
    """Count the memory of one sequence, in scalars (a complex number is two).

    paper: the count on the axis of the published figures (None where none was published).
    resident: what decoding really keeps; equals the elements of the state, by law.
    touched: the kept scalars that one decode step reads; equals `resident` for a recurrent mixer.
    aux_ints: integers kept beside them (chosen block ids, say), in no other count.
    """

    paper: int | None
    resident: int
    touched: int
    aux_ints: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a count that is no integer, such as a quotient."""
        for name in self.__slots__:
            count = getattr(self, name)
            if type(count) is not int and (name, count) != ("paper", None):
                raise ValueError(f"StateSize.{name} (={count}) must be an integer: divide by //, not by /.")

    @classmethod
    def read_whole(cls, resident: int, paper: int | None = None) -> "StateSize":
        """Return the size of a state that every step reads whole, as recurrent mixers and attention do."""
        return cls(paper=paper, resident=resident, touched=resident)

    def bytes(self, dtype: str) -> int:
        """Return `resident` in bytes when the state is kept in `dtype` ("float32", "bfloat16", ...)."""
        return self.resident * BYTES_PER_SCALAR[dtype]


def total(sizes: Iterable[StateSize]) -> StateSize:
    """Sum the sizes of several layers.  `paper` is None as soon as one layer's is.

    ValueError: something else than a StateSize, which a mixer's `state_size` may have returned.
    """
    sizes = list(sizes)
    if strange := [size for size in sizes if not isinstance(size, StateSize)]:
        raise ValueError(f"state_size must return a StateSize, and returned {strange[0]!r}.")
    papers = [size.paper for size in sizes if size.paper is not None]
    return StateSize(
        paper=sum(papers) if len(papers) == len(sizes) else None,
        resident=sum(size.resident for size in sizes),
        touched=sum(size.touched for size in sizes),
        aux_ints=sum(size.aux_ints for size in sizes),
    )


def peak(size: Callable[[int], StateSize], seq_len: int) -> StateSize:
    """Return the largest resident and touched counts at any point of a sequence of `seq_len` tokens.

    A mixer with chunks keeps least where a chunk ends, as sequences of a round length do.  `paper` is that of
    the whole sequence.  size: `state_size` of a mixer or a model.
    """
    sizes = [size(tokens) for tokens in range(1, seq_len + 1)]
    return StateSize(
        paper=sizes[-1].paper,
        resident=max(at.resident for at in sizes),
        touched=max(at.touched for at in sizes),
        aux_ints=max(at.aux_ints for at in sizes),
    )


def held(state: Any) -> int:
    """Return the scalars per sequence in a state of tensors [B ...]; a complex number counts as two.

    ValueError: the state holds something else than tensors, counters, None and tuples of them.
    """
    if isinstance(state, tuple | list):
        return sum(map(held, state))
    if state is None or isinstance(state, int):  # a counter
        return 0
    if not isinstance(state, Tensor):
        raise ValueError(f"a state must be a NamedTuple of tensors, and has a {type(state).__name__} in it.")
    if not (state.is_floating_point() or state.is_complex()):
        return 0
    return state[0].numel() * (2 if state.is_complex() else 1)
