"""Cases of ops for `zoo.bench ops` and `zoo.kernels --prove`: sizes, inputs like a mixer's, least products.

A multiplication and an addition count as 2 products.  A form in chunks needs, for each token, the products
that read the state and add to it, and those with the tokens of its own chunk, of which there are CHUNK at
least.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.common.verdicts import Verdict, verdicts_here
from zoo.kernels.span_retrieval import fixed_chunks
from zoo.kernels.taylor_scan import num_features

CHUNK = 16  # tokens: the side of the smallest tile that a tensor core takes
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}
Draw = Callable[..., Tensor]  # shape -> standard normal, in the dtype and on the device of the run
Inputs = list[Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """An op at given sizes.

    inputs: makes the op's inputs with a `Draw`; floats require a gradient where the op is trained through.
    flops: the least products of the forward pass.  outputs, states: the number of scalars returned, in the
    dtype of the inputs and in float32.  definition: whether "reference" is worth waiting for.  rivals: label
    -> another op with the same first output, or one that this op stands in for, and how it takes the inputs.
    """

    name: str
    op: str
    sizes: Mapping[str, int | None]
    inputs: Callable[[Draw], Inputs]
    flops: float = 0.0  # 0: the op multiplies no matrices
    outputs: int
    states: int = 0
    trained: bool = True
    definition: bool = False
    rivals: Mapping[str, tuple[str, Callable[..., Sequence[Any]]]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Return "batch=4 num_heads=16 ..."; a size that is None is left out."""
        return " ".join(f"{name}={size}" for name, size in self.sizes.items() if size is not None)

    @property
    def tokens(self) -> int:
        """Return the number of tokens in a call; for the head, the number of answers."""
        sizes = self.sizes
        return sizes.get("answers") or (sizes["batch"] or 1) * (sizes["seq_len"] or 1)

    def draw(self, kind: str, backward: bool = False, dtype: torch.dtype | None = None) -> Inputs:
        """Return the inputs, which are the same at every call.  dtype: None means that of the device."""
        rng = torch.Generator().manual_seed(0)
        inputs = self.inputs(lambda *shape: torch.randn(shape, generator=rng).to(kind, dtype or DTYPE[kind]))
        return [
            x.detach().requires_grad_(backward) if isinstance(x, Tensor) and x.is_floating_point() else x
            for x in inputs
        ]


def cases(small: bool) -> list[Case]:
    """Return the measured cases.  small: at sizes for a CPU; else at sizes of published measurements."""
    at = 0 if small else 1
    window, block_size, top_k, chunk_size = ((32, 16, 4, 64), (128, 32, 8, 512))[at]
    long = ((1, 2, 1024, 16), (1, 16, 65536, 64))[at]
    chosen: dict[str, Any] = {"chunk_size": chunk_size, "block_size": block_size, "top_k": top_k}
    gated = ((1, 2, 256, 16, 16), (4, 16, 8192, 64, 64))[at]
    return [
        taylor_scan(*((1, 2, 256, 8, 16), (4, 16, 8192, 16, 64))[at]),
        taylor_decode(*((8, 2, 8, 16), (128, 16, 16, 64))[at]),
        taylor_attention(*((4, 1, 128, 8, 32), (64, 1, 256, 16, 64))[at]),
        attention(*((2, 2, 256, 16), (4, 16, 8192, 64))[at]),
        attention(*((1, 2, 512, 16), (4, 16, 8192, 64))[at], window=window),
        linear_attention(*gated),
        gated_linear_attention(*gated, per_channel=False),
        gated_linear_attention(*gated, per_channel=True),
        delta_rule(*gated),
        selective_scan(*((16, 64, 128, 16), (4, 2048, 2048, 16))[at]),
        diagonal_scan(*((1, 256, 32), (4, 2048, 2048))[at]),
        short_conv(*((16, 64, 128, 4), (256, 256, 128, 4))[at]),
        linear_cross_entropy(*((256, 32, 1024), (16384, 128, 8192))[at]),
        se_attention(*long, **chosen),
        se_attention(*((1, 2, 1024, 16), (1, 16, 16384, 64))[at], **chosen, per_token=True),
        block_summaries(*long, block_size=block_size),
        block_choice(*long, **chosen),
        block_choice(*long, **chosen, per_token=True),
    ]


