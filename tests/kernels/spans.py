"""Inputs of se_attention: what a mixer hands over, with blocks chosen at random; and a mixer that does so."""

from typing import Any, NamedTuple

import torch

from zoo.kernels.choice import kernels
from zoo.kernels.span_retrieval.chunks import Chunks, drawn_chunks, fixed_chunks
from zoo.kernels.span_retrieval.selection import best_ids
from zoo.mixers import SEAttn


class Call(NamedTuple):
    batch: int
    heads: int
    groups: int
    sets: int
    length: int
    first: int  # position of the first new token
    past: int  # tokens from before it
    chunk: int | tuple[int, ...]  # several: drawn for each, from the first token on
    block: int
    top_k: int
    per_token: bool
    biased: bool


CALLS = [  # sets is 1 or groups; past: whole blocks and the open chunk
    Call(2, 2, 2, 1, 37, 0, 0, 8, 4, 2, False, False),
    Call(2, 4, 2, 2, 61, 0, 0, 12, 3, 3, False, True),
    Call(2, 4, 2, 1, 40, 0, 0, 8, 4, 2, True, True),
    Call(1, 2, 1, 1, 33, 0, 0, 16, 8, 9, True, False),
    Call(1, 4, 2, 2, 21, 29, 13, 8, 4, 2, False, False),  # resumes inside a chunk, the oldest are forgotten
    Call(2, 2, 2, 2, 21, 29, 29, 8, 4, 2, True, True),
    Call(1, 2, 2, 1, 3, 75, 75, 16, 4, 3, False, True),  # inside one chunk
    Call(2, 2, 1, 1, 1, 29, 29, 8, 4, 2, True, False),  # decoding
    Call(1, 1, 1, 1, 20, 0, 0, 64, 4, 2, True, True),  # nothing to choose from
    Call(1, 3, 1, 1, 23, 0, 0, 1, 1, 5, False, False),
    Call(1, 1, 1, 1, 19, 2, 2, 6, 3, 0, False, False),  # no retrieval
]

LONG = Call(1, 2, 1, 1, 300, 40, 40, 128, 32, 2, False, True)  # a chunk in several pieces


def chunks_of(call: Call, device: str) -> Chunks:
    if isinstance(call.chunk, int):
        return fixed_chunks(call.chunk, call.first, call.length, torch.device(device))
    return drawn_chunks(call.chunk, True, 0, 1, call.length, torch.device(device))


def inputs(call: Call, channels: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Any]:
    """Draw q, k, v as pieces of one projection, heads side by side; ids; the bias; chunks; block_size."""
    rng = torch.Generator().manual_seed(call.length + call.first)
    keys = call.past + call.length

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=rng).to(device, dtype)

    q = drawn(call.batch, call.length, call.heads, channels).transpose(1, 2)
    k, v = drawn(call.batch, keys, call.groups, 2 * channels).transpose(1, 2).chunk(2, -1)
    chunks = chunks_of(call, "cpu")
    starts = chunks.starts[chunks.of_token] if call.per_token else chunks.starts
    ends = (call.first - call.past) + call.block * torch.arange(1, keys // call.block + 1)
    scores = torch.randn(call.batch, call.sets, len(starts), len(ends), generator=rng)
    ids = best_ids(scores, ends <= starts[:, None], call.top_k).to(device)
    bias = torch.randn(ids.shape, generator=rng).to(device).requires_grad_() if call.biased else None
    chunks = chunks_of(call, device)
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return [q, k, v, ids if call.top_k else None, bias, chunks, call.block]


def mixer_runs(op: str, changes: dict[str, Any]) -> None:
    """Assert that SE-Attn runs the op's Triton form, on a sequence and its parts, with the same outputs."""
    mixer = SEAttn(d_model=16, num_heads=2, chunk_size=8, **changes)
    x = torch.randn(1, 37, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = mixer(x)
        with kernels("triton") as choice:
            whole = mixer(x)
            head, state = mixer.extend(x[:, :21])
            tail, _ = mixer.extend(x[:, 21:], state)
    assert choice.record()[op] == "triton"
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-5)
