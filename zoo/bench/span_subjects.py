"""SE-Attn in `zoo.bench ops`: the summaries of blocks, the choice of blocks, and attention to them."""

import torch

from zoo.bench.flex import flex
from zoo.bench.op_subject import Draw, Inputs, Subject, sizes
from zoo.kernels.span_retrieval import fixed_chunks

WINDOW, WHOLE = "a window as long", "everything"  # what a choice of blocks stands in for


def se_attention(
    B: int, H: int, T: int, C: int, *, chunk_size: int, block_size: int, top_k: int, per_token: bool = False
) -> Subject:
    """Return the attention alone, to blocks that were chosen.

    Every chunk, or token, has top_k of its past, at equal distances; tokens that follow one another choose
    blocks that do.

    Against attention to everything, and to a window as long as what a token sees at most, chunk and blocks.
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

    return Subject(
        name="se_attention, a choice a token" if per_token else "se_attention",
        op="se_attention",
        words=f"{sizes(batch=B, num_heads=H, seq_len=T, head_dim=C)} "
        f"{sizes(chunk_size=chunk_size, block_size=block_size, top_k=top_k)}",
        tokens=B * T,
        inputs=inputs,
        flops=4 * B * H * T * C * (chunk_size / 2 + block_size * top_k),
        outputs=B * H * T * C,
        rivals={
            WINDOW: ("attention", lambda q, k, v, *_: [q, k, v, span, None]),
            WHOLE: ("attention", lambda q, k, v, *_: [q, k, v, None, None]),
        },
        on_a_device={
            f"{WINDOW}: FlexAttention": lambda q, k, v, *_: flex(q, k, v, span),
            f"{WHOLE}: FlexAttention": lambda q, k, v, *_: flex(q, k, v),
        },
    )


def block_summaries(B: int, H: int, T: int, C: int, *, block_size: int) -> Subject:
    """Return the summaries that blocks are chosen by: scores inside each, then one row of values."""
    return Subject(
        name="block summaries",
        op="block_summaries",
        words=sizes(batch=B, num_heads=H, seq_len=T, head_dim=C, block_size=block_size),
        tokens=B * T,
        inputs=lambda draw: [*(draw(B, H, T, C) for _ in range(3)), block_size],
        flops=2 * B * H * T * C * (block_size + 1),
        outputs=B * H * (T // block_size) * C,
        trained=False,
        definition=True,
    )


def block_choice(
    B: int, H: int, T: int, C: int, *, chunk_size: int, block_size: int, top_k: int, per_token: bool = False
) -> Subject:
    """Return the choice by one index set, a row a chunk or a token.

    A row's products are those with the blocks before its chunk.
    """
    chunks = T // chunk_size
    rows, of_one = (T, chunk_size) if per_token else (chunks, 1)

    def inputs(draw: Draw) -> Inputs:
        queries, summaries = draw(B, H, rows, C), draw(B, H, T // block_size, C).float()
        starts = torch.arange(rows, device=queries.device) // of_one * chunk_size
        return [queries, summaries, starts, 1, block_size, 0, top_k, None]

    return Subject(
        name=f"block choice, a {'token' if per_token else 'chunk'}",
        op="block_choice",
        words=f"{sizes(batch=B, num_heads=H, seq_len=T, head_dim=C)} "
        f"{sizes(chunk_size=chunk_size, block_size=block_size, top_k=top_k)}",
        tokens=B * T,
        inputs=inputs,
        flops=2 * B * H * C * of_one * (chunks * (chunks - 1) // 2) * (chunk_size // block_size),
        outputs=B * rows * top_k,
        trained=False,
        definition=True,
    )
