"""NSA: which blocks are read, and the size of its state."""

import importlib.util
import warnings
from typing import Any

import pytest
import torch

from tests.mixers.built import built, tokens, two_layers
from zoo.kernels.compressed_attention import block_importance, compressed_attention, selected_blocks

SHAPES: list[dict[str, Any]] = [
    {"compress_block_size": 8, "compress_stride": 8, "block_size": 8},
    {"compress_block_size": 6, "compress_stride": 2, "block_size": 4, "num_heads": 4},
    {"compress_block_size": 4, "compress_stride": 2, "block_size": 10, "position": "rope"},
    {"compress_stride": 2, "block_size": 4, "separate_kv": False, "initial_blocks": 0, "local_blocks": 1},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_selected_branch_reads_whole_blocks_the_fixed_ones_always(shape: dict[str, Any]):
    """The gates are open for the selected branch alone."""
    mixer = built("NSA", top_k=4, window=5, num_kv_heads=1, **shape)
    torch.nn.init.zeros_(mixer.gate.weight)
    mixer.gate.bias.data = torch.tensor([-1e3, 1e3, -1e3], dtype=torch.float64).repeat(mixer.num_heads)
    x = tokens(45, batch=1).requires_grad_()
    size, initial, local = mixer.block_size, mixer.initial_blocks, mixer.local_blocks
    free = set()
    for t, row in enumerate(mixer(x)[0]):
        (grad,) = torch.autograd.grad(row.square().sum(), x, retain_graph=True)
        read = (grad[0] != 0).any(-1).nonzero().flatten().tolist()
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
