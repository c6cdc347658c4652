"""Run by test_interpreted.py: the Triton kernels in Triton's interpreter, in float32, against float64."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone, near_in_norm
from tests.kernels.spans import Call, inputs, mixer_runs
from tests.kernels.triton_cases import EPS, KERNELS, Dims, Kernel, Size, of_each, refuse
from zoo.kernels.choice import kernels
from zoo.kernels.common.agreement import same_bits_twice
from zoo.kernels.se_attention import se_attention
from zoo.kernels.selective_scan.triton import unfit
from zoo.kernels.taylor_scan import triton_launches as launch
from zoo.mixers import SEAttn

SINGLE = ("cpu", torch.float32)
SUMMARIES, DIAGONAL, _, SELECTIVE, TAYLOR, TAYLOR_SCAN = KERNELS


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the Taylor scan into chunks of one block of queries, so that few tokens are many chunks."""
    monkeypatch.setattr(launch, "CHUNK", 64)


@pytest.mark.parametrize(
    ("kernel", "size"),
    [*of_each("small"), *(pytest.param(*one, marks=pytest.mark.slow) for one in of_each("slow"))],
    ids=str,
)
def test_outputs_and_gradients(kernel: Kernel, size: Size):
    as_near_as_torch(kernel.function, kernel.definition, kernel.draw(*size, *SINGLE))


@pytest.mark.parametrize(("kernel", "stack"), of_each("stacked"), ids=str)
def test_stacked_members_are_more_of_the_batch(kernel: Kernel, stack: tuple[Size, Dims]):
    size, in_dims = stack
    members_as_alone(kernel.function, kernel.draw(*size, *SINGLE), in_dims)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradients_inside_vmap(kernel: Kernel):
    gradients_inside_vmap(kernel.function, kernel.draw(*kernel.inside, *SINGLE))


@pytest.mark.parametrize(("kernel", "refused"), of_each("refused"), ids=str)
def test_unfit_inputs_are_refused_with_a_reason(kernel: Kernel, refused: tuple[dict[int, Any], str]):
    change, why = refused
    with kernels("triton"), pytest.raises(ValueError, match=f"cannot run {kernel.op}: .*{why}"):
        refuse(kernel, change)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_checks_of_the_gpu_tests_work_here(kernel: Kernel):
    given = kernel.draw(*kernel.inside, *SINGLE)
    near_in_norm(kernel.function, kernel.on_a_card, given)
    assert same_bits_twice(kernel.function, given)


# of one op --------------------------------------------------------------------------------------------------


def test_no_block_has_no_summary():
    assert SUMMARIES.function(*SUMMARIES.draw(1, 1, 1, 8, 0, 4, *SINGLE)).shape == (1, 1, 0, 8)


