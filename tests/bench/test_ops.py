"""zoo.bench ops: what is taken is counted, floors are floors, what fails is said.  No time is judged here."""

from typing import Any

import pytest
import torch

from tests.bench.test_bench import MACHINE
from zoo.bench import flex
from zoo.bench import ops as bench
from zoo.bench.counting import flops
from zoo.bench.machine import Machine
from zoo.bench.op_subjects import Subject, attention, subjects, taylor_attention
from zoo.kernels.attention.reference import attention_reference
from zoo.kernels.choice import Op, ops

HERE = [subject for subject in subjects(small=True) if subject.op in [op.name for op in ops()]]


def op_of(subject: Subject) -> Op:
    return next(op for op in ops() if op.name == subject.op)


@pytest.mark.parametrize("subject", HERE, ids=lambda s: f"{s.name} {s.words}")
def test_every_implementation_answers_as_the_definition_does(subject: Subject):
    """What stands in for it, a window for chosen blocks, has the shape of the answer."""
    inputs = subject.draw("cpu")
    definition = op_of(subject).forms["reference"](*inputs)
    expected = definition if isinstance(definition, torch.Tensor) else definition[0]
    found = bench.implementations(subject, inputs)
    assert list(found)[-1] in op_of(subject).forms
    for name, function in found.items():
        y = function(*inputs)
        y = y if isinstance(y, torch.Tensor) else y[0]
        if name.startswith(("a window", "everything")):
            assert y.shape == expected.shape
        else:
            torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("subject", HERE, ids=lambda s: f"{s.name} {s.words}")
def test_what_goes_in_and_out_is_what_is_counted(subject: Subject):
    outputs = op_of(subject).forms["reference"](*subject.draw("cpu"))
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    held = sum(x.numel() for x in outputs if x is not None)
    assert subject.outputs in (outputs[0].numel(), held - subject.states)
    assert subject.outputs + subject.states in (held, outputs[0].numel()), "states that are not kept"


@pytest.mark.parametrize("subject", HERE, ids=lambda s: f"{s.name} {s.words}")
def test_no_form_in_torch_makes_fewer_products_than_the_floor(subject: Subject):
    inputs = subject.draw("cpu")
    for function in bench.implementations(subject, inputs).values():
        made = flops(lambda f=function: f(*inputs))
        assert made == 0 or made >= subject.flops, "a floor above what is needed"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("length", "keys", "window"), [(40, 40, None), (40, 40, 7), (5, 40, 9)])
def test_flex_attention_sees_what_attention_sees(
    monkeypatch: pytest.MonkeyPatch, length: int, keys: int, window: int | None
):
    monkeypatch.setattr(flex, "_compiled", lambda function: function)
    q = torch.randn(2, 4, length, 16)
    k, v = torch.randn(2, 2, 2, keys, 16)
    torch.testing.assert_close(flex.flex(q, k, v, window), attention_reference(q, k, v, window))


def test_a_backward_pass_is_twice_the_forward():
    subject, slow = attention(1, 2, 64, 8), Machine("cpu", 1, {torch.float32: 1e3}, 1e12)
    one, both = (bench.bound(subject, subject.draw("cpu"), b, slow) for b in (False, True))
    assert one.seconds is not None and both.seconds == pytest.approx(3 * one.seconds)


def test_a_kernel_that_fails_costs_no_other_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(*inputs: Any) -> None:
        raise RuntimeError("no such instruction")

    subject = taylor_attention(1, 1, 16, 4, 8)
    monkeypatch.setitem(op_of(subject).forms, "reference", fails)
    rows = bench.op_rows(subject, MACHINE, rounds=1)
    assert {row.implementation for row in rows} >= {"fused"} and all(row.ratio > 0 for row in rows)
    assert not any(row.implementation == "reference" for row in rows)
    assert "not timed: taylor attention, reference: RuntimeError: no such" in capsys.readouterr().err
