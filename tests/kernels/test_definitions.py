"""The definitions against their equations: scalar by scalar, or as the matrices of their papers."""

from itertools import product

import pytest
import torch
from torch import Tensor

from tests.kernels import cases
from tests.kernels.cases import BOTH, draw
from zoo.kernels.block_choice import block_choice
from zoo.kernels.delta_rule import delta_rule_chunked, delta_rule_reference
from zoo.kernels.dplr_delta_rule import dplr_delta_rule_reference
from zoo.kernels.fft_conv import fft_conv, fft_conv_fft, fft_conv_reference
from zoo.kernels.fft_conv.fft import fast_length
from zoo.kernels.gated_linear_attention import gated_linear_attention_reference
from zoo.kernels.gated_slot_attention import gated_slot_attention
from zoo.kernels.linear_attention import linear_attention_reference
from zoo.kernels.log_linear_attention.chunked import CHUNK, _levels, _runs, log_linear_attention_chunked
from zoo.kernels.mesa import mesa_solved
from zoo.kernels.selective_scan import selective_scan_reference
from zoo.kernels.span_retrieval import scores as held
from zoo.kernels.taylor_attention import taylor_attention_reference
from zoo.kernels.taylor_scan import num_features, taylor_scan
from zoo.kernels.wkv4 import wkv4_reference
from zoo.kernels.wkv6 import wkv6_reference
from zoo.mixers.feature_maps import Taylor2

EPS = pytest.mark.parametrize("eps", [None, 0.25])  # large, so that leaving it out is seen
PER = pytest.mark.parametrize("per", ["head", "channel"])


def first(inputs: list) -> list[Tensor]:
    """One head of one sequence, without gradients."""
    return [x.detach()[0, 0] for x in inputs]


# as products of matrices ------------------------------------------------------------------------------------


def test_the_delta_rule_is_the_products_of_its_paper():
    """S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T (arXiv 2412.06464, Eq. 10)."""
    q, k, v, beta, decay, S = first(cases.delta_rule(4, True, True))
    y, last = delta_rule_reference(*(x[None, None] for x in (q, k, v, beta, decay, S)))
    for t in range(4):
        stays = torch.eye(5, dtype=S.dtype) - beta[t] * torch.outer(k[t], k[t])
        S = decay[t].exp() * stays @ S + beta[t] * torch.outer(k[t], v[t])
        torch.testing.assert_close(y[0, 0, t], S.T @ q[t])
    torch.testing.assert_close(last[0, 0], S)


def test_the_dplr_rule_is_its_recurrence_as_matrices():
    q, k, v, a, b, g, S = first(cases.dplr_delta_rule(9, 1, True))
    y, last = dplr_delta_rule_reference(*(x[None, None] for x in (q, k, v, a, b, g, S)))
    for t in range(9):
        S = (torch.diag(g[t].exp()) + torch.outer(b[t], a[t])) @ S + torch.outer(k[t], v[t])
        torch.testing.assert_close(y[0, 0, t], S.T @ q[t])
    torch.testing.assert_close(last[0, 0], S)


def test_wkv6_is_its_recurrence_as_matrices():
    r, k, v, g, u, S = (x.detach() for x in cases.wkv6(9, 1, True))
    y, last = wkv6_reference(r, k, v, g, u, S)
    r, k, v, g, S = (x[0, 0] for x in (r, k, v, g, S))
    for t in range(9):
        written = torch.outer(k[t], v[t])
        torch.testing.assert_close(y[0, 0, t], (S + torch.diag(u[0]) @ written).T @ r[t])
        S = torch.diag(g[t].exp()) @ S + written
    torch.testing.assert_close(last[0, 0], S)


# scalar by scalar -------------------------------------------------------------------------------------------


@PER
def test_gated_linear_attention_scalar_by_scalar(per: str):
    q, k, v, log_decay, state = (x.detach() for x in cases.gated_linear_attention(3, per, 1.0, True))
    y, last = gated_linear_attention_reference(q, k, v, log_decay, state)
    B, H, T, K = q.shape
    for b, h, c, e in product(range(B), range(H), range(K), range(7)):
        s = state[b, h, c, e]
        for t in range(T):
            g = log_decay[b, h, t] if per == "head" else log_decay[b, h, t, c]
            s = torch.exp(g) * s + k[b, h, t, c] * v[b, h, t, e]
            y[b, h, t, e] -= q[b, h, t, c] * s
        last[b, h, c, e] -= s
    assert y.abs().max() < 1e-13 and last.abs().max() < 1e-13


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 5, 3, 4), (3, 4, 2, 5)])
def test_the_selective_scan_scalar_by_scalar(shape: tuple[int, ...]):
    B, T, D, N = shape
    x, dt, A, b, c, h = (s.detach() for s in cases.selective_scan(*shape))
    y, last = selective_scan_reference(x, dt, A, b, c, h)
    for i, d in product(range(B), range(D)):
        state = h[i, d].clone()
        for t in range(T):
            for n in range(N):
                decay = torch.exp(dt[i, t, d] * A[d, n])
                state[n] = decay * state[n] + dt[i, t, d] * b[i, t, n] * x[i, t, d]
            torch.testing.assert_close(y[i, t, d], state @ c[i, t])
        torch.testing.assert_close(last[i, d], state)


