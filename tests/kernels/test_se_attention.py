"""Attention to a chunk and to chosen blocks: the form in torch that is taken."""

import pytest
import torch

from tests.kernels.spans import Call, inputs
from zoo.kernels.choice import kernels
from zoo.kernels.se_attention import se_attention
from zoo.kernels.se_attention.gathered import se_attention_gathered
from zoo.kernels.span_retrieval import drawn_chunks


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
