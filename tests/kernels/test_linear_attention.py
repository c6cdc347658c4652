"""Linear attention: the chunks against the written-out recurrence, values, gradients and sums."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.linear_attention import (
    linear_attention,
    linear_attention_chunked,
    linear_attention_reference,
)

EPS = pytest.mark.parametrize("eps", [None, 0.25])  # large, so that leaving it out is seen
F, V = 5, 7


def draw(length: int) -> list[Tensor]:
    """phi_q, phi_k, v and the sums before them; features are positive, as a denominator asks."""
    shapes = [(length, F), (length, F), (length, V), (F, V), (F,)]
    made = [torch.randn(2, 3, *shape, dtype=torch.float64) for shape in shapes]
    return [(x if i in (2, 3) else x.exp()).requires_grad_() for i, x in enumerate(made)]


@EPS
def test_the_reference_is_the_sum_that_defines_it(eps: float | None):
    phi_q, phi_k, v, kv, z = (x.detach() for x in draw(9))
    y, last_kv, last_z = linear_attention_reference(phi_q, phi_k, v, eps, kv, z)
    for t in range(9):
        weights = torch.einsum("bhf,bhtf->bht", phi_q[:, :, t], phi_k[:, :, : t + 1])
        true = torch.einsum("bht,bhtv->bhv", weights, v[:, :, : t + 1])
        true += torch.einsum("bhf,bhfv->bhv", phi_q[:, :, t], kv)
        if eps is not None:
            total = weights.sum(-1) + (phi_q[:, :, t] * z).sum(-1) + eps
            true /= total[..., None]
        torch.testing.assert_close(y[:, :, t], true)
    torch.testing.assert_close(last_kv, kv + torch.einsum("bhtf,bhtv->bhfv", phi_k, v))
    assert (last_z is None) == (eps is None)
    if last_z is not None:
        torch.testing.assert_close(last_z, z + phi_k.sum(2))


@EPS
@pytest.mark.parametrize("length", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("with_sums", [False, True])
def test_chunks_agree_with_the_reference(length: int, eps: float | None, with_sums: bool):
    phi_q, phi_k, v, kv, z = draw(length)
    before = [] if not with_sums else [kv] if eps is None else [kv, z]
    inputs = [phi_q, phi_k, v, *before]
    got = linear_attention_chunked(phi_q, phi_k, v, eps, *before)
    want = linear_attention_reference(phi_q, phi_k, v, eps, *before)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    upstream = [torch.randn_like(y) for y in want if y is not None]
    grads = [
        torch.autograd.grad([y for y in found if y is not None], inputs, upstream) for found in (got, want)
    ]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


@EPS
def test_going_on_from_the_sums_is_the_whole(eps: float | None):
    phi_q, phi_k, v, _, _ = (x.detach() for x in draw(200))
    whole = linear_attention(phi_q, phi_k, v, eps)
    ys, kv, z = [], None, None
    for piece in zip(*(x.split([1, 130, 1, 68], dim=2) for x in (phi_q, phi_k, v)), strict=True):
        y, kv, z = linear_attention(*piece, eps, kv, z)
        ys.append(y)
    torch.testing.assert_close((torch.cat(ys, dim=2), kv, z), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 37])
def test_a_stack_of_members_is_as_each_alone(length: int):
    members = [[x.detach() for x in draw(length)] for _ in range(2)]

    def op(phi_q: Tensor, phi_k: Tensor, v: Tensor, kv: Tensor, z: Tensor):
        return linear_attention(phi_q, phi_k, v, 0.25, kv, z)

    together = torch.vmap(op)(*(torch.stack(pair) for pair in zip(*members, strict=True)))
    for i, member in enumerate(members):
        torch.testing.assert_close([x[i] for x in together], list(op(*member)), rtol=1e-12, atol=1e-12)