@EPS
def test_linear_attention_is_the_sum_that_defines_it(eps: float | None):
    phi_q, phi_k, v, _, kv, z = cases.linear_attention(9, 0.25, True)
    y, last_kv, last_z = linear_attention_reference(phi_q, phi_k, v, eps, kv, z)
    for t in range(9):
        weights = torch.einsum("bhf,bhtf->bht", phi_q[:, :, t], phi_k[:, :, : t + 1])
        true = torch.einsum("bht,bhtv->bhv", weights, v[:, :, : t + 1])
        true = true + torch.einsum("bhf,bhfv->bhv", phi_q[:, :, t], kv)
        if eps is not None:
            true = true / (weights.sum(-1) + (phi_q[:, :, t] * z).sum(-1) + eps)[..., None]
        torch.testing.assert_close(y[:, :, t], true)
    torch.testing.assert_close(last_kv, kv + torch.einsum("bhtf,bhtv->bhfv", phi_k, v))
    assert (last_z is None) == (eps is None)
    if last_z is not None:
        torch.testing.assert_close(last_z, z + phi_k.sum(2))


def test_wkv4_is_a_softmax_over_the_past():
    k, v, w, u, _ = cases.wkv4(20, False, 1.0)
    y, _ = wkv4_reference(k, v, w, u)
    for t in range(20):
        age = torch.arange(t - 1, -1, -1)[:, None]
        exponents = torch.cat([age * w + k[:, :t], (u + k[:, t])[:, None]], dim=1)
        torch.testing.assert_close(y[:, t], (exponents.softmax(1) * v[:, : t + 1]).sum(1))


# an op as a special case of another -------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [2, 3])
@pytest.mark.parametrize("decayed", BOTH)
def test_a_query_of_the_delta_rule_may_read_after_several_writes(writes: int, decayed: bool):
    """As if it stood at each of them and the other answers were thrown away."""
    q, *others = cases.delta_rule(16 * writes, decayed, True)
    every, last = delta_rule_reference(q, *others)
    for form in (delta_rule_chunked, delta_rule_reference):
        y, state = form(q[:, :, writes - 1 :: writes], *others)
        torch.testing.assert_close(
            (y, state), (every[:, :, writes - 1 :: writes], last), rtol=1e-10, atol=1e-11
        )


def test_full_slots_of_their_own_are_softmax_attention():
    """Token t writes slot t alone and nothing is forgotten: attention, but that empty slots have logit 0."""
    q, k, v = draw(*[[1, 2, 20, 6]] * 3)
    write = torch.eye(20, dtype=torch.float64).expand(1, 2, 20, 20)
    y, _ = gated_slot_attention(q, k, v, write, torch.zeros_like(write))
    torch.testing.assert_close(y, (q @ k.mT).tril().softmax(-1).tril() @ v, rtol=1e-12, atol=1e-12)


def test_log_linear_attention_with_all_scales_one_is_gated_linear_attention():
    q, k, v, decay, scales, *_ = cases.log_linear_attention(CHUNK + 5, 0)
    y, states = log_linear_attention_chunked(q, k, v, decay, torch.ones_like(scales))
    sums = decay.cumsum(-1)
    weights = (q @ k.mT * (sums[..., :, None] - sums[..., None, :]).tril().exp()).tril()
    torch.testing.assert_close(y, weights @ v)
    left = (sums[..., -1:] - sums).exp()[..., None]
    torch.testing.assert_close(states.sum(1), (k * left).mT @ v)


def test_levels_are_the_pieces_of_the_papers_figure():
    """Of token 6 = 110b: itself, the two tokens 4 and 5, the four before them."""
    assert _levels(8, torch.device("cpu"))[6].tolist()[:7] == [3, 3, 3, 3, 2, 2, 0]
    assert _levels(8, torch.device("cpu"))[7].tolist() == [3, 3, 3, 3, 2, 2, 1, 0]


@pytest.mark.parametrize("start", [0, 1, 5, CHUNK, 3 * CHUNK + 17])
def test_blocks_fill_the_sequence_and_stand_at_multiples_of_their_size(start: int):
    for length in range(1, 4 * CHUNK):
        at = start
        for size, count in _runs(start, length):
            assert at % size == 0
            assert count == 1 or size == CHUNK
            at += size * count
        assert at == start + length


def test_mesa_recalls_what_few_keys_were_given():
    """With next to no ridge and no decay, fewer keys than channels: each key's own value."""
    _, k, v, beta, decay, ridge = cases.mesa(4, False)
    y, _ = mesa_solved(k, k, v, torch.ones_like(beta), torch.zeros_like(decay), torch.full_like(ridge, 1e-13))
    torch.testing.assert_close(y, v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 5, 16])
