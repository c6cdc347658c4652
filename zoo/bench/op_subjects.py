"""The ops that `zoo.bench ops` measures: their sizes, and inputs such as a mixer gives them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.bench.flex import flex
from zoo.bench.op_subject import CHUNK, Draw, Inputs, Subject, in_chunks, sizes, taylor_features
from zoo.bench.span_subjects import block_choice, block_summaries, se_attention


def subjects(small: bool) -> list[Subject]:
    """Return all subjects.  small: at sizes for a CPU; else at those of the published measurements and of
    this package's sweeps.
    """

    def of(few: tuple[int, ...], many: tuple[int, ...]) -> tuple[int, ...]:
        return few if small else many

    window = 32 if small else 128
    block_size, top_k, chunk_size = of((16, 4, 64), (32, 8, 512))
    long = of((1, 2, 1024, 16), (1, 16, 65536, 64))
    chosen = {"chunk_size": chunk_size, "block_size": block_size, "top_k": top_k}
    gated = of((1, 2, 256, 16, 16), (4, 16, 8192, 64, 64))
    return [
        taylor_scan(*of((1, 2, 256, 8, 16), (4, 16, 8192, 16, 64))),
        taylor_decode(*of((8, 2, 8, 16), (128, 16, 16, 64))),
        taylor_attention(*of((4, 1, 128, 8, 32), (64, 1, 256, 16, 64))),
        attention(*of((2, 2, 256, 16), (4, 16, 8192, 64))),
        attention(*of((1, 2, 512, 16), (4, 16, 8192, 64)), window=window),
        window_decode(*of((8, 2, 16), (128, 16, 64)), window=window),
        linear_attention(*gated),
        gated_linear_attention(*gated, per_channel=False),
        gated_linear_attention(*gated, per_channel=True),
        delta_rule(*gated),
        selective_scan(*of((16, 64, 128, 16), (4, 2048, 2048, 16))),
        diagonal_scan(*of((1, 256, 32), (4, 2048, 2048))),
        short_conv(*of((16, 64, 128, 4), (256, 256, 128, 4))),
        linear_cross_entropy(*of((256, 32, 1024), (16384, 128, 8192))),
        se_attention(*long, **chosen),
        se_attention(*of((1, 2, 1024, 16), (1, 16, 16384, 64)), **chosen, per_token=True),
        block_summaries(*long, block_size=block_size),
        block_choice(*long, **chosen),
        block_choice(*long, **chosen, per_token=True),
    ]


def taylor_scan(B: int, H: int, T: int, C: int, V: int) -> Subject:
    """Return prefill: a sequence from its start, its sums at the end."""
    features = taylor_features(C)
    quadratic = B * H * T * T * (C + V)
    return Subject(
        name="taylor prefill",
        op="taylor_scan",
        words=sizes(batch=B, num_heads=H, seq_len=T, feature_dim=C, head_dim=V),
        tokens=B * T,
        inputs=lambda draw: [draw(B, H, T, C), draw(B, H, T, C), draw(B, H, T, V), 1e-6, None, None],
        flops=min(quadratic, in_chunks(B * H * T, features, V)),
        outputs=B * H * T * V,
        states=B * H * features * (V + 1),
        rivals={"no state": ("taylor_attention", lambda q, k, v, eps, kv, z: [q, k, v, eps])},
    )


def taylor_decode(B: int, H: int, C: int, V: int) -> Subject:
    """Return decoding: one token on sums in float32."""
    features = taylor_features(C)

    def inputs(draw: Draw) -> Inputs:
        sums = draw(B, H, features, V + 1).float().abs()
        tokens = [draw(B, H, 1, C), draw(B, H, 1, C), draw(B, H, 1, V)]
        return [*tokens, 1e-6, sums[..., :V].contiguous(), sums[..., V].contiguous()]

    return Subject(
        name="taylor decode",
        op="taylor_scan",
        words=sizes(batch=B, num_heads=H, seq_len=1, feature_dim=C, head_dim=V),
        tokens=B,
        inputs=inputs,
        flops=B * H * 4 * features * V,
        outputs=B * H * V,
        states=B * H * features * (V + 1),
        trained=False,
        definition=True,
    )


def taylor_attention(B: int, H: int, T: int, C: int, V: int) -> Subject:
    """Return Taylor attention as it trains."""
    return Subject(
        name="taylor attention",
        op="taylor_attention",
        words=sizes(batch=B, num_heads=H, seq_len=T, feature_dim=C, head_dim=V),
        tokens=B * T,
        inputs=lambda draw: [draw(B, H, T, C), draw(B, H, T, C), draw(B, H, T, V), 1e-6],
        flops=min(B * H * T * T * (C + V), in_chunks(B * H * T, taylor_features(C), V)),
        outputs=B * H * T * V,
        definition=True,
        rivals={"with a state": ("taylor_scan", lambda q, k, v, eps: [q, k, v, eps, None, None])},
    )


def attention(B: int, H: int, T: int, C: int, window: int | None = None) -> Subject:
    """Return attention over the whole past, or the last `window` tokens."""
    pairs = T * T / 2 if window is None else T * min(T, window)
    return Subject(
        name="softmax attention" if window is None else "sliding window",
        op="attention",
        words=sizes(batch=B, num_heads=H, seq_len=T, head_dim=C, window=window),
        tokens=B * T,
        inputs=lambda draw: [*(draw(B, H, T, C) for _ in range(3)), window, None],
        flops=4 * B * H * C * pairs,
        outputs=B * H * T * C,
        on_a_device={"FlexAttention": lambda q, k, v, window, slopes: flex(q, k, v, window)},
    )


def window_decode(B: int, H: int, C: int, window: int) -> Subject:
    """Return the next token after a full window, and the next window, which is written."""

    def joined(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor, *others: Any) -> Inputs:
        return [q, torch.cat([past_k, k], 2), torch.cat([past_v, v], 2), *others]

    return Subject(
        name="window decode",
        op="window_decode",
        words=sizes(batch=B, num_heads=H, seq_len=1, head_dim=C, window=window),
        tokens=B,
        inputs=lambda draw: [
            *(draw(B, H, 1, C) for _ in range(3)),
            *(draw(B, H, window - 1, C) for _ in range(2)),
            *(window, None),
        ],
        flops=4 * B * H * C * window,
        outputs=B * H * C * (1 + 2 * (window - 1)),
        trained=False,
        definition=True,
        rivals={"attention": ("attention", joined)},
    )


def linear_attention(B: int, H: int, T: int, K: int, V: int) -> Subject:
    """Return linear attention with its normaliser."""
    return Subject(
        name="linear attention",
        op="linear_attention",
        words=sizes(batch=B, num_heads=H, seq_len=T, feature_dim=K, head_dim=V),
        tokens=B * T,
        inputs=lambda draw: [
            *(draw(B, H, T, K).exp() for _ in range(2)),
            *(draw(B, H, T, V), 1e-6, None, None),
        ],
        flops=in_chunks(B * H * T, K, V),
        outputs=B * H * T * V,
        states=B * H * K * (V + 1),
    )


def gated_linear_attention(B: int, H: int, T: int, K: int, V: int, *, per_channel: bool) -> Subject:
    """Return linear attention with a decay a channel of the keys, or a head, as Mamba-2's SSD has."""
    decays = (B, H, T, K) if per_channel else (B, H, T)
    return Subject(
        name=f"linear attention, a decay a {'channel' if per_channel else 'head'}",
        op="gated_linear_attention",
        words=sizes(batch=B, num_heads=H, seq_len=T, key_dim=K, head_dim=V),
        tokens=B * T,
        inputs=lambda draw: [
            *(draw(B, H, T, K) for _ in range(2)),
            *(draw(B, H, T, V), F.logsigmoid(draw(*decays) + 3), None),
        ],
        flops=in_chunks(B * H * T, K, V),
        outputs=B * H * T * V,
        states=B * H * K * V,
    )


