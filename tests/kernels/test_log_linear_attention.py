"""Log-linear attention: blocks against the recurrence, and both against every pair of tokens by itself."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from zoo.kernels.log_linear_attention import (
    log_linear_attention,
    log_linear_attention_chunked,
    log_linear_attention_reference,
)
from zoo.kernels.log_linear_attention.chunked import CHUNK, _levels, _runs

LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]


def draw(T: int) -> list[Tensor]:
    """q, k, v, log_decay and scales of two sequences with two heads."""
    rng = torch.Generator().manual_seed(T)
    shapes = [(T, 3), (T, 3), (T, 4), (T,), (T, 9)]
    q, k, v, decay, scales = (torch.randn(2, 2, *s, dtype=torch.float64, generator=rng) for s in shapes)
    return [x.requires_grad_() for x in (q, k, v, -decay.exp() / 4, scales.exp())]


def loss(y: Tensor, S: Tensor) -> Tensor:
    return y.sin().sum() + S.cos().sum()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("seen", [0, 1, 6, CHUNK, 2 * CHUNK + 3])
def test_blocks_agree_with_the_recurrence_from_any_start(length: int, seen: int):
    state = torch.randn(2, seen.bit_count(), 2, 3, 4, dtype=torch.float64).requires_grad_() if seen else None
    inputs = draw(length)
    out = [
        form(*inputs, state, seen) for form in (log_linear_attention_chunked, log_linear_attention_reference)
    ]
    assert out[0][1].shape[1] == (seen + length).bit_count()
    torch.testing.assert_close(*out, rtol=1e-10, atol=1e-11)
    leaves = inputs if state is None else [*inputs, state]
    gradients = [torch.autograd.grad(loss(*o), leaves, materialize_grads=True) for o in out]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-11)


def test_levels_are_the_pieces_of_the_papers_figure():
    """Of token 6 = 110b: itself, the two tokens 4 and 5, the four before them."""
    assert _levels(8, torch.device("cpu"))[6].tolist()[:7] == [3, 3, 3, 3, 2, 2, 0]
    assert _levels(8, torch.device("cpu"))[7].tolist() == [3, 3, 3, 3, 2, 2, 1, 0]


@pytest.mark.parametrize("start", [0, 1, 5, CHUNK, 3 * CHUNK + 17])
def test_blocks_fill_the_sequence_and_stand_at_multiples_of_their_size(start: int):
    for length in range(1, 4 * CHUNK):
        at = start
        for size, count in _runs(start, length):
            assert at % size == 0
            assert count == 1 or size == CHUNK
            at += size * count
        assert at == start + length


def test_with_all_scales_one_it_is_gated_linear_attention():
    q, k, v, decay, scales = draw(CHUNK + 5)
    y, states = log_linear_attention_chunked(q, k, v, decay, torch.ones_like(scales))
    sums = decay.cumsum(-1)
    weights = (q @ k.mT * (sums[..., :, None] - sums[..., None, :]).tril().exp()).tril()
    torch.testing.assert_close(y, weights @ v)
    left = (sums[..., -1:] - sums).exp()[..., None]
    torch.testing.assert_close(states.sum(1), (k * left).mT @ v)


def test_a_population_runs_as_its_members_do():
    members = [draw(CHUNK + 3), [x.detach() / 2 for x in draw(CHUNK + 3)]]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(log_linear_attention)(*stacks)
    alone = [
        torch.stack(p)
        for p in zip(*(log_linear_attention(*s) for s in zip(*stacks, strict=True)), strict=True)
    ]
    torch.testing.assert_close(list(together), alone, rtol=1e-11, atol=1e-11)
    got, want = (torch.autograd.grad(loss(*out), stacks) for out in (together, alone))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