def provable(small: bool = False) -> list[Case]:
    """Return cases at the sizes of a sweep's batch with d_model 128; small: only to see that each runs."""
    B, T, width = (2, 16, 16) if small else (64, 256, 128)
    head = min(64, width)
    return [
        taylor_scan(B, 2, T, 16, head),
        taylor_decode(B, 2, 16, head),
        taylor_attention(B, 2, T, 16, head),
        attention(B, 2, T, head),
        attention(B, 2, T, head, window=T // 4),
        linear_attention(B, 2, T, head, head),
        gated_linear_attention(B, 2, T, head, head, per_channel=False),
        gated_linear_attention(B, 2, T, head, head, per_channel=True),
        delta_rule(B, 2, T, head, head),
        selective_scan(B, T, 2 * width, 16),
        diagonal_scan(B, T, width),
        short_conv(B, T, width, 4),
        linear_cross_entropy(B * T // 4, width, 64 * width),
        se_attention(B, 2, T, head, chunk_size=T // 4, block_size=T // 16, top_k=2),
        block_summaries(B, 2, T, head, block_size=T // 16),
        block_choice(B, 2, T, head, chunk_size=T // 4, block_size=T // 16, top_k=2),
    ]


def prove_all(
    device: str = "cuda", dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16), small: bool = False
) -> Iterator[Verdict]:
    """Call each op as a mixer calls it, under auto, and yield each verdict as soon as it is known."""
    known = set(verdicts_here())
    for case in provable(small):
        call = getattr(import_module(f"zoo.kernels.{case.op}"), case.op)
        for dtype in dtypes:
            with torch.set_grad_enabled(case.trained):
                call(*case.draw(device, case.trained, dtype))
            new = [one for one in verdicts_here() if one not in known]
            known.update(new)
            yield from new


def in_chunks(tokens: int, K: int, V: int) -> float:
    """Return the products of so many tokens that read and write K x V states and read their own chunks."""
    return tokens * (4 * K * V + CHUNK * (K + V))


# Taylor attention, softmax attention ------------------------------------------------------------------------


def taylor_scan(B: int, H: int, T: int, C: int, V: int) -> Case:
    """Return the case of prefill: a sequence from its start, with the sums at its end."""
    features = num_features(C)
    return Case(
        name="taylor prefill",
        op="taylor_scan",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "feature_dim": C, "head_dim": V},
        inputs=lambda draw: [draw(B, H, T, C), draw(B, H, T, C), draw(B, H, T, V), 1e-6, None, None],
        flops=min(B * H * T * T * (C + V), in_chunks(B * H * T, features, V)),
        outputs=B * H * T * V,
        states=B * H * features * (V + 1),
        rivals={"no state": ("taylor_attention", lambda q, k, v, eps, kv, z: [q, k, v, eps])},
    )


def taylor_decode(B: int, H: int, C: int, V: int) -> Case:
    """Return the case of decoding: one token that starts from sums in float32."""
    features = num_features(C)

    def inputs(draw: Draw) -> Inputs:
        sums = draw(B, H, features, V + 1).float().abs()
        tokens = [draw(B, H, 1, C), draw(B, H, 1, C), draw(B, H, 1, V)]
        return [*tokens, 1e-6, sums[..., :V].contiguous(), sums[..., V].contiguous()]

    return Case(
        name="taylor decode",
        op="taylor_scan",
        sizes={"batch": B, "num_heads": H, "seq_len": 1, "feature_dim": C, "head_dim": V},
        inputs=inputs,
        flops=B * H * 4 * features * V,
        outputs=B * H * V,
        states=B * H * features * (V + 1),
        trained=False,
        definition=True,
    )


def taylor_attention(B: int, H: int, T: int, C: int, V: int) -> Case:
    """Return Taylor attention as it is trained."""
    return Case(
        name="taylor attention",
        op="taylor_attention",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "feature_dim": C, "head_dim": V},
        inputs=lambda draw: [draw(B, H, T, C), draw(B, H, T, C), draw(B, H, T, V), 1e-6],
        flops=min(B * H * T * T * (C + V), in_chunks(B * H * T, num_features(C), V)),
        outputs=B * H * T * V,
        definition=True,
        rivals={"with a state": ("taylor_scan", lambda q, k, v, eps: [q, k, v, eps, None, None])},
    )


def attention(B: int, H: int, T: int, C: int, window: int | None = None) -> Case:
    """Return attention over the whole past, or the last `window` tokens."""
    pairs = T * T / 2 if window is None else T * min(T, window)
    return Case(
        name="softmax attention" if window is None else "sliding window",
        op="attention",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "head_dim": C, "window": window},
        inputs=lambda draw: [*(draw(B, H, T, C) for _ in range(3)), window, None],
        flops=4 * B * H * C * pairs,
        outputs=B * H * T * C,
    )


# recurrences, scans, convolutions, the head -----------------------------------------------------------------


def linear_attention(B: int, H: int, T: int, K: int, V: int) -> Case:
    """Return linear attention with its normaliser."""
    return Case(
        name="linear attention",
        op="linear_attention",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "feature_dim": K, "head_dim": V},
        inputs=lambda draw: [*(draw(B, H, T, K).exp() for _ in "qk"), draw(B, H, T, V), 1e-6, None, None],
        flops=in_chunks(B * H * T, K, V),
        outputs=B * H * T * V,
        states=B * H * K * (V + 1),
    )


