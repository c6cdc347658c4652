"""python -m zoo.kernels: every op, every implementation, and why one cannot run."""

from dataclasses import replace
from importlib.machinery import ModuleSpec

import pytest
import torch

from tests.command import ROOT
from zoo.kernels.__main__ import main, rows
from zoo.kernels.choice import ops
from zoo.kernels.common import available
from zoo.kernels.common.available import absent
from zoo.kernels.common.proof import Answer
from zoo.kernels.common.verdicts import Key, Verdict


def test_lists_every_op_and_implementation(capsys: pytest.CaptureFixture[str]):
    main([])
    shown = capsys.readouterr().out
    assert all(f"{op.name} " in shown for op in ops())
    assert all(f" {name} " in shown for op in ops() for name in (*op.forms, *op.others))


def test_the_table_in_the_docs(capsys: pytest.CaptureFixture[str]):
    main(["--markdown"])
    assert capsys.readouterr().out in (ROOT / "docs" / "kernels.md").read_text(), (
        "the table of docs/kernels.md is what `python -m zoo.kernels --markdown` prints"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_what_cannot_run_here_says_why():
    here = {op.name: dict((name, why) for name, _, why in rows(op)) for op in ops()}
    assert here["taylor_attention"]["reference"] == here["taylor_attention"]["fused"] == "yes"
    assert here["taylor_attention"]["triton"].startswith("no: ")


def test_what_a_card_has_proven_says_so(monkeypatch: pytest.MonkeyPatch):
    op = next(op for op in ops() if op.name == "attention")
    monkeypatch.setattr(type(op), "missing", lambda self, name: None)
    key = Key("a card", "torch=2", "attention", "flash_attn", "0", "bfloat16:64", "sdpa", True)
    answer = Answer("right", "", "output 0", 1e-3, 1e-2, 1.0, 2.0)
    fast = Verdict(key, answer, "2x2x8x64", "2026-01-01T00:00:00+00:00")
    assert "yes; under auto once it has proved" in dict((n, why) for n, _, why in rows(op))["flash_attn"]
    here = dict(
        (name, why) for name, _, why in rows(op, [fast, replace(fast, answer=replace(answer, seconds=3.0))])
    )
    assert here == {"reference": "yes", "sdpa": "yes", "flash_attn": here["flash_attn"]}
    assert "under auto for 1 of 2 kinds of inputs" in here["flash_attn"]


@pytest.mark.parametrize(
    ("broken", "found", "says"),
    [
        (ModuleNotFoundError("No module named 'torch_old'"), True, "mamba_ssm cannot be imported: No module"),
        (OSError("libcudart"), True, "mamba_ssm cannot be imported: libcudart"),
        (ModuleNotFoundError("selective_scan_cuda"), True, "selective_scan_cuda"),  # its compiled half alone
        (None, False, "mamba_ssm is not installed"),
    ],
)
def test_a_package_that_cannot_be_had_says_why(
    monkeypatch: pytest.MonkeyPatch, broken: Exception | None, found: bool, says: str
):
    def imported(name: str) -> None:
        if broken and (str(broken) == name or "_cuda" not in str(broken)):
            raise broken

    spec = ModuleSpec("mamba_ssm", None) if found else None
    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(available.importlib, "import_module", imported)
    assert says in (absent.__wrapped__("mamba_ssm") or "")
