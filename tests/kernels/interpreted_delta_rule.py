"""Run by test_interpreted.py: the delta rule in Triton's interpreter, in float32, against float64."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.delta_rule import delta_rule, delta_rule_reference, triton
from zoo.kernels.delta_rule.triton import delta_rule_triton

HEADS = 2


def draw(length: int, K: int, V: int, writes: int = 1, strength: float = 1.0, batch: int = 1) -> list[Any]:
    """q, k, v, beta, log_decay and a first state; k and v as pieces of one projection, as mixers have them.

    Keys have norm 1, and half of them are the same: the more they overlap, the harder is the inverse.
    """
    rng = torch.Generator().manual_seed(length + K)

    def heads(count: int, size: int) -> Tensor:
        return torch.randn(batch, count, HEADS, size, generator=rng).transpose(1, 2)

    total = writes * length
    k, v = heads(total, K + V).split([K, V], -1)
    k = F.normalize(torch.where(torch.rand(total, 1, generator=rng) < 0.5, k, k[:, :, :1]), dim=-1)
    beta, decay = heads(total, 2).unbind(-1)
    state = torch.randn(batch, HEADS, K, V, generator=rng)
    inputs = (heads(length, K), k, v, 2 * beta.sigmoid(), -strength * F.softplus(decay), state)
    return [x.detach().requires_grad_() for x in inputs]


@pytest.mark.parametrize(
    ("length", "K", "V", "writes", "strength"),
    [
        (1, 1, 2, 1, 1),
        (63, 5, 3, 1, 0.01),
        pytest.param(64, 16, 33, 1, 1, marks=pytest.mark.slow),
        pytest.param(65, 24, 17, 1, 300, marks=pytest.mark.slow),
        (50, 9, 4, 3, 1),
        (70, 70, 20, 1, 0.1),  # the state in two halves
    ],
)
def test_outputs_states_and_gradients(length: int, K: int, V: int, writes: int, strength: float):
    inputs = draw(length, K, V, writes, strength)
    as_near_as_torch(delta_rule_triton, delta_rule_reference, inputs, factor=8)


def test_chunks_of_32(monkeypatch: pytest.MonkeyPatch):
    """As float32 has them before Hopper."""
    monkeypatch.setattr(triton, "chunk_of", lambda bits: 32)
    as_near_as_torch(delta_rule_triton, delta_rule_reference, draw(70, 9, 4), factor=8)


@pytest.mark.parametrize(("with_decay", "with_state"), [(False, False), (False, True), (True, False)])
def test_without_decay_or_a_first_state(with_decay: bool, with_state: bool):
    *inputs, decay, state = draw(66, 6, 5)
    inputs += [decay if with_decay else None, state if with_state else None]
    as_near_as_torch(delta_rule_triton, delta_rule_reference, inputs, factor=8)


def test_one_output_has_gradients_without_the_other():
    inputs = draw(9, 4, 3)
    for which in (0, 1):
        got, want = (
            torch.autograd.grad(form(*inputs)[which].sum(), inputs, allow_unused=True, materialize_grads=True)
            for form in (delta_rule_triton, delta_rule_reference)
        )
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_one_sequence_in_two_pieces():
    *inputs, state = (x.detach() for x in draw(90, 7, 6))
    whole = delta_rule_triton(*[*inputs, state])
    head, state = delta_rule_triton(*[x[:, :, :71] for x in inputs] + [state])
    tail, state = delta_rule_triton(*[x[:, :, 71:] for x in inputs] + [state])
    torch.testing.assert_close((torch.cat([head, tail], 2), state), whole, rtol=1e-5, atol=1e-5)


def test_all_is_forgotten_where_log_decay_is_minus_infinity():
    q, k, v, beta, decay, state = draw(20, 4, 3)
    decay = torch.where(torch.arange(20) == 9, -torch.inf, decay).detach().requires_grad_()
    y, last = delta_rule_triton(q, k, v, beta, decay, state)
    want, until = delta_rule_reference(q, k, v, beta, decay.detach(), state)
    torch.testing.assert_close((y, last), (want, until), rtol=1e-5, atol=1e-6)
    assert all(x.isfinite().all() for x in torch.autograd.grad(y.sum() + last.sum(), [q, k, v, beta, decay]))


def test_what_is_no_number_is_not_hidden():
    q, k, v, beta, decay, state = (x.detach() for x in draw(5, 4, 3))
    decay[0, 0, 2] = torch.nan
    y, last = delta_rule_triton(q, k, v, beta, decay, state)
    assert y[0, 0, 2:].isnan().all() and last[0, 0].isnan().all() and last[0, 1].isfinite().all()


@pytest.mark.parametrize(("with_decay", "in_dims"), [(True, (1,) * 6), (False, (0, None, 2, None, 0, None))])
def test_stacked_members_are_more_of_the_batch(with_decay: bool, in_dims: tuple[int | None, ...]):
    q, k, v, beta, decay, state = draw(12, 4, 3, batch=2)
    inputs = [q, k, v, beta, decay if with_decay else None, state]
    dims = [None if x is None else dim for x, dim in zip(inputs, in_dims, strict=True)]
    members_as_alone(delta_rule_triton, inputs, dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(delta_rule_triton, draw(10, 4, 3))


@pytest.mark.parametrize("name", ["DeltaNet", "GatedDeltaProduct"])
def test_a_mixer_runs_it_when_asked(name: str):
    """Whole sequences through the kernels, then in pieces: the split law in float32."""
    from zoo.mixers import DeltaNet, GatedDeltaProduct

    torch.manual_seed(0)
    mixer = {"DeltaNet": DeltaNet, "GatedDeltaProduct": GatedDeltaProduct}[name](d_model=16, num_heads=2)
    x = torch.randn(1, 40, 16)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :39])
        tail, _ = mixer.extend(x[:, 39:], state)
    assert choice.record()["delta_rule"] == "triton"
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(whole, mixer(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": 129, "q": 129}, r"head_dim of the keys \(=129\) must be at most 128"),
        ({"dtype": torch.float64}, "float64"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(change: dict[str, Any], says: str):
    dtype = change.get("dtype", torch.float32)
    q, k = (torch.zeros(1, 1, 4, change.get(name, 8), dtype=dtype) for name in "qk")
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run delta_rule: .*{says}"):
        delta_rule(q, k, torch.zeros(1, 1, 4, 3, dtype=dtype), torch.zeros(1, 1, 4, dtype=dtype))