def gated_linear_attention(B: int, H: int, T: int, K: int, V: int, *, per_channel: bool) -> Case:
    """Return linear attention with a decay for each key channel, or for each head as in Mamba-2's SSD."""
    decays = (B, H, T, K) if per_channel else (B, H, T)

    def inputs(draw: Draw) -> Inputs:
        q, k, v = draw(B, H, T, K), draw(B, H, T, K), draw(B, H, T, V)
        return [q, k, v, F.logsigmoid(draw(*decays) + 3), None]

    return Case(
        name=f"linear attention, a decay a {'channel' if per_channel else 'head'}",
        op="gated_linear_attention",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "key_dim": K, "head_dim": V},
        inputs=inputs,
        flops=in_chunks(B * H * T, K, V),
        outputs=B * H * T * V,
        states=B * H * K * V,
    )


def delta_rule(B: int, H: int, T: int, K: int, V: int) -> Case:
    """Return the gated delta rule.

    A token also reads the state to correct it, and the tokens of a chunk are solved for together.
    """

    def inputs(draw: Draw) -> Inputs:
        q, k = (F.normalize(draw(B, H, T, K), dim=-1) for _ in "qk")
        return [q, k, draw(B, H, T, V), draw(B, H, T).sigmoid(), F.logsigmoid(draw(B, H, T) + 3), None]

    return Case(
        name="gated delta rule",
        op="delta_rule",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "key_dim": K, "head_dim": V},
        inputs=inputs,
        flops=in_chunks(B * H * T, K, V) + B * H * T * (2 * K * V + CHUNK * (K + V)),
        outputs=B * H * T * V,
        states=B * H * K * V,
    )


def selective_scan(B: int, T: int, D: int, N: int) -> Case:
    """Return Mamba's scan; its B T D N exponentials are not counted, though they bound it as bytes do."""

    def inputs(draw: Draw) -> Inputs:
        x, dt, A = draw(B, T, D), F.softplus(draw(B, T, D) - 3), -draw(D, N).float().exp()
        return [x, dt, A, draw(B, T, N), draw(B, T, N), None]

    return Case(
        name="selective scan",
        op="selective_scan",
        sizes={"batch": B, "seq_len": T, "d_inner": D, "d_state": N},
        inputs=inputs,
        outputs=B * T * D,
        states=B * D * N,
    )


def diagonal_scan(B: int, T: int, D: int) -> Case:
    """Return the scan of a diagonal RNN."""
    return Case(
        name="diagonal scan",
        op="diagonal_scan",
        sizes={"batch": B, "seq_len": T, "d_inner": D},
        inputs=lambda draw: [(draw(B, T, D) + 3).sigmoid(), draw(B, T, D), None],
        outputs=B * T * D,
        states=B * D,
    )


def short_conv(B: int, T: int, C: int, K: int) -> Case:
    """Return a short convolution."""
    return Case(
        name="short convolution",
        op="short_conv",
        sizes={"batch": B, "seq_len": T, "channels": C, "kernel_size": K},
        inputs=lambda draw: [draw(B, T, C), draw(K, C), draw(C), None],
        outputs=B * T * C,
    )


