"""A linear layer by oneDNN: the same values, and when it is taken."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kernels.agreement import as_near_as_torch
from tests.kernels.cases import linear as drawn
from tests.kernels.cases import single
from zoo.kernels.choice import kernels
from zoo.kernels.linear import onednn
from zoo.kernels.linear.onednn import FEW, linear_onednn, unfit
from zoo.kernels.linear.reference import linear_reference
from zoo.model.linear_layers import by_the_op

ZEN = "processor : 0\nvendor_id : {vendor}\ncpu family : {family}\n\nflags :\n"


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch):
    """Make this machine one on which oneDNN is faster."""
    monkeypatch.setattr(onednn, "_not_faster", lambda: None)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("channels", [3, 4, 5])
@pytest.mark.parametrize("biased", [False, True])
def test_onednn_is_as_near_as_torch(channels: int, biased: bool):
    as_near_as_torch(linear_onednn, linear_reference, single(drawn(200, channels, biased)))
    x, *rest = single(drawn(200, channels, biased))
    as_near_as_torch(linear_onednn, linear_reference, [x.detach().mT.contiguous().mT.requires_grad_(), *rest])


class Strides(TorchDispatchMode):
    """Note how the second factor of every product by oneDNN lies."""

    def __init__(self):
        super().__init__()
        self.dense: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        if "_linear_pointwise" in str(func):
            self.dense.append(args[1].is_contiguous() or args[1].T.is_contiguous())
        return func(*args, **(kwargs or {}))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("wide", [3, 4, 5])
def test_a_factor_that_is_a_slice_is_copied(wide: int):
    """OneDNN makes sums one by one where its second factor has gaps: a thousand times slower."""
    x, weight = torch.ones(9, 2, 4, requires_grad=True), torch.ones(wide, 4, requires_grad=True)
    with Strides() as strides:
        torch.cat([linear_onednn(one, weight) for one in x.unbind(1)], -1).square().sum().backward()
    assert strides.dense == 6 * [True]


def test_only_the_gradients_that_are_needed_are_computed():
    x, weight, bias = drawn(9, 4, True)
    linear_onednn(x.detach(), weight, bias.detach()).sum().backward()
    assert x.grad is None and bias.grad is None
    torch.testing.assert_close(weight.grad, x.detach().sum((0, 1)).expand(4, 4))


@pytest.mark.usefixtures("faster")
def test_onednn_runs_for_many_rows_in_float32():
    x, weight, bias = single(drawn(FEW, 4, True))
    assert unfit(x, weight, bias) is None
    assert "float32" in str(unfit(x.double(), weight.double()))
    assert f"{FEW} rows" in str(unfit(x[0, 1:], weight))
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in str(unfit(x, weight))
    reasons = []
    vmap(lambda x: [x, reasons.append(unfit(x, weight))][0])(torch.stack([x, x]))
    assert reasons == ["torch.func cannot lift it"]


@pytest.mark.parametrize(
    ("vendor", "family", "faster"),
    [("AuthenticAMD", 26, True), ("AuthenticAMD", 25, False), ("GenuineIntel", 26, False)],
)
def test_onednn_runs_only_on_processors_that_mkl_slows(
    vendor: str, family: int, faster: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(Path, "read_text", lambda path: ZEN.format(vendor=vendor, family=family))
    assert (onednn._not_faster.__wrapped__() is None) == faster
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert onednn._not_faster.__wrapped__() is not None


@pytest.mark.usefixtures("faster")
def test_every_linear_layer_of_a_model_calls_the_op():
    layers = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4, bias=False), nn.LayerNorm(4)))
    before = {name: weight.clone() for name, weight in layers.state_dict().items()}
    x = torch.randn(FEW, 4, generator=torch.Generator().manual_seed(0))
    expected = layers(x)
    by_the_op(layers)
    for kind, form in (("auto", "onednn"), ("reference", "reference")):
        with kernels(kind) as choice:
            torch.testing.assert_close(layers(x), expected)
        assert choice.record() == {"linear": form}
    assert all(torch.equal(weight, before[name]) for name, weight in layers.state_dict().items())
