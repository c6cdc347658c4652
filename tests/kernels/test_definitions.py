"""Every form in torch of every op computes what its definition does."""

import inspect
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.kernels import cases
from tests.kernels.agreement import as_definition, gradients_inside_vmap, members_as_alone
from tests.kernels.cases import CASES, COMPARED, STACKED, Case, Dims, Inputs, definition, op_of, public
from tests.kernels.spans import Call, inputs
from zoo.kernels.choice import NATIVE, REFERENCE, Op, kernels, ops
from zoo.kernels.se_attention.gathered import se_attention_gathered
from zoo.kernels.selective_scan import fused_loop
from zoo.kernels.span_retrieval import drawn_chunks
from zoo.kernels.span_retrieval import scores as held
from zoo.kernels.taylor_scan import num_features, taylor_scan
from zoo.mixers.feature_maps import Taylor2


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_the_definition_s(case: Case, monkeypatch: pytest.MonkeyPatch):
    for name, value in case.settings.items():
        monkeypatch.setattr(f"zoo.kernels.{name}", value)
    forms = op_of(case.op).forms
    inputs, of = case.make(*case.size), COMPARED.get(case.op, lambda form: form)
    for name in forms.keys() - {REFERENCE, NATIVE}:  # C computes in float32: test_native.py
        as_definition(of(forms[name]), of(forms[REFERENCE]), inputs)


def test_every_op_with_two_forms_has_cases():
    assert {op.name for op in ops() if op.forms.keys() - {REFERENCE}} == {case.op for case in CASES}


@pytest.mark.parametrize(
    ("op", "inputs", "in_dims"), STACKED, ids=lambda x: str(x) if isinstance(x, str | tuple) else ""
)
def test_stacked_members_are_as_each_alone(op: str, inputs: Inputs, in_dims: Dims):
    members_as_alone(lambda *given: tree_leaves(public(op)(*given)), inputs, in_dims)


