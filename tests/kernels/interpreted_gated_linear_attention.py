"""Run by test_interpreted.py: gated linear attention in Triton's interpreter, in float32, against float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import (
    as_near_as_torch,
    members_as_alone,
    near_in_norm,
    results,
    upstreams_of,
    widened,
)
from zoo.kernels.choice import kernels
from zoo.kernels.gated_linear_attention import gated_linear_attention, gated_linear_attention_reference
from zoo.kernels.gated_linear_attention.triton import gated_linear_attention_triton
from zoo.mixers import HGRN2, GatedLinearAttention, RetNet
from zoo.mixers.base import Mixer

PER = pytest.mark.parametrize("per", ["head", "channel"])


def draw(
    batch: int, count: int, length: int, keys: int, width: int, strongest: float = 1.0, per: str = "head"
) -> list[Tensor]:
    """q, k, v, log_decay and a first state, heads side by side; decays between exp(-strongest) and 1."""
    rng = torch.Generator().manual_seed(length + keys)
    q, k, v = (
        torch.randn(batch, length, count, c, generator=rng).transpose(1, 2) for c in (keys, keys, width)
    )
    each = (keys,) if per == "channel" else ()
    log_decay = -strongest * torch.rand(batch, length, count, *each, generator=rng).transpose(1, 2)
    state = torch.randn(batch, count, keys, width, generator=rng)
    return [x.detach().requires_grad_() for x in (q, k, v, log_decay, state)]


@PER
@pytest.mark.parametrize(
    ("size", "strongest", "with_state"),
    [
        ((1, 1, 1, 2, 3), 1.0, True),
        ((1, 1, 65, 33, 66), 1.0, True),  # two chunks, two blocks of keys, two of values
        pytest.param((1, 1, 130, 5, 6), 0.05, True, marks=pytest.mark.slow),
        ((2, 1, 70, 16, 16), 80.0, False),
    ],
    ids=str,
)
def test_outputs_states_and_gradients(
    size: tuple[int, int, int, int, int], strongest: float, with_state: bool, per: str
):
    inputs = draw(*size, strongest, per)
    inputs = inputs if with_state else inputs[:-1]
    as_near_as_torch(gated_linear_attention_triton, gated_linear_attention_reference, inputs)


@PER
def test_strong_decays_lose_no_digits(per: str):
    """After 58 steps of -40 float32 knows their sum to 1e-4 only; weak ones that follow must not suffer."""
    q, k, v, log_decay, state = draw(1, 1, 70, 5, 6, 0.01, per)
    with torch.no_grad():
        log_decay[:, :, :58] = -40.0
    as_near_as_torch(
        gated_linear_attention_triton, gated_linear_attention_reference, [q, k, v, log_decay, state], factor=2
    )


def test_a_few_strong_decays_by_channel_among_weak_ones():
    """Sums over a block that has some in its one half, and none in the other."""
    q, k, v, log_decay, state = draw(1, 1, 330, 3, 4, 0.01, "channel")
    with torch.no_grad():
        log_decay[torch.rand(log_decay.shape, generator=torch.Generator().manual_seed(0)) < 0.1] = -40.0
    as_near_as_torch(
        gated_linear_attention_triton, gated_linear_attention_reference, [q, k, v, log_decay, state], factor=2
    )


def test_a_small_gradient_of_a_strong_decay_has_its_digits_too():
    """Next to gradients that are large: it is no difference of these."""
    q, k, v, log_decay, state = draw(1, 1, 70, 3, 4, 0.01, "channel")
    with torch.no_grad():
        log_decay[:, :, 20:60:7] = -20.0
    inputs: list[Tensor] = [q, k, v, log_decay, state]
    upstreams = upstreams_of(gated_linear_attention_reference, inputs)
    mine = results(gated_linear_attention_triton, inputs, upstreams)[5]
    true = results(gated_linear_attention_reference, widened(inputs), upstreams)[5]
    torch.testing.assert_close(mine, true.float(), rtol=1e-4, atol=1e-13)


@PER
def test_half_precision_rounds_factors_and_no_sum(per: str):
    """float16 takes bfloat16's way through the kernels, and the interpreter can multiply in it."""
    q, k, v, *rest = draw(1, 1, 70, 5, 6, 0.05, per)
    half = [x.detach().half().requires_grad_() for x in (q, k, v)]
    near_in_norm(gated_linear_attention_triton, gated_linear_attention_reference, [*half, *rest])


