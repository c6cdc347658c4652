"""The chunked head against its definition: loss, gradients, edges."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, members_as_alone, widened
from tests.kernels.cases import linear_cross_entropy as problem
from tests.kernels.cases import single, trained
from zoo.kernels.linear_cross_entropy import answer_scores, chunked, linear_cross_entropy
from zoo.kernels.linear_cross_entropy.reference import IGNORED, linear_cross_entropy_reference


def gradients(loss, x: Tensor, weight: Tensor, target: Tensor, factor: float = 1.0) -> list[Tensor]:
    value = loss(x, weight, target)
    return [value.detach(), *torch.autograd.grad(factor * value, (x, weight))]


def test_float32_is_as_near_to_float64_as_the_reference():
    as_near_as_torch(linear_cross_entropy, linear_cross_entropy_reference, single(problem(300, 8192)))


def test_a_hopelessly_wrong_answer_has_a_finite_loss():
    x, weight = torch.tensor([[1.0]]), torch.tensor([[500.0], [-500.0]])
    assert linear_cross_entropy(x, weight, torch.tensor([1])).item() == pytest.approx(1000.0)


@pytest.mark.parametrize("only", [0, 1])
def test_one_gradient_can_be_had_without_the_other(only: int):
    given = problem(5, 9)
    fixed = [x if i == only else x.detach() for i, x in enumerate(given)]
    losses = linear_cross_entropy(*fixed), linear_cross_entropy_reference(*given)
    torch.testing.assert_close(*(torch.autograd.grad(loss, given[only]) for loss in losses))


@pytest.mark.parametrize(("in_turn", "rows_at_once"), [(("cpu",), 6), ((), 1), ((), 4), ((), 100)])
def test_vmap_gives_each_member_what_it_gets_alone(
    monkeypatch: pytest.MonkeyPatch, in_turn: tuple[str, ...], rows_at_once: int
):
    """Members in turn, as on a CPU, and all at once, as elsewhere."""
    monkeypatch.setattr(chunked, "IN_TURN", in_turn)
    monkeypatch.setattr(chunked, "CHUNK", {"cpu": 3 * 9 * rows_at_once})
    members_as_alone(linear_cross_entropy, problem(6, 9), (0, 0, 0))


@pytest.mark.parametrize("in_turn", [("cpu",), ()], ids=["in turn", "at once"])
def test_ignored_rows_have_no_loss_no_gradient_and_no_part_in_the_mean(
    monkeypatch: pytest.MonkeyPatch, in_turn: tuple[str, ...]
):
    """Alone and among members, of which each ignores others; what stands in an ignored row is never seen."""
    monkeypatch.setattr(chunked, "IN_TURN", in_turn)
    monkeypatch.setattr(chunked, "CHUNK", {"cpu": 3 * 9 * 4})
    members = [problem(6 + i, 9) for i in range(3)]
    x, weight, target = (torch.stack([m[i].detach()[:6] for m in members]) for i in range(3))
    weight = torch.stack([m[1].detach() for m in members])
    for member, ignored in enumerate(([0, 5], [1, 2, 3, 4, 5], [])):
        target[member, ignored] = IGNORED
        x[member, ignored] = 1e30
    x, weight = x.requires_grad_(), weight.requires_grad_()
    losses = torch.vmap(linear_cross_entropy)(x, weight, target)
    got = torch.autograd.grad(losses.sum(), (x, weight))
    for i in range(3):
        scored = target[i] != IGNORED
        expected = gradients(linear_cross_entropy_reference, x[i], weight[i], target[i])
        alone = gradients(linear_cross_entropy, x[i], weight[i], target[i])
        for together, one, theirs in zip((losses[i], got[0][i], got[1][i]), alone, expected, strict=True):
            torch.testing.assert_close(together, theirs)
            torch.testing.assert_close(one, theirs)
        assert not got[0][i][~scored].any() and got[0][i][scored].any()
        scores, _ = answer_scores(x[i].detach(), weight[i].detach(), target[i])
        assert not scores[~scored].any()
        torch.testing.assert_close(scores.sum() / scored.sum(), losses[i])


def test_a_mask_that_hides_nothing_changes_no_bit_of_a_gradient(monkeypatch: pytest.MonkeyPatch):
    x, weight, target = problem(7, 11)
    loss, *once = gradients(linear_cross_entropy, x, weight, target)
    monkeypatch.setattr(chunked, "IN_TURN", ())
    masked, *again = gradients(linear_cross_entropy, x, weight, target)
    assert all(map(torch.equal, once, again))
    torch.testing.assert_close(loss, masked)


def test_a_sum_over_many_chunks_is_no_worse_in_bfloat16_than_over_one(monkeypatch: pytest.MonkeyPatch):
    x, weight, target = problem(2048, 64)
    half = trained(x.bfloat16(), weight.bfloat16(), target)
    exact = gradients(linear_cross_entropy_reference, *widened(half))
    off = []
    for rows_at_once in (2048, 16):
        monkeypatch.setattr(chunked, "CHUNK", {"cpu": 64 * rows_at_once})
        off.append((gradients(linear_cross_entropy, *half)[2] - exact[2]).norm() / exact[2].norm())
    assert off[1] <= 1.1 * off[0]


def test_autocast_rounds_the_operands_as_a_linear_layer_does():
    x, weight, target = single(problem(40, 50))
    with torch.autocast("cpu", torch.bfloat16):
        ours = gradients(linear_cross_entropy, x, weight, target)
        theirs = gradients(linear_cross_entropy_reference, x, weight, target)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == torch.float32
        assert (a - b).abs().max() <= 0.02 * b.abs().max()
    assert not torch.equal(ours[0], linear_cross_entropy(x, weight, target)), "autocast was not followed"


def test_scores_are_the_losses_and_the_best_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunked, "CHUNK", {"cpu": 30})
    x, weight, target = problem(7, 11)
    losses, best = answer_scores(x, weight, target)
    logits = F.linear(x, weight)
    torch.testing.assert_close(losses, F.cross_entropy(logits, target, reduction="none"))
    assert torch.equal(best, logits.argmax(1))