@pytest.mark.parametrize("op", ops(), ids=lambda op: op.name)
def test_all_forms_have_the_op_s_signature(op: Op):
    """The op's function states the shapes; its forms take the same names in the same order."""
    expected = [p.name for p in inspect.signature(public(op.name)).parameters.values()]
    for name in (*op.forms, *op.others):
        try:
            function = op.implementation(name)
        except ModuleNotFoundError:  # a package that is not installed
            continue
        names = [
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        shared = min(len(names), len(expected))
        assert names[:shared] == expected[:shared], name


def test_a_backward_pass_inside_vmap_is_each_member_s():
    """Taylor attention's own backward pass has a batching rule too."""
    gradients_inside_vmap(public("taylor_attention"), cases.taylor_attention(70))


@pytest.mark.parametrize("channels", [1, 2, 5, 16])
def test_packed_features_give_the_polynomial(channels: int):
    """Half the products are enough: the recurrence over 1 + C + C (C + 1) / 2 features is the same map."""
    q, k, v, eps, *_ = cases.taylor_scan(19, False, channels)
    phi, true = Taylor2(channels).double(), definition("taylor_attention")(q, k, v, eps)
    assert phi(q).shape[-1] == phi.expanded_dim == 1 + channels + channels * (channels + 1) // 2
    recurrent, *_ = definition("linear_attention")(phi(q), phi(k), v, eps, None, None)
    torch.testing.assert_close(recurrent, true, rtol=1e-12, atol=1e-12)
    y, kv, z = taylor_scan(q, k, v, eps)
    torch.testing.assert_close(y, true, rtol=1e-12, atol=1e-12)
    assert kv.shape == (2, 3, num_features(channels), 7) and z.shape == kv.shape[:-1]


def whole_numbers(rows: int, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, summaries and starts whose scores are often equal."""
    rng = torch.Generator().manual_seed(rows)
    queries = torch.randint(-2, 3, (2, 4, rows, 3), generator=rng).double()
    summaries = torch.randint(-2, 3, (2, 2, blocks, 3), generator=rng).double()
    return queries, summaries, torch.randint(0, 4 * (blocks + 3), (rows,), generator=rng)


def best_of(queries: Tensor, summaries: Tensor, start: int, first: int, max_blocks: int) -> list[int]:
    """Return the best blocks for all heads of one row [H C], and the summaries they read [H U C]."""
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
    ids = public("block_choice")(queries, summaries, starts, sets, 4, 3, 3, 9)
    for b, i in product(range(2), range(sets)):
        heads = list(range(4) if sets == 1 else range(2 * i, 2 * i + 2))
        read = summaries[b, [h // 2 for h in heads]]
        for r, start in enumerate(starts.tolist()):
            best = best_of(queries[b, heads, r], read, start, 3, 9)
            assert ids[b, i, r].tolist() == best + [-1] * (3 - len(best))


def test_stacked_members_choose_as_alone():
    queries, summaries, starts = whole_numbers(9, 6)

    def member(q: Tensor) -> Tensor:
        return public("block_choice")(q, summaries, starts, 1, 4, 0, 2, None)

    together = torch.vmap(member)(torch.stack([queries, -queries]))
    assert torch.equal(together, torch.stack([member(queries), member(-queries)]))


def test_diagonal_scans_change_no_input():
    inputs = cases.diagonal_scan(9, (3,), True)
    before = [x.detach().clone() for x in inputs]
    h, _ = public("diagonal_scan")(*inputs)
    h.sum().backward()
    assert all(map(torch.equal, inputs, before))


def test_many_rows_or_keys_a_block_are_gathered():
    for call, expected in (
        (Call(1, 1, 1, 1, 600, 0, 0, 16, 4, 2, True, False), "gathered"),
        (Call(1, 1, 1, 1, 1, 512, 512, 16, 4, 2, True, False), "gathered"),
        (Call(1, 1, 1, 1, 512, 0, 0, 256, 4, 2, False, False), "reference"),
        (Call(1, 1, 1, 1, 128, 0, 0, 16, 4, 2, False, False), "reference"),
    ):
        with kernels("auto") as choice:
            public("se_attention")(*inputs(call, 4))
        assert choice.record() == {"se_attention": expected}


def test_chunks_of_several_sizes_go_under_the_mask():
    call = Call(1, 1, 1, 1, 512, 0, 0, 16, 4, 2, True, False)
    q, k, v, ids, bias, _, size = inputs(call, 4)
    chunks = drawn_chunks([8, 16], True, 0, 1, 512, torch.device("cpu"))
    with kernels("auto") as choice:
        public("se_attention")(q, k, v, ids, bias, chunks, size)
    assert choice.record() == {"se_attention": "reference"}
    with pytest.raises(ValueError, match="chunks of different sizes"):
        se_attention_gathered(q, k, v, ids, bias, chunks, size)


class Largest(TorchDispatchMode):
    scalars = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple) else (out,):
            if isinstance(part, Tensor):
                self.scalars = max(self.scalars, part.untyped_storage().nbytes() // part.itemsize)
        return out


def memory(scan, inputs: list[Tensor]) -> tuple[int, int]:
    """Scalars of the largest tensor in forward and backward, and of all that is saved between the two."""
    saved = []
    with Largest() as largest, saved_tensors_hooks(lambda s: saved.append(s) or s, lambda s: s):
        scan(*inputs)[0].sum().backward()
    return largest.scalars, sum(s.numel() for s in saved)


def test_nothing_has_a_state_for_every_token():
    B, T, D, N = 32, 128, 32, 16
    full = B * T * D * N
    assert full >= 4 * fused_loop.CACHED
    largest, saved = memory(op_of("selective_scan").forms["fused_loop"], cases.selective_scan(B, T, D, N))
    assert largest <= full // 4
    assert saved <= full // 2
    _, saved = memory(definition("selective_scan"), cases.selective_scan(B, T, D, N))
    assert saved >= 2 * full  # the reference shows that the measure would have seen it