def delta_rule(B: int, H: int, T: int, K: int, V: int) -> Subject:
    """Return the gated delta rule.

    A token also reads the state to correct it, and is solved for among its chunk.
    """
    return Subject(
        name="gated delta rule",
        op="delta_rule",
        words=sizes(batch=B, num_heads=H, seq_len=T, key_dim=K, head_dim=V),
        tokens=B * T,
        inputs=lambda draw: [
            *(F.normalize(draw(B, H, T, K), dim=-1) for _ in range(2)),
            *(draw(B, H, T, V), draw(B, H, T).sigmoid(), F.logsigmoid(draw(B, H, T) + 3), None),
        ],
        flops=in_chunks(B * H * T, K, V) + B * H * T * (2 * K * V + CHUNK * (K + V)),
        outputs=B * H * T * V,
        states=B * H * K * V,
    )


def selective_scan(B: int, T: int, D: int, N: int) -> Subject:
    """Return Mamba's scan, which has no product of matrices.

    B T D N exponentials, which bound it beside bytes, are not counted.
    """
    return Subject(
        name="selective scan",
        op="selective_scan",
        words=sizes(batch=B, seq_len=T, d_inner=D, d_state=N),
        tokens=B * T,
        inputs=lambda draw: [
            *(draw(B, T, D), F.softplus(draw(B, T, D) - 3), -draw(D, N).float().exp()),
            *(draw(B, T, N), draw(B, T, N), None),
        ],
        flops=0.0,
        outputs=B * T * D,
        states=B * D * N,
    )


def diagonal_scan(B: int, T: int, D: int) -> Subject:
    """Return a scan without a product of matrices."""
    return Subject(
        name="diagonal scan",
        op="diagonal_scan",
        words=sizes(batch=B, seq_len=T, d_inner=D),
        tokens=B * T,
        inputs=lambda draw: [(draw(B, T, D) + 3).sigmoid(), draw(B, T, D), None],
        flops=0.0,
        outputs=B * T * D,
        states=B * D,
    )


def short_conv(B: int, T: int, C: int, K: int) -> Subject:
    """Return a short convolution, which has no product of matrices."""
    return Subject(
        name="short convolution",
        op="short_conv",
        words=sizes(batch=B, seq_len=T, channels=C, kernel_size=K),
        tokens=B * T,
        inputs=lambda draw: [draw(B, T, C), draw(K, C), draw(C), None],
        flops=0.0,
        outputs=B * T * C,
    )


def linear_cross_entropy(N: int, D: int, V: int) -> Subject:
    """Return the head and its loss in one op."""

    def inputs(draw: Draw) -> Inputs:
        x = draw(N, D)
        return [x, 0.02 * draw(V, D), torch.arange(N, device=x.device) % V]

    return Subject(
        name="head",
        op="linear_cross_entropy",
        words=sizes(answers=N, d_model=D, vocab_size=V),
        tokens=N,
        inputs=inputs,
        flops=2 * N * D * V,
        outputs=1,
        definition=True,
    )