def test_scans_in_two_pieces():
    """The gradient of the second half reaches the first through the state."""

    def diagonal(decay: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h, state = DIAGONAL.function(decay[:, :20], x[:, :20], state)
        later, state = DIAGONAL.function(decay[:, 20:], x[:, 20:], state)
        return torch.cat([h, later], 1), state

    def selective(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor
    ) -> tuple[Tensor, ...]:
        y, state = SELECTIVE.function(x[:, :5], dt[:, :5], A, B[:, :5], C[:, :5], state)
        z, state = SELECTIVE.function(x[:, 5:], dt[:, 5:], A, B[:, 5:], C[:, 5:], state)
        return torch.cat([y, z], 1), state

    as_near_as_torch(diagonal, DIAGONAL.definition, DIAGONAL.draw(2, 41, 3, True, *SINGLE))
    as_near_as_torch(selective, SELECTIVE.definition, SELECTIVE.draw(1, 11, 3, 4, True, *SINGLE))


@pytest.mark.parametrize("part", [0, 1])
def test_a_loss_may_read_one_output_of_a_scan_alone(part: int):
    given = SELECTIVE.draw(1, 9, 3, 4, True, *SINGLE)
    grads = [
        torch.autograd.grad(scan(*given)[part].square().sum(), given, materialize_grads=True)
        for scan in (SELECTIVE.function, SELECTIVE.definition)
    ]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_strong_decay_and_large_inputs_stay_finite():
    given = [(100 * x.detach()).requires_grad_() for x in SELECTIVE.draw(1, 40, 2, 4, True, *SINGLE)]
    y, h = SELECTIVE.function(*given)
    grads = torch.autograd.grad(y.mean() + h.mean(), given)
    assert all(x.isfinite().all() for x in (y, h, *grads))


def test_inputs_of_a_scan_may_differ_in_precision():
    given = SELECTIVE.draw(1, 3, 4, 5, True, "cpu", torch.bfloat16)
    assert {x.dtype for x in given} == {torch.bfloat16, torch.float32}
    assert unfit(*given) is None


def test_any_leading_dimensions():
    q, k, v, _ = TAYLOR.draw(2, 3, 17, 5, 6, *SINGLE)
    for pick in (lambda x: x[0, 0], lambda x: x[0], lambda x: x[None]):
        given = [pick(x).detach().requires_grad_() for x in (q, k, v)]
        as_near_as_torch(TAYLOR.function, TAYLOR.definition, [*given, EPS])


def test_one_gradient_can_be_had_without_the_others():
    q, k, v, _ = TAYLOR.draw(1, 1, 40, 4, 8, *SINGLE)
    (dk,) = torch.autograd.grad(TAYLOR.function(q.detach(), k, v.detach(), EPS).sum(), k)
    torch.testing.assert_close(dk, torch.autograd.grad(TAYLOR.definition(q, k, v, EPS).sum(), k)[0])


@pytest.mark.parametrize("started", [pytest.param(False, marks=pytest.mark.slow), True])
def test_spans_side_by_side(monkeypatch: pytest.MonkeyPatch, started: bool):
    """Few heads: what each span of chunks adds comes first, forward and from the end."""
    monkeypatch.setattr(launch, "PROGRAMS", 3)
    monkeypatch.setattr(launch, "SPAN", 2)
    assert launch.spans_of(1, 5) == 2
    as_near_as_torch(
        TAYLOR_SCAN.function, TAYLOR_SCAN.definition, TAYLOR_SCAN.draw(1, 1, 290, 2, 3, started, *SINGLE)
    )


@torch.no_grad()
@pytest.mark.parametrize("cut", [1, 64, 99])
def test_a_state_is_all_that_a_head_leaves(cut: int):
    """A state and the rest, its last token by itself, give what the whole gives."""
    q, k, v, *_ = TAYLOR_SCAN.draw(1, 1, 100, 4, 6, False, *SINGLE)
    y, kv, z = TAYLOR_SCAN.function(q, k, v, EPS)
    parts, state = [], (None, None)
    for lo, hi in ((0, cut), (cut, 99), (99, 100)):
        if lo < hi:
            y_n, *state = TAYLOR_SCAN.function(*(x[:, :, lo:hi] for x in (q, k, v)), EPS, *state)
            parts.append(y_n)
    torch.testing.assert_close([torch.cat(parts, 2), *state], [y, kv, z])


def test_a_loss_may_read_a_state_alone():
    """y takes no part in the loss, or z none."""
    q, k, v, eps, kv, z = TAYLOR_SCAN.draw(1, 1, 70, 3, 4, True, *SINGLE)
    for pick in (lambda out: out[1].square().sum(), lambda out: out[2].square().sum()):
        mine, true = (
            torch.autograd.grad(pick(scan(q, k, v, eps, kv, z)), [k, v, kv, z], materialize_grads=True)
            for scan in (TAYLOR_SCAN.function, TAYLOR_SCAN.definition)
        )
        torch.testing.assert_close(mine, true, rtol=1e-4, atol=1e-4)


def test_a_bias_for_a_chunk_needs_chunks_of_one_size():
    given = inputs(Call(1, 1, 1, 1, 16, 0, 0, (4, 8), 4, 1, False, True), 4)
    with kernels("triton"), pytest.raises(ValueError, match="chunks of one size"):
        se_attention(*given)


# mixers under settings that their laws (interpreted_laws.py) leave to a card --------------------------------


@pytest.mark.parametrize("changes", [{"selection": "first"}, {"gate": "bias", "num_kv_heads": 1}], ids=str)
def test_se_attn_runs_the_kernel(changes: dict[str, Any]):
    mixer_runs("se_attention", changes)


def test_se_attn_trains_on_drawn_chunks():
    """Both draw the same."""
    settings = {"chunk_size": [4, 8], "chunk_sampling": "per_chunk", "eval_chunk_size": 8}
    usual, ours = (SEAttn(d_model=16, num_heads=2, selection="first", **settings) for _ in range(2))
    ours.load_state_dict(usual.state_dict())
    x = torch.randn(1, 37, 16, generator=torch.Generator().manual_seed(0))
    with kernels("triton") as choice:
        y = ours(x)
    assert choice.record() == dict.fromkeys(("block_choice", "block_summaries", "se_attention"), "triton")
    torch.testing.assert_close(y, usual(x), rtol=1e-4, atol=1e-5)
