"""Attention to a chunk and to chosen blocks: the forms in torch agree, alone and stacked."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from tests.kernels.agreement import results, upstreams_of, widened
from tests.kernels.spans import CALLS, Call, inputs
from zoo.kernels.choice import kernels
from zoo.kernels.se_attention import gathered, se_attention, se_attention_gathered, se_attention_reference
from zoo.kernels.span_retrieval import drawn_chunks

each_call = pytest.mark.parametrize("call", CALLS, ids=str)


@pytest.mark.parametrize("logits", [1, 900, 2**21], ids=["pieces", "chunks", "whole"])
@each_call
def test_outputs_and_gradients(call: Call, logits: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gathered, "LOGITS", logits)
    given = widened(inputs(call, 5))
    upstreams = upstreams_of(se_attention_reference, given)
    expected, found = (
        results(form, given, upstreams) for form in (se_attention_reference, se_attention_gathered)
    )
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_a_long_chunk_is_cut_into_pieces():
    call = Call(1, 2, 1, 1, 300, 40, 40, 128, 32, 2, False, True)
    gathered_too = widened(inputs(call, 5))
    upstreams = upstreams_of(se_attention_reference, gathered_too)
    expected = results(se_attention_reference, gathered_too, upstreams)
    torch.testing.assert_close(
        results(se_attention_gathered, gathered_too, upstreams), expected, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("call", [CALLS[1], CALLS[2], CALLS[4]], ids=str)
def test_stacked_members_are_more_of_the_batch(call: Call):
    """One outer backward through vmap, as a population trains; a bias and keys of each member's own."""
    q, k, v, ids, bias, chunks, size = widened(inputs(call, 4))
    stacked = [torch.stack([x.detach(), 2 * x.detach()]).requires_grad_() for x in (q, k, v)]
    ids = torch.stack([ids, ids.flip(0)])
    biases = None if bias is None else torch.stack([bias.detach(), -bias.detach()]).requires_grad_()

    def member(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, bias: Tensor | None) -> Tensor:
        return se_attention_gathered(q, k, v, ids, bias, chunks, size)

    y = vmap(member, in_dims=(0, 0, 0, 0, None if biases is None else 0))(*[*stacked, ids, biases])
    wanted = [x for x in (*stacked, biases) if x is not None]
    upstream = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    grads = torch.autograd.grad(y, wanted, upstream)
    for i in range(2):
        own = [x[i].detach().requires_grad_() for x in wanted]
        given = [*own[:3], ids[i], own[3] if biases is not None else None, chunks, size]
        alone = results(se_attention_reference, given, [upstream[i]])
        torch.testing.assert_close([y[i], *(g[i] for g in grads)], alone, rtol=1e-10, atol=1e-12)


def test_what_is_wide_is_gathered_and_the_record_says_so():
    for call, expected in (
        (Call(1, 1, 1, 1, 600, 0, 0, 16, 4, 2, True, False), "gathered"),
        (Call(1, 1, 1, 1, 1, 512, 512, 16, 4, 2, True, False), "gathered"),
        (Call(1, 1, 1, 1, 512, 0, 0, 256, 4, 2, False, False), "reference"),
        (Call(1, 1, 1, 1, 128, 0, 0, 16, 4, 2, False, False), "reference"),
    ):
        with kernels("auto") as choice:
            se_attention(*inputs(call, 4))
        assert choice.record() == {"se_attention": expected}


def test_chunks_of_several_sizes_go_under_the_mask():
    call = Call(1, 1, 1, 1, 512, 0, 0, 16, 4, 2, True, False)
    q, k, v, ids, bias, _, size = inputs(call, 4)
    chunks = drawn_chunks([8, 16], True, 0, 1, 512, torch.device("cpu"))
    with kernels("auto") as choice:
        se_attention(q, k, v, ids, bias, chunks, size)
    assert choice.record() == {"se_attention": "reference"}
    with pytest.raises(ValueError, match="chunks of different sizes"):
        se_attention_gathered(q, k, v, ids, bias, chunks, size)
