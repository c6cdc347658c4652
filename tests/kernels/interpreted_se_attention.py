"""Run by test_interpreted.py: attention to a chunk and chosen blocks in Triton's interpreter, in float32,
against float64."""

import pytest
import torch

from tests.kernels import test_se_attention_gpu as on_a_card
from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from tests.kernels.spans import Call, inputs, mixer_runs
from zoo.kernels.choice import kernels
from zoo.kernels.se_attention import se_attention, se_attention_reference
from zoo.kernels.se_attention.triton import se_attention_triton

CALLS = [
    Call(1, 2, 1, 1, 76, 0, 0, 60, 4, 2, False, True),  # a tile of queries and one of keys in two chunks
    Call(1, 1, 1, 1, 70, 0, 0, 24, 6, 1, True, True),
    Call(2, 2, 2, 2, 20, 29, 13, 8, 4, 2, False, False),  # resumes inside a chunk, the oldest are forgotten
    Call(1, 2, 2, 2, 20, 29, 29, 8, 4, 2, True, False),
    Call(1, 1, 1, 1, 3, 75, 75, 16, 4, 3, False, True),  # inside one chunk
    Call(2, 1, 1, 1, 1, 135, 135, 70, 2, 3, True, False),  # decoding, past the first tile of its chunk
    Call(1, 1, 1, 1, 19, 2, 2, 6, 3, 0, False, False),  # no retrieval
    Call(1, 1, 1, 1, 7, 0, 0, 64, 4, 2, True, True),  # nothing to choose from
    Call(1, 2, 1, 1, 70, 0, 0, 20, 20, 2, True, True),  # a block in several tiles
    Call(1, 2, 1, 1, 67, 0, 0, (4, 20, 32), 4, 2, False, False),  # chunks of several sizes
    Call(1, 2, 2, 2, 71, 0, 0, (6, 30), 3, 2, True, True),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_outputs_and_gradients(call: Call):
    as_near_as_torch(se_attention_triton, se_attention_reference, inputs(call, 5))


def test_a_block_that_no_tile_of_keys_holds():
    as_near_as_torch(
        se_attention_triton,
        se_attention_reference,
        inputs(Call(1, 1, 1, 1, 150, 0, 0, 130, 130, 1, False, True), 4),
    )


@pytest.mark.parametrize(("per_token", "bias_dim"), [(False, None), (True, 1)])
def test_stacked_members_are_more_of_the_batch(per_token: bool, bias_dim: int | None):
    """All members have made the same choice."""
    chunk = (4, 8) if per_token else 4
    given = inputs(Call(2, 1, 1, 1, 10, 0, 0, chunk, 4, 1, per_token, True), 4)
    members_as_alone(se_attention_triton, given, (0, 1, 2, None, bias_dim, None, None))


def test_gradients_inside_vmap():
    gradients_inside_vmap(se_attention_triton, inputs(Call(1, 1, 1, 1, 7, 0, 0, 4, 2, 1, False, True), 3))


@pytest.mark.parametrize("changes", [{"selection": "first"}, {"gate": "bias", "num_kv_heads": 1}], ids=str)
def test_a_mixer_runs_it_when_asked(changes: dict):
    """Whole sequences through the kernel, then in parts: the split law in float32."""
    mixer_runs("se_attention", changes)


def test_a_mixer_trains_on_drawn_chunks():
    """Both draw the same."""
    from zoo.mixers import SEAttn

    settings = {"chunk_size": [4, 8], "chunk_sampling": "per_chunk", "eval_chunk_size": 8}
    usual, ours = (SEAttn(d_model=16, num_heads=2, selection="first", **settings) for _ in range(2))
    ours.load_state_dict(usual.state_dict())
    x = torch.randn(1, 37, 16, generator=torch.Generator().manual_seed(0))
    with kernels("triton") as choice:
        y = ours(x)
    assert choice.record() == dict.fromkeys(("block_choice", "block_summaries", "se_attention"), "triton")
    torch.testing.assert_close(y, usual(x), rtol=1e-4, atol=1e-5)


def test_what_it_cannot_take_is_refused_with_a_reason():
    call = Call(1, 2, 2, 1, 16, 0, 0, 8, 4, 1, False, False)
    q, k, v, ids, bias, chunks, size = inputs(call, 4)
    wide = [torch.zeros(1, 2, 16, 65)] * 3
    drawn = inputs(Call(1, 1, 1, 1, 16, 0, 0, (4, 8), 4, 1, False, True), 4)
    for given, says in (
        ([q.double(), k.double(), v.double(), ids, bias, chunks, size], "float64"),
        ([*wide, ids, bias, chunks, size], r"head_dim \(=65\) must be at most 64"),
        (drawn, "chunks of one size"),
        ([q, k, v, ids.expand(-1, 3, -1, -1), bias, chunks, size], r"index sets \(=3\)"),
        ([q, k, v, ids[:, :, :1, :1].expand(-1, -1, 2, 2**21), bias, chunks, size], "choices of all rows"),
    ):
        with kernels("triton"), pytest.raises(ValueError, match=f"cannot run se_attention: .*{says}"):
            se_attention(*given)


def test_what_the_gpu_tests_do_works_on_small_calls():
    """All but the card: the same functions, on the CPU."""
    call = Call(1, 1, 1, 1, 12, 0, 0, 8, 4, 1, True, True)
    on_a_card.near(call, 8, torch.float32, "cpu")
    on_a_card.twice(call, 8, torch.float32, "cpu")