def test_packed_features_give_the_polynomial(channels: int):
    """Half the products are enough: the recurrence over 1 + C + C (C + 1) / 2 features is the same map."""
    q, k, v, eps, *_ = cases.taylor_scan(19, False, channels)
    phi, true = Taylor2(channels).double(), taylor_attention_reference(q, k, v, eps)
    assert phi(q).shape[-1] == phi.expanded_dim == 1 + channels + channels * (channels + 1) // 2
    recurrent, *_ = linear_attention_reference(phi(q), phi(k), v, eps, None, None)
    torch.testing.assert_close(recurrent, true, rtol=1e-12, atol=1e-12)
    y, kv, z = taylor_scan(q, k, v, eps)
    torch.testing.assert_close(y, true, rtol=1e-12, atol=1e-12)
    assert kv.shape == (2, 3, num_features(channels), 7) and z.shape == kv.shape[:-1]


# convolutions and choices -----------------------------------------------------------------------------------


def convolved(u: Tensor, k: Tensor) -> Tensor:
    y = torch.zeros_like(u)
    for t in range(u.shape[1]):
        for s in range(min(t + 1, k.shape[1])):
            y[:, t] += k[:, s] * u[:, t - s]
    return y


@pytest.mark.parametrize("form", [fft_conv, fft_conv_fft, fft_conv_reference])
@pytest.mark.parametrize("shape", cases.FILTERS)
def test_a_convolution_is_the_sum_it_abbreviates(form, shape: tuple[int, ...]):
    u, k = (x.detach() for x in cases.fft_conv(*shape))
    torch.testing.assert_close(form(u, k), convolved(u, k), rtol=1e-11, atol=1e-11)


def test_a_convolution_s_gradients_agree_with_finite_differences():
    assert torch.autograd.gradcheck(fft_conv_fft, cases.fft_conv(2, 9, 2, 9))


@pytest.mark.parametrize("least", [1, 7, 127, 128, 131, 511, 2047])
def test_fast_lengths_are_long_enough_and_smooth(least: int):
    n = fast_length(least)
    assert n >= least and n % 2 == 0 and 2**60 * 3**40 * 5**30 % n == 0


@pytest.mark.parametrize(("past", "taps"), [(0, 9), (4, 2), (4, 9), (70, 3), (70, 75)])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_past_goes_before_and_is_not_put_out_again(past: int, taps: int, length: int):
    u, k = draw([2, past + length, 3], [3, taps])
    got = fft_conv(u[:, past:], k, u[:, :past])
    torch.testing.assert_close(got, convolved(u, k)[:, past:], rtol=1e-11, atol=1e-11)


def whole_numbers(rows: int, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, summaries and starts whose scores are often equal."""
    rng = torch.Generator().manual_seed(rows)
    queries = torch.randint(-2, 3, (2, 4, rows, 3), generator=rng).double()
    summaries = torch.randint(-2, 3, (2, 2, blocks, 3), generator=rng).double()
    return queries, summaries, torch.randint(0, 4 * (blocks + 3), (rows,), generator=rng)


def best_of(queries: Tensor, summaries: Tensor, start: int, first: int, max_blocks: int) -> list[int]:
    """Of one sequence, row and index set: all its heads [H C], and the summaries they read [H U C]."""
    scores = [float((queries * summaries[:, u]).sum()) for u in range(summaries.shape[1])]
    ended = [u for u in range(len(scores)) if (first + u + 1) * 4 <= start]
    reached = [u for u in ended if first + u >= start // 4 - max_blocks]
    return sorted(reached, key=lambda u: (-scores[u], u))[:3]


@pytest.mark.parametrize("held_scores", [1, 50, 2**22])
@pytest.mark.parametrize("sets", [1, 2])
def test_the_best_blocks_in_reach_the_lowest_first(
    sets: int, held_scores: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(held, "HELD", held_scores)
    queries, summaries, starts = whole_numbers(17, 12)
    ids = block_choice(queries, summaries, starts, sets, 4, 3, 3, 9)
    for b, i in product(range(2), range(sets)):
        heads = list(range(4) if sets == 1 else range(2 * i, 2 * i + 2))
        read = summaries[b, [h // 2 for h in heads]]
        for r, start in enumerate(starts.tolist()):
            best = best_of(queries[b, heads, r], read, start, 3, 9)
            assert ids[b, i, r].tolist() == best + [-1] * (3 - len(best))


def test_stacked_members_choose_as_alone():
    queries, summaries, starts = whole_numbers(9, 6)

    def member(q: Tensor) -> Tensor:
        return block_choice(q, summaries, starts, 1, 4, 0, 2, None)

    together = torch.vmap(member)(torch.stack([queries, -queries]))
    assert torch.equal(together, torch.stack([member(queries), member(-queries)]))


def test_diagonal_scans_leave_their_inputs_as_they_were():
    inputs = cases.diagonal_scan(9, (3,), True)
    before = [x.detach().clone() for x in inputs]
    h, _ = cases.public("diagonal_scan")(*inputs)
    h.sum().backward()
    assert all(map(torch.equal, inputs, before))
