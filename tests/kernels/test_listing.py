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
    ("raises", "says"),
    [
        (ModuleNotFoundError("No module named 'selective_scan_cuda'"), "selective_scan_cuda"),
        (OSError("libcudart"), "libcudart"),
    ],
)
def test_a_package_that_is_there_and_does_not_import_says_so(
    monkeypatch: pytest.MonkeyPatch, raises: Exception, says: str
):
    def fail(name: str) -> None:
        raise raises

    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(available.importlib, "import_module", fail)
    assert absent.__wrapped__("mamba_ssm") == f"mamba_ssm cannot be imported: {raises}"
    assert says in str(raises)


def test_mamba_ssm_without_its_compiled_half_is_absent(monkeypatch: pytest.MonkeyPatch):
    """Its own import lets the lack of it pass."""

    def found(name: str) -> None:
        if name != "mamba_ssm":
            raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(available.importlib, "import_module", found)
    assert "selective_scan_cuda" in (absent.__wrapped__("mamba_ssm") or "")


def test_a_package_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: None)
    assert absent.__wrapped__("flash_attn") == "flash_attn is not installed"
