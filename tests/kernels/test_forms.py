"""Every form in torch of every op computes what its definition does, alone and stacked."""

import inspect

import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.kernels.agreement import as_definition, members_as_alone
from tests.kernels.cases import CASES, STACKED, Case, Dims, Inputs, op_of, public
from zoo.kernels.choice import NATIVE, REFERENCE, Op, ops


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_the_definition_s(case: Case, monkeypatch: pytest.MonkeyPatch):
    for name, value in case.settings.items():
        monkeypatch.setattr(f"zoo.kernels.{name}", value)
    forms = op_of(case.op).forms
    inputs = case.inputs()
    for name in forms.keys() - {REFERENCE, NATIVE}:  # C computes in float32: test_native.py
        as_definition(case.call(forms[name]), case.call(forms[REFERENCE]), inputs)


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
    """vmap over grad: Taylor attention's own backward pass has a batching rule too."""

    def loss(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return public("taylor_attention")(q, k, v, 1e-3).square().sum()

    inputs = [torch.randn(2, 2, 3, 70, n, dtype=torch.float64) for n in (5, 5, 7)]
    by_all = torch.func.grad(loss, argnums=(0, 1, 2))
    alone = [
        torch.stack(parts) for parts in zip(*(by_all(*x) for x in zip(*inputs, strict=True)), strict=True)
    ]
    torch.testing.assert_close(list(torch.vmap(by_all)(*inputs)), alone)