def linear_cross_entropy(N: int, D: int, V: int) -> Case:
    """Return the head and its loss in one op."""
    return Case(
        name="head",
        op="linear_cross_entropy",
        sizes={"answers": N, "d_model": D, "vocab_size": V},
        inputs=lambda draw: [x := draw(N, D), 0.02 * draw(V, D), torch.arange(N, device=x.device) % V],
        flops=2 * N * D * V,
        outputs=1,
        definition=True,
    )


# SE-Attn ----------------------------------------------------------------------------------------------------


def se_attention(
    B: int, H: int, T: int, C: int, *, chunk_size: int, block_size: int, top_k: int, per_token: bool = False
) -> Case:
    """Return attention to given blocks, without their choice.

    Every chunk, or every token, has top_k blocks of its past at equal distances; neighbouring tokens choose
    neighbouring blocks.  The rivals attend to everything, and to a window as long as a token sees at most.
    """
    span = chunk_size + block_size * top_k

    def inputs(draw: Draw) -> Inputs:
        q, k, v = (draw(B, H, T, C) for _ in range(3))
        chunks = fixed_chunks(chunk_size, 0, T, q.device)
        past = (chunks.starts[chunks.of_token] if per_token else chunks.starts)[:, None] // block_size
        first = chunks.tokens[:, None] if per_token else 0
        chosen = (past * torch.arange(top_k, device=q.device) // top_k + first) % past.clamp(min=1)
        chosen = torch.where(past >= top_k, chosen, -1)
        return [q, k, v, chosen.expand(B, 1, -1, -1), None, chunks, block_size]

    return Case(
        name="se_attention, a choice a token" if per_token else "se_attention",
        op="se_attention",
        sizes=_se_attn(B, H, T, C, chunk_size, block_size, top_k),
        inputs=inputs,
        flops=4 * B * H * T * C * (chunk_size / 2 + block_size * top_k),
        outputs=B * H * T * C,
        rivals={
            "a window as long": ("attention", lambda q, k, v, *_: [q, k, v, span, None]),
            "everything": ("attention", lambda q, k, v, *_: [q, k, v, None, None]),
        },
    )


def block_summaries(B: int, H: int, T: int, C: int, *, block_size: int) -> Case:
    """Return the summaries that blocks are chosen by: scores inside each block, then one row of values."""
    return Case(
        name="block summaries",
        op="block_summaries",
        sizes={"batch": B, "num_heads": H, "seq_len": T, "head_dim": C, "block_size": block_size},
        inputs=lambda draw: [*(draw(B, H, T, C) for _ in range(3)), block_size],
        flops=2 * B * H * T * C * (block_size + 1),
        outputs=B * H * (T // block_size) * C,
        trained=False,
        definition=True,
    )


def block_choice(
    B: int, H: int, T: int, C: int, *, chunk_size: int, block_size: int, top_k: int, per_token: bool = False
) -> Case:
    """Return the choice by one index set, with a row for each chunk or for each token.

    A row is multiplied with the blocks before its chunk.
    """
    chunks = T // chunk_size
    rows, of_one = (T, chunk_size) if per_token else (chunks, 1)

    def inputs(draw: Draw) -> Inputs:
        queries, summaries = draw(B, H, rows, C), draw(B, H, T // block_size, C).float()
        starts = torch.arange(rows, device=queries.device) // of_one * chunk_size
        return [queries, summaries, starts, 1, block_size, 0, top_k, None]

    return Case(
        name=f"block choice, a {'token' if per_token else 'chunk'}",
        op="block_choice",
        sizes=_se_attn(B, H, T, C, chunk_size, block_size, top_k),
        inputs=inputs,
        flops=2 * B * H * C * of_one * (chunks * (chunks - 1) // 2) * (chunk_size // block_size),
        outputs=B * rows * top_k,
        trained=False,
        definition=True,
    )


def _se_attn(B: int, H: int, T: int, C: int, chunk: int, block: int, top_k: int) -> dict[str, int | None]:
    names = ("batch", "num_heads", "seq_len", "head_dim", "chunk_size", "block_size", "top_k")
    return dict(zip(names, (B, H, T, C, chunk, block, top_k), strict=True))
