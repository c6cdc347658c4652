"""kernels=: the chosen form runs and is recorded; an unavailable one is refused with its reason."""

import re
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.command import ROOT
from tests.kernels import cases
from tests.training.tiny import scores, tiny
from zoo.kernels.__main__ import main, rows
from zoo.kernels.choice import Op, check_served, contradiction, kernels, ops, unserved
from zoo.kernels.common import available
from zoo.kernels.common.available import absent
from zoo.kernels.common.proof import Answer
from zoo.kernels.common.verdicts import Key, Verdict
from zoo.kernels.short_conv import native
from zoo.kernels.taylor_scan import taylor_scan
from zoo.launch.preflight import Validator
from zoo.training.train import train


def reference(x: torch.Tensor) -> str:
    return "reference"


def chunked(x: torch.Tensor) -> str:
    return "chunked"


OP = Op("toy", {"reference": reference, "chunked": chunked})
X = torch.zeros(1)


@pytest.mark.parametrize(
    ("setting", "runs"),
    [("auto", "chunked"), ("reference", "reference"), ("triton", "chunked"), ("package", "chunked")],
)
def test_the_chosen_form_runs_and_is_recorded(setting: str, runs: str):
    with kernels(setting) as choice:
        assert OP.run("chunked", X) == runs
    assert choice.record() == {"toy": runs}


def test_a_choice_ends_with_its_context_and_records_only_its_calls():
    with kernels("reference") as outer:
        with kernels("auto") as inner:
            OP.run("chunked", X)
        assert OP.run("chunked", X) == "reference"
    assert OP.run("chunked", X) == "chunked"
    assert (inner.record(), outer.record()) == ({"toy": "chunked"}, {"toy": "reference"})


@pytest.mark.parametrize(("length", "forms"), [((1, 2), "chunked+reference"), ((1, 1), "reference")])
def test_one_token_needs_no_chunk(length: tuple[int, int], forms: str):
    with kernels("auto") as choice:
        for n in length:
            taylor_scan(*cases.taylor_scan(n, True))
    assert choice.record() == {"taylor_scan": forms}


