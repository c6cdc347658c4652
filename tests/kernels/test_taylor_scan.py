"""Taylor linear attention with its state, in torch: the chunks against the recurrence, in float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import results, upstreams_of
from zoo.kernels.choice import kernels
from zoo.kernels.taylor_attention import taylor_attention_reference
from zoo.kernels.taylor_scan import chunked, num_features, taylor_scan, taylor_scan_reference

F64 = torch.float64


def inputs_of(length: int, started: bool, channels: int = 5) -> list:
    q, k, v = (torch.randn(2, 3, length, n, dtype=F64, requires_grad=True) for n in (channels, channels, 7))
    if not started:
        return [q, k, v, 0.1, None, None]
    F = num_features(channels)
    kv, z = torch.randn(2, 3, F, 7, dtype=F64), torch.rand(2, 3, F, dtype=F64)
    z[..., 0] += 100
    return [q, k, v, 0.1, kv.requires_grad_(), z.requires_grad_()]


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 21])
def test_chunks_are_the_recurrence(monkeypatch: pytest.MonkeyPatch, length: int, started: bool):
    monkeypatch.setattr(chunked, "CHUNK", 8)
    inputs = inputs_of(length, started)
    upstreams = upstreams_of(taylor_scan_reference, inputs)
    mine = results(chunked.taylor_scan_chunked, inputs, upstreams)
    torch.testing.assert_close(mine, results(taylor_scan_reference, inputs, upstreams))


@pytest.mark.parametrize("channels", [1, 2, 5, 16])
def test_from_the_start_it_is_taylor_attention(channels: int):
    q, k, v, eps, *_ = inputs_of(19, False, channels)
    y, kv, z = taylor_scan(q, k, v, eps)
    torch.testing.assert_close(y, taylor_attention_reference(q, k, v, eps), rtol=1e-12, atol=1e-12)
    assert kv.shape == (2, 3, num_features(channels), 7)
    assert z.shape == kv.shape[:-1]


def test_half_precision_is_summed_in_float32():
    inputs = [x.bfloat16() if isinstance(x, Tensor) else x for x in inputs_of(9, False)]
    for asked in ("auto", "reference"):
        with kernels(asked):
            assert [y.dtype for y in taylor_scan(*inputs)] == [torch.float32] * 3


def test_one_token_needs_no_chunk():
    with kernels("auto") as choice:
        taylor_scan(*inputs_of(1, True))
        taylor_scan(*inputs_of(2, True))
    assert choice.record() == {"taylor_scan": "chunked+reference"}
