"""NSA: faults of public code that must not come back, and which blocks are read."""

import importlib.util
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.mixers.built import built, tokens, two_layers
from zoo.kernels.compressed_attention import block_importance, compressed_attention, selected_blocks
from zoo.mixers.base import Mixer

X, OTHER = tokens(45, batch=1), tokens(45, batch=1, seed=1)
BRANCHES = {"compressed": 0, "selected": 1, "sliding": 2}
SHAPES: list[dict[str, Any]] = [
    {"compress_block_size": 8, "compress_stride": 8, "block_size": 8},
    {"compress_block_size": 6, "compress_stride": 2, "block_size": 4, "num_heads": 4, "num_kv_heads": 2},
    {"compress_block_size": 4, "compress_stride": 2, "block_size": 10, "position": "rope"},
    {"compress_stride": 2, "block_size": 4, "separate_kv": False, "initial_blocks": 0, "local_blocks": 1},
]


def make(branch: str | None = None, **changes: Any) -> Mixer:
    """All branches, or one of them alone."""
    mixer = built("NSA", **({"top_k": 4, "window": 5} | changes))
    if branch is not None:
        torch.nn.init.zeros_(mixer.gate.weight)
        torch.nn.init.constant_(mixer.gate.bias, -1e3)
        with torch.no_grad():
            mixer.gate.bias[BRANCHES[branch] :: 3] = 1e3
    return mixer


def reads(mixer: Mixer, x: Tensor) -> Tensor:
    """[T T]: output t has a gradient with respect to input s."""
    x = x.clone().requires_grad_()
    rows = [torch.autograd.grad(row.square().sum(), x, retain_graph=True)[0] for row in mixer(x)[0]]
    return torch.stack([(row[0] != 0).any(-1) for row in rows])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("branch", BRANCHES)
def test_no_branch_sees_the_future(branch: str, shape: dict[str, Any]):
    """zoology's sliding branch does, by default."""
    mixer = make(branch, **shape)
    with torch.no_grad():
        for t in (9, 16, 30):
            other = torch.cat([X[:, :t], OTHER[:, t:]], dim=1)
            torch.testing.assert_close(mixer(other)[:, :t], mixer(X)[:, :t])
            assert not torch.allclose(mixer(other)[:, t:], mixer(X)[:, t:])


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_length_will_do(shape: dict[str, Any]):
    """zoology asserts that blocks divide the sequence and that both kinds have one size."""
    mixer = make(**shape)
    for length in range(1, 45):
        torch.testing.assert_close(mixer(X[:, :length]), mixer(X)[:, :length])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_sliding_branch_reads_the_window_the_own_token_included(shape: dict[str, Any]):
    expected = torch.ones(45, 45).tril().triu(-4).bool()
    assert reads(make("sliding", **shape), X).equal(expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_selected_branch_reads_whole_blocks_the_fixed_ones_always(shape: dict[str, Any]):
    mixer = make("selected", num_kv_heads=1, **{k: v for k, v in shape.items() if k != "num_kv_heads"})
    size, initial, local = mixer.block_size, mixer.initial_blocks, mixer.local_blocks
    free = set()
    for t, row in enumerate(reads(mixer, X)):
        read = row.nonzero().flatten().tolist()
        blocks, last = sorted({s // size for s in read}), t // size
        assert read == [s for s in range(t + 1) if s // size in blocks]
        assert len(blocks) == min(4, last + 1)
        fixed = {j for j in range(last + 1) if j < initial or j > last - local}
        assert fixed <= set(blocks)
        free |= {(last, j) for j in blocks if j not in fixed}
        touched = mixer.state_size(t).touched // (2 * mixer.kv_dim)
        assert touched == mixer.compress_k.count(t) + len(read) - 1 + min(t, 4)
    assert len(free) >= 3, "importance chooses nothing"


def test_equal_importance_selects_the_lowest_blocks():
    chosen = selected_blocks(torch.zeros(1, 1, 60, 20), 0, 3, 5, 0, 1)[0, 0, 59]
    assert chosen.nonzero().flatten().tolist() == [0, 1, 2, 3, 19]


def test_the_choice_is_fla_cores():
    """fla-core fixes the first block, the last one and the one before it: so does this call."""
    if importlib.util.find_spec("fla") is None:
        pytest.skip("fla-core is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fla.ops.nsa.naive import naive_nsa_topk
    q, k = torch.randn(2, 4, 61, 8, dtype=torch.float64), torch.randn(2, 2, 16, 8, dtype=torch.float64)
    _, weights = compressed_attention(q, k[:, :, :15], k[:, :, :15], 0, 4, 4)
    importance = block_importance(weights.unflatten(1, (2, 2)).sum(2), 4, 4, 4, 61)
    chosen = selected_blocks(importance, 0, 4, 6, 1, 2)
    theirs = naive_nsa_topk(q.transpose(1, 2), k.transpose(1, 2), 6, 4, 8**-0.5).transpose(1, 2)
    expected = torch.zeros(2, 2, 61, 17, dtype=torch.bool).scatter(-1, theirs.where(theirs >= 0, 16), True)
    assert chosen.equal(expected[..., :16])


def test_kept_is_more_than_the_published_count_which_is_what_is_read():
    """zoology: 2 d (n / l + w + n_sel l'), for its widths, window 16, blocks of 8, 4 of them."""
    zoologys = {"compress_stride": 8, "top_k": 4, "initial_blocks": 0, "local_blocks": 1}
    for d_model in (64, 128, 256):
        size = two_layers("nsa", d_model, 1024, **zoologys)
        assert size.paper == 2 * 2 * d_model * (128 + 16 + 32)
        assert size.resident == 2 * 2 * d_model * (1024 + 128 + 15)
        assert size.touched == 2 * 2 * d_model * (128 + 24 + 15)
    one_copy = built("nsa", 64, separate_kv=False, num_heads=4, num_kv_heads=1)
    assert one_copy.state_size(1001).resident == 2 * 16 * (1001 + 249)
