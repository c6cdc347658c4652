"""Every op with a Triton form: inputs for the interpreter and for a card, members stacked, refusals.

The choice of blocks is not among them: what it puts out has no gradient (interpreted_block_choice.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.cases import BOTH, op_of, public, trained
from tests.kernels.spans import Call, inputs
from zoo.kernels.common.precision import wide
from zoo.kernels.taylor_scan.chunked import taylor_scan_chunked
from zoo.kernels.taylor_scan.reference import taylor_scan_reference

EPS = 0.25  # large, so that leaving it out is seen
Size = tuple[Any, ...]
Dims = Sequence[int | None]


@dataclass(frozen=True)
class Draw:
    """Standard normal numbers on a device, the same for a shape and a seed."""

    device: str
    dtype: torch.dtype

    def __call__(self, *shape: int, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
        rng = torch.Generator().manual_seed(seed + sum(shape))
        return torch.randn(shape, generator=rng).to(self.device, dtype or self.dtype)

    def heads(self, B: int, H: int, T: int, *sizes: int, **of: Any) -> list[Tensor]:
        """Pieces of one projection, heads side by side, as a mixer hands them over."""
        return trained(*self(B, T, H, sum(sizes), **of).transpose(1, 2).split(sizes, -1))


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """inputs: (Draw, *size) -> inputs of the op of this name.  small: sizes for the interpreter.
    slow: with -m slow.  large: sizes for a card.  compiled: sizes that reach every configuration, the first
    two a quick choice.  stacked: a size, and the dimension of the members of each input.  inside: a size
    for gradients inside vmap.  refused: changes of the inputs by place, and why they are refused.
    """

    inputs: Callable[..., list[Any]]
    small: list[Size]
    slow: Sequence[Size] = ()
    large: list[Size]
    compiled: list[Size]
    stacked: list[tuple[Size, Dims]]
    inside: Size
    refused: list[tuple[dict[int, Any], str]]

    @property
    def op(self) -> str:
        return self.inputs.__name__

    def __str__(self) -> str:
        return self.op

    def draw(self, *given: Any) -> list[Any]:
        """Inputs of (*size, device, dtype)."""
        *size, device, dtype = given
        return self.inputs(Draw(device, dtype), *size)

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(import_module(f"zoo.kernels.{self.op}.triton"), f"{self.op}_triton")

    @property
    def definition(self) -> Callable[..., Any]:
        return op_of(self.op).forms["reference"]

    @property
    def on_a_card(self) -> Callable[..., Any]:
        """The definition for long sequences: in chunks, where token after token would take minutes."""
        if self.op != "taylor_scan":
            return self.definition
        return lambda *given: taylor_scan_chunked(*map(wide, given))


def block_summaries(draw: Draw, B: int, H: int, G: int, C: int, blocks: int, block: int) -> list[Any]:
    whole = draw(B, blocks * block, H + 2 * G, C).transpose(1, 2)
    return [*trained(*whole.split([H, G, G], 1)), block]


def diagonal_scan(draw: Draw, *sizes: Any) -> list[Any]:
    """decay and x [... T D] as pieces of one tensor, and a first state or none."""
    *lead, T, D, state = sizes
    decay, x = draw(*lead, T, 2 * D).chunk(2, -1)
    return trained((decay + 1).sigmoid(), x, draw(*lead, D) if state else None)


def selective_scan(draw: Draw, B: int, T: int, D: int, N: int, state: bool) -> list[Any]:
    """B and C as pieces of one projection; A and the state in float32, as under autocast."""
    x, dt = draw(2, B, T, D)
    maps = draw(B, T, 3 + 2 * N)[..., 3:].chunk(2, -1)
    A = -draw(D, N, dtype=torch.float32).exp()
    return trained(x, F.softplus(dt - 1), A, *maps, draw(B, D, N, dtype=torch.float32) if state else None)


def taylor_attention(draw: Draw, B: int, H: int, T: int, C: int, V: int) -> list[Any]:
    return [*draw.heads(B, H, T, C, C, V), EPS]


def taylor_scan(draw: Draw, B: int, H: int, T: int, C: int, V: int, state: bool) -> list[Any]:
    """Draw inputs, with a state that such keys could leave or none."""
    q, k, v = draw.heads(B, H, T, C, C, V)
    if not state:
        return [q, k, v, EPS, None, None]
    past, values = draw.heads(B, H, 30, C, V, seed=1, dtype=torch.float32)
    _, kv, z = taylor_scan_reference(past, past, values, EPS)
    return [q, k, v, EPS, *trained(kv, z)]


def se_attention(draw: Draw, call: Call, channels: int) -> list[Any]:
    return inputs(call, channels, draw.device, draw.dtype)


DOUBLE = torch.float64
KERNELS = [
    Kernel(
        inputs=block_summaries,
        small=[  # B, H, G, C, blocks, block_size
            (2, 4, 2, 5, 9, 8),
            (1, 1, 1, 16, 1, 1),
            (1, 2, 1, 24, 70, 1),
            (1, 2, 2, 4, 24, 3),
            (1, 1, 1, 70, 2, 70),  # queries and channels in parts
        ],
        large=[(8, 4, 2, 64, 32, 32), (64, 1, 1, 128, 64, 4), (2, 2, 1, 33, 100, 12), (1, 2, 2, 16, 9, 128)],
        compiled=[(2, 4, 2, width, 64, block) for block, width in product((32, 1, 4, 128), (64, 16, 128))],
        stacked=[((2, 2, 1, 5, 3, 4), (0, 1, 2, None)), ((2, 2, 1, 5, 3, 4), (0, 0, None, None))],
        inside=(1, 2, 1, 5, 3, 4),
        refused=[
            (dict.fromkeys(range(3), torch.zeros(1, 1, 2, 129)), r"head_dim \(=129\) must be at most 128"),
            ({3: 129}, r"block_size \(=129\) must be at most 128"),
            (dict.fromkeys(range(3), torch.zeros(1, 1, 2, 4, dtype=DOUBLE)), "float64"),
        ],
    ),
    Kernel(
        inputs=diagonal_scan,
        small=[(1, 1, True), (2, 17, 3, True), (2, 3, 16, 5, True), (1, 35, 40, True), (2, 9, 3, False)],
        large=[(64, 256, 128, True), (8, 1023, 100, True), (2, 3, 333, 40, True), (32, 1, 128, False)],
        compiled=[(4, length, 200, False) for length in (1024, 1000, 1)],
        stacked=[((2, 17, 3, True), (0, 0, 0)), ((2, 17, 3, True), (None, 0, 1))],
        inside=(2, 5, 3, True),
        refused=[
            ({0: torch.zeros(4, 3, dtype=DOUBLE), 1: torch.zeros(4, 3, dtype=DOUBLE)}, "float64"),
            ({0: torch.zeros(4, 3), 1: torch.zeros(4, 3).bfloat16()}, "float32 and torch.bfloat16"),
            ({2: torch.zeros(2, 3, dtype=DOUBLE)}, "state must be float32"),
            ({0: torch.zeros(1, 4, 3)}, "same shape"),
        ],
    ),
    Kernel(
        inputs=se_attention,
        small=[
            *((call, 5) for call in (
                Call(1, 2, 1, 1, 76, 0, 0, 60, 4, 2, False, True),  # a tile in two chunks
                Call(1, 1, 1, 1, 70, 0, 0, 24, 6, 1, True, True),
                Call(2, 2, 2, 2, 20, 29, 13, 8, 4, 2, False, False),  # resumes, the oldest forgotten
                Call(1, 2, 2, 2, 20, 29, 29, 8, 4, 2, True, False),
                Call(1, 1, 1, 1, 3, 75, 75, 16, 4, 3, False, True),  # inside one chunk
                Call(2, 1, 1, 1, 1, 135, 135, 70, 2, 3, True, False),  # decoding in a second tile
                Call(1, 1, 1, 1, 19, 2, 2, 6, 3, 0, False, False),  # no retrieval
                Call(1, 1, 1, 1, 7, 0, 0, 64, 4, 2, True, True),  # nothing to choose from
                Call(1, 2, 1, 1, 70, 0, 0, 20, 20, 2, True, True),  # a block in several tiles
                Call(1, 2, 1, 1, 67, 0, 0, (4, 20, 32), 4, 2, False, False),  # chunks of several sizes
                Call(1, 2, 2, 2, 71, 0, 0, (6, 30), 3, 2, True, True),
            )),
            (Call(1, 1, 1, 1, 150, 0, 0, 130, 130, 1, False, True), 4),  # a block that no tile of keys holds
        ],
        large=[*product(
            (
                Call(16, 1, 1, 1, 256, 0, 0, 32, 4, 2, False, False),
                Call(16, 2, 2, 2, 256, 0, 0, 16, 4, 2, True, True),
                Call(2, 4, 2, 1, 1000, 0, 0, 256, 32, 4, False, True),
                Call(2, 4, 1, 1, 1000, 0, 0, 96, 32, 8, True, False),
                Call(1, 4, 2, 2, 700, 333, 333, 192, 16, 8, False, False),
                Call(1, 2, 1, 1, 2048, 0, 0, 512, 128, 2, False, True),
                Call(4, 4, 2, 1, 1, 1037, 1037, 256, 32, 8, False, False),
                Call(2, 4, 2, 1, 1000, 0, 0, (32, 64, 256), 32, 4, False, False),
                Call(2, 2, 2, 2, 777, 0, 0, (16, 48), 16, 4, True, True),
            ),
            (64, 24, 128),
        )],
        compiled=[
            (Call(2, 4, 2, 2, 8192, 0, 0, chunk, 32, 8, token, biased), width)
            for width, token, biased, chunk in product(
                (64, 16, 32, 128), BOTH, BOTH, (2048, (1024, 2048)))
            if biased == token or (width == 64 and chunk == 2048)
        ],
        stacked=[  # all members have made the same choice
            ((Call(2, 1, 1, 1, 10, 0, 0, 4, 4, 1, False, True), 4), (0, 1, 2, None, None, None, None)),
            ((Call(2, 1, 1, 1, 10, 0, 0, (4, 8), 4, 1, True, True), 4), (0, 1, 2, None, 1, None, None)),
        ],
        inside=(Call(1, 1, 1, 1, 7, 0, 0, 4, 2, 1, False, True), 3),
        refused=[
            (dict.fromkeys(range(3), torch.zeros(1, 1, 76, 5, dtype=DOUBLE)), "float64"),
            (dict.fromkeys(range(3), torch.zeros(1, 1, 76, 65)), r"head_dim \(=65\) must be at most 64"),
            ({3: torch.zeros(1, 3, 2, 2, dtype=torch.int64)}, r"index sets \(=3\)"),
            ({3: torch.zeros(1, 1, 1, 1, dtype=torch.int64).expand(-1, -1, 2, 2**21)}, "choices of all rows"),
        ],
    ),
    Kernel(
        inputs=selective_scan,
        small=[  # B, T, D, N
            (1, 1, 1, 1, True), (2, 7, 17, 3, True), (1, 8, 2, 16, True), (2, 19, 3, 9, True),
            (1, 5, 2, 64, True), (2, 9, 3, 4, False),
        ],
        large=[(64, 256, 128, 16, True), (16, 64, 256, 24, True), (4, 333, 100, 9, True),
               (2, 1023, 64, 256, True), (32, 1, 128, 8, True)],
        compiled=[*((4, 1024, 200, n, False) for n in (9, 16, 1, 8, 24, 30, 64, 128, 250, 256)),
                  (4, 1, 200, 16, False)],
        stacked=[((2, length, 3, 4, True), dims) for length in (1, 9)
                 for dims in ((0,) * 6, (None, 0, None, 1, 0, None))],  # each has its own A, or all have one
        inside=(2, 2, 3, 4, True),
        refused=[
            ({2: torch.zeros(1, 300), **dict.fromkeys((3, 4), torch.zeros(1, 1, 300))}, r"d_state \(=300\)"),
            ({0: torch.zeros(1, 1, 1, dtype=DOUBLE)}, "float64"),
            ({5: torch.zeros(1, 1, 1, dtype=torch.float16)}, "float16"),
            ({1: torch.zeros(1, 1, 2)}, r"x and dt must be \[B T D\]"),
            ({2: torch.zeros(1, 3)}, r"A must be \[D N\], \(1, 1\), and is \(1, 3\)"),
        ],
    ),
    Kernel(
        inputs=taylor_attention,
        small=[  # B, H, T, C, V
            (1, 1, 1, 2, 4), (2, 3, 63, 5, 16), (1, 2, 64, 16, 24), (1, 1, 65, 24, 33), (1, 2, 130, 16, 16),
            (1, 1, 200, 32, 64), (1, 1, 3, 32, 200),
        ],
        large=[(64, 1, 256, 16, 64), (64, 1, 64, 24, 128), (8, 4, 333, 9, 33), (2, 2, 1024, 32, 128),
               (2, 2, 1023, 16, 200), (3, 1, 1, 8, 16)],
        compiled=[(4, 16, 512, *size) for size in ((16, 64), (9, 33), *product((16, 32), (16, 32, 64, 128)))],
        stacked=[((2, 2, 35, 4, 8), dims) for dims in ((0, 0, 0, None), (0, None, 2, None))],
        inside=(1, 2, 20, 4, 8),
        refused=[
            (dict.fromkeys(range(3), torch.zeros(4, 33)), r"feature_dim \(=33\) must be at most"),
            (dict.fromkeys(range(3), torch.zeros(4, 3, dtype=DOUBLE)), "float64"),
            ({0: torch.zeros(2, 1, 1, 2)}, "same leading dimensions"),
        ],
    ),
    Kernel(
        inputs=taylor_scan,
        small=[  # B, H, T, C, V, whether there is a state
            (2, 1, 37, 3, 5, False),
            (1, 1, 150, 5, 33, True),
            (1, 1, 66, 17, 33, True),  # more tiles of features than one, and columns in parts
            *((*size, state) for size in ((2, 1, 1, 5, 6), (1, 1, 1, 3, 66)) for state in BOTH),
        ],
        slow=[(2, 1, 37, 3, 5, True), (1, 1, 150, 5, 33, False), *((1, 1, 128, 16, 16, s) for s in BOTH)],
        large=[(*size, state) for size in (
            (4, 16, 2048, 16, 64), (64, 1, 256, 16, 64), (2, 3, 1333, 9, 33), (1, 2, 1023, 32, 128),
            (1, 1, 3000, 24, 200), (2, 2, 77, 8, 16), (128, 16, 1, 16, 64), (3, 1, 1, 32, 200),
        ) for state in BOTH],
        compiled=[
            (4, *of, *size, False)
            for size in ((16, 64), *product((16, 32), (16, 32, 128)), (32, 64))
            for of in ((1, 1024), (16, 1), (1, 1023))
        ],
        stacked=[
            ((2, 1, 1, 2, 3, True), (0, 0, 0, None, 0, 0)),
            ((1, 1, 66, 2, 3, True), (0, None, 2, None, None, 0)),
        ],
        inside=(1, 1, 20, 2, 3, True),
        refused=[
            (dict.fromkeys((0, 1), torch.zeros(2, 1, 37, 33)), r"feature_dim \(=33\) must be at most"),
            ({2: torch.zeros(2, 1, 37, 5, dtype=DOUBLE)}, "float64"),
            ({4: torch.zeros(2, 1, 10, 5).double(), 5: torch.zeros(2, 1, 10)}, "kv and z must be float32"),
            ({1: torch.zeros(2, 1, 3, 3)}, "same B, H and T"),
            ({4: torch.zeros(2, 1, 10, 5)}, "kv and z come together"),
        ],
    ),
]  # fmt: skip


def of_each(field: str) -> list[tuple[Kernel, Any]]:
    """Every kernel with each of its sizes, stacks or refusals."""
    return [(kernel, value) for kernel in KERNELS for value in getattr(kernel, field)]


def refuse(kernel: Kernel, change: dict[int, Any]) -> None:
    """Call the op on inputs of the smallest size, but for these."""
    given = kernel.draw(*kernel.small[0], "cpu", torch.float32)
    public(kernel.op)(*(change.get(i, x) for i, x in enumerate(given)))