@PER
def test_what_is_forgotten_altogether_leaves_no_nan(per: str):
    q, k, v, log_decay, state = draw(1, 1, 20, 3, 4, per=per)
    with torch.no_grad():
        log_decay[:, :, 7] = -torch.inf
    outputs = gated_linear_attention_triton(q, k, v, log_decay, state)
    expected = gated_linear_attention_reference(q, k, v, log_decay, state)
    torch.testing.assert_close(outputs, expected)
    grads = torch.autograd.grad(outputs[0].sum(), (q, k, v, log_decay, state))
    assert all(g.isfinite().all() for g in grads)


def test_a_decay_of_each_head_that_never_changes():
    """RetNet's: expanded over batch and time, without a gradient."""
    q, k, v, _, state = draw(2, 2, 20, 3, 4)
    log_decay = torch.tensor([-0.1, -0.5])[:, None].expand(2, 2, 20)
    as_near_as_torch(
        gated_linear_attention_triton, gated_linear_attention_reference, [q, k, v, log_decay, state]
    )


@PER
def test_the_gradient_of_the_last_state_alone(per: str):
    def last(op):
        return lambda *inputs: op(*inputs)[1]

    q, *rest = draw(1, 1, 20, 4, 5, per=per)
    used = [q.detach(), *rest]
    as_near_as_torch(last(gated_linear_attention_triton), last(gated_linear_attention_reference), used)


@PER
def test_going_on_from_a_state_is_the_whole(per: str):
    *inputs, state = (x.detach() for x in draw(1, 1, 80, 5, 6, per=per))
    whole, last = gated_linear_attention_triton(*inputs, state)
    y1, state = gated_linear_attention_triton(*(x[:, :, :66] for x in inputs), state)
    y2, state = gated_linear_attention_triton(*(x[:, :, 66:] for x in inputs), state)
    torch.testing.assert_close(torch.cat([y1, y2], 2), whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("in_dims", "per"),
    [((0, 0, 0, 0, 0), "head"), ((0, None, 2, 1, None), "head"), ((0, None, 2, 1, None), "channel")],
)
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...], per: str):
    members_as_alone(gated_linear_attention_triton, draw(2, 1, 12, 3, 4, per=per), in_dims)


@pytest.mark.parametrize("kind", [RetNet, GatedLinearAttention, HGRN2])
def test_mixers_run_it_when_asked(kind: Callable[..., Mixer]):
    """Whole sequences, then a piece after the other: the split law in float32."""
    mixer, x = kind(d_model=16, num_heads=2), torch.randn(1, 20, 16)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :13])
        tail, _ = mixer.extend(x[:, 13:], state)
    assert choice.record() == {"gated_linear_attention": "triton"}
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("log_decay", "says"),
    [
        (torch.zeros(1, 1, 4).double(), "float64"),
        (torch.zeros(1, 1, 5), r"log_decay must be \[B H T\] or \[B H T K\], and is \[1, 1, 5\]"),
        (torch.zeros(1, 1, 4, 1), r"log_decay must be \[B H T\] or \[B H T K\], and is \[1, 1, 4, 1\]"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(log_decay: Tensor, says: str):
    x = torch.zeros(1, 1, 4, 3)
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run gated_linear_attention: .*{says}"):
        gated_linear_attention(x, x, x, log_decay)