def test_a_record_names_the_kernels_and_a_run_id_does_not(tmp_path: Path):
    """Kernels, like threads, change neither the cell nor what it learns."""
    cells = [tiny(mixer="sliding_window", kernels=setting) for setting in ("auto", "reference")]
    assert len({cell.run_id for cell in cells}) == len({cell.point for cell in cells}) == 1
    outcomes = []
    for cell in cells:
        (folder := tmp_path / cell.config["kernels"]).mkdir()
        outcomes.append(train(cell, folder))
    auto, reference = outcomes
    assert auto["kernels"] == {
        "attention": "sdpa",
        "linear": "reference",  # few rows
        "linear_cross_entropy": "chunked",
        "short_conv": "shifted" if native.absent() else "native",
    }
    assert reference["kernels"] == dict.fromkeys(auto["kernels"], "reference")
    for name, score in scores(auto, "test").items():
        assert score["loss"] == pytest.approx(scores(reference, "test")[name]["loss"], rel=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
@pytest.mark.parametrize("word", ["kernels=triton", "trainer.accelerator=gpu"])
def test_a_job_whose_machine_lacks_the_device_ends_before_any_step(word: str, tmp_path: Path):
    """A cluster's jobs are checked where they are submitted, and run elsewhere."""
    key, value = word.split("=")
    with pytest.raises(ValueError, match=r"no CUDA device|needs a CUDA device"):
        train(tiny(**{key: value}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_single_such_op_is_refused_before_any_step(
    monkeypatch: pytest.MonkeyPatch, cwd: Path
):
    monkeypatch.setattr("zoo.kernels.choice.interpreted", lambda: True)
    monkeypatch.setattr("zoo.kernels.choice.no_device", lambda: None)
    reason = r"be had: fft_conv has reference, fft, native; linear has reference, onednn.  Use kernels=auto"
    with pytest.raises(ValueError, match=reason):
        train(tiny(mixer="long_conv", kernels="triton"), cwd)


@pytest.mark.parametrize(
    ("used", "missing", "refused"),
    [
        ([OP], None, "toy has reference, chunked"),
        ([], None, "this model uses no op"),
        ([OP, Op("other", {"reference": reference}, others=("triton",))], None, None),
        (
            [Op("other", {"reference": reference}, others=("triton",))],
            "no CUDA",
            r"other has triton (no CUDA)",
        ),
    ],
)
def test_one_op_with_an_available_form_is_enough(
    monkeypatch: pytest.MonkeyPatch, used: list[Op], missing: str | None, refused: str | None
):
    monkeypatch.setattr(Op, "missing", lambda self, name: missing)
    refusal = unserved("triton", used)
    assert (refused in refusal) if refused and refusal else refusal is refused


def test_checking_which_ops_are_served_records_nothing():
    with kernels("triton") as choice, pytest.raises(ValueError, match="uses no op"):
        check_served("triton", lambda: OP.run("chunked", X))  # toy is no op of this package
    assert choice.record() == {}


def test_a_package_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch):
    adapter = SimpleNamespace(unfit=lambda x: None if x.numel() == 1 else "too many", toy_fla=lambda x: "fla")
    op = Op("toy", {"reference": reference, "chunked": chunked}, others=("fla",))
    monkeypatch.setattr(op, "module", lambda name: adapter)
    monkeypatch.setattr("zoo.kernels.choice.absent", lambda name: None)
    with kernels("package"):
        assert op.run("chunked", X) == "fla"
        with pytest.raises(ValueError, match=r"cannot run toy: fla: too many.  Use kernels=auto"):
            op.run("chunked", torch.zeros(2))


def test_what_torch_compile_cannot_trace_is_refused_before_training(tmp_path: Path):
    cell = tiny(trainer="gpu", kernels="package", trainer__step="compile")
    reason = r"trainer.step \(=compile\) cannot trace what kernels=package calls: use trainer.step=auto"
    assert re.match(reason, "; ".join(Validator().problems(cell)))
    assert contradiction("package", "gpu", "graph") is contradiction("triton", "gpu", "compile") is None


def test_a_tensor_that_32_bits_cannot_count_is_refused(monkeypatch: pytest.MonkeyPatch):
    op = Op("toy", {"reference": reference}, others=("triton",))
    monkeypatch.setattr(op, "module", lambda name: SimpleNamespace(unfit=lambda *inputs: None))
    monkeypatch.setattr("zoo.kernels.choice.absent", lambda name: None)
    largest = torch.empty(2**15, 2**16 - 1, device="meta")
    assert op.refusal("triton", largest) is None
    assert "2^31 elements" in (op.refusal("triton", X, torch.empty(2**15, 2**16, device="meta")) or "")


def test_no_mixer_attends_past_the_ops():
    """The record would not name a kernel that a mixer calls past the ops."""
    sources = {path.name: path.read_text() for path in (ROOT / "zoo" / "mixers").rglob("*.py")}
    assert not [x for x, text in sources.items() if "scaled_dot_product" in text or "flex_attention" in text]


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
def test_the_listing_gives_the_reason_why_a_form_cannot_run():
    here = {op.name: dict((name, why) for name, _, why in rows(op)) for op in ops()}
    assert here["taylor_attention"]["reference"] == here["taylor_attention"]["fused"] == "yes"
    assert here["taylor_attention"]["triton"].startswith("no: ")


def test_the_listing_counts_the_verdicts_of_a_card(monkeypatch: pytest.MonkeyPatch):
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
    ("broken", "installed", "reason"),
    [
        (ModuleNotFoundError("No module named 'torch_old'"), True, "mamba_ssm cannot be imported: No module"),
        (OSError("libcudart"), True, "mamba_ssm cannot be imported: libcudart"),
        (ModuleNotFoundError("selective_scan_cuda"), True, "selective_scan_cuda"),  # its compiled half alone
        (None, False, "mamba_ssm is not installed"),
    ],
)
def test_an_unavailable_package_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, broken: Exception | None, installed: bool, reason: str
):
    def imported(name: str) -> None:
        if broken and (str(broken) == name or "_cuda" not in str(broken)):
            raise broken

    spec = ModuleSpec("mamba_ssm", None) if installed else None
    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(available.importlib, "import_module", imported)
    assert reason in (absent.__wrapped__("mamba_ssm") or "")
