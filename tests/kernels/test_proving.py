"""Kernels are proved on the user's card: here the card is a CPU and the kernels are toys."""

import fcntl
import json
import os
import threading
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from tests.kernels.cases import public
from tests.kernels.toy import OP
from zoo.kernels import choice
from zoo.kernels.__main__ import main
from zoo.kernels.cases import cases, prove_all
from zoo.kernels.choice import Op, kernels, ops
from zoo.kernels.common import verdicts
from zoo.kernels.common.agreement import distances, truth
from zoo.kernels.common.proof import Answer, Request, answer_to, compared_and_timed
from zoo.kernels.common.ragged import ragged

WRONG = {"end": "fine"}, {"seconds": "0"}, {"seconds": 0.0}, {"bound": None}, {"error": True}
FAST = Answer("right", "", "output 0", 1e-7, 1e-6, 0.5, 1.0)


def inputs(batch: int = 4, length: int = 32) -> list[Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=rng, requires_grad=True) for shape in ((batch, length, 8), (8, 5))]


def request(kernel: str) -> Request:
    return Request(OP.package, kernel, "usual", inputs(), None, 20)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the CPU a card; return the folder of its verdicts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(choice, "CARDS", ("cpu",))
    monkeypatch.setattr(choice, "absent", lambda name: None)
    monkeypatch.setattr(verdicts, "_known", {})
    monkeypatch.setattr(OP, "others", ("right",))
    return tmp_path / "zoo" / "verdicts"


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the kernels that are proved; all are right, and twice as fast."""
    names: list[str] = []

    def answer(op: object, key: verdicts.Key, inputs: object, limit: int) -> Answer:
        names.append(key.kernel)
        return FAST

    monkeypatch.setattr(verdicts, "_answer", answer)
    return names


def again(proved: list[str], *given: Tensor) -> int:
    """Run the op as a new process, which has read no verdict yet; return the number of proofs so far."""
    verdicts._known.clear()
    OP.run("usual", *(given or inputs()))
    return len(proved)


@pytest.mark.parametrize(
    ("kernel", "end", "why"),
    [
        ("right", "right", ""),
        ("slow", "right", ""),
        ("shifted", "wrong", " is 1.0e-03 from the definition"),
        ("backward", "wrong", "gradient 1 is 5.0e-01"),
        ("end", "wrong", " from the definition"),
        ("bits", "wrong", "a second call gives other bits"),
        ("raises", "crashes", "RuntimeError: out of shared memory"),
    ],
)
def test_a_proof_ends_with_its_verdict_on_a_kernel(kernel: str, end: str, why: str):
    answer = compared_and_timed(request(kernel))
    assert answer.end == end and why in answer.why and bool(why) == bool(answer.why)
    if kernel == "slow":
        assert answer.seconds > 2 * answer.usual_seconds  # pyright: ignore
    assert (answer.error < answer.bound) == (kernel in ("right", "slow", "bits"))


def test_an_error_of_the_definition_is_no_verdict_on_the_kernel(monkeypatch: pytest.MonkeyPatch):
    lost = Mock(side_effect=RuntimeError("all CUDA-capable devices are busy or unavailable"))
    monkeypatch.setitem(OP.forms, "reference", lost)
    assert compared_and_timed(request("raises")).end == ""


def test_autocast_is_as_the_cell_has_it():
    """Errors of .001 are those of rounding in bfloat16."""
    assert answer_to(replace(request("shifted"), autocast=torch.bfloat16)).end == "right"


def test_the_bound_grows_with_the_length_and_is_far_from_loose():
    def bounds(length: int) -> float:
        x = [torch.ones(1, length, 8), torch.ones(8, 5)]
        return max(d.bound for d in distances(OP.forms["reference"], truth(OP.forms["reference"], x), x))

    assert bounds(64) < bounds(4096) < 2e-5


@pytest.mark.parametrize("case", cases(small=True), ids=lambda case: case.name)
def test_every_op_with_a_kernel_can_be_cut_to_a_length_that_no_block_divides(case):
    (op,) = (op for op in ops() if op.name == case.op)
    if not op.others:
        return
    shorter = ragged(public(op.name), case.draw("cpu"))
    if op.name == "se_attention" or case.name == "taylor decode":  # chunks of one length; one token
        assert shorter is None
        return
    assert shorter is not None
    with torch.no_grad():
        op.implementation("reference")(*shorter)


def test_auto_takes_a_right_and_faster_kernel_and_records_it(card: Path, proved: list[str]):
    with kernels("auto") as used:
        OP.run("usual", *inputs())
        OP.run("usual", *inputs(length=16))
    assert used.record() == {"toy": "right (right, error 1.0e-07 of 1.0e-06, 2.00 times usual's speed)"}
    assert proved == ["right"]
    (written,) = card.glob("*.json")
    assert json.loads(written.read_text())["sizes"] == "4x32x8 8x5"


@pytest.mark.parametrize("answer", [replace(FAST, seconds=2.0), Answer("wrong", "far"), Answer("")])
def test_auto_leaves_a_slow_wrong_or_unknown_kernel(
    card: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
):
    monkeypatch.setattr(verdicts, "_answer", lambda *given: answer)
    with kernels("auto") as used:
        OP.run("usual", *inputs())
    assert used.record() == {"toy": "usual"}
    assert len(list(card.glob("*.json"))) == (1 if answer.end else 0)


def test_a_verdict_holds_for_its_version_width_dtype_and_pass(
    card: Path, proved: list[str], monkeypatch: pytest.MonkeyPatch
):
    assert (again(proved), again(proved)) == (1, 1)
    x, weight = inputs()
    assert again(proved, x, torch.zeros(8, 6, requires_grad=True)) == 2
    assert again(proved, x.double(), weight.double()) == 3
    assert again(proved, x.detach(), weight.detach()) == 4
    with torch.autocast("cpu", torch.bfloat16):
        assert again(proved) == 5
    for part in ("card", "versions", "source"):
        monkeypatch.setattr(verdicts, part, lambda name, part=part: f"another {part}")
        assert again(proved) == again(proved)
    assert len(proved) == 8


def test_a_damaged_verdict_or_one_of_another_card_is_proved_again(card: Path, proved: list[str]):
    again(proved)
    (path,) = card.glob("*.json")
    whole = json.loads(path.read_text())
    for wrong in ("{", "[]", *(json.dumps(whole | {"answer": whole["answer"] | wrong}) for wrong in WRONG)):
        path.write_text(wrong)
        again(proved)
    key = whole["key"] | {"card": "another"}
    path.write_text(json.dumps(whole | {"key": key}))
    assert again(proved) == 4 + len(WRONG) and json.loads(path.read_text())["key"] == whole["key"]


def test_a_cache_that_cannot_be_written_costs_a_line(
    card: Path, proved: list[str], capsys: pytest.CaptureFixture[str]
):
    card.parent.parent.joinpath("zoo").write_text("a file where the folder should be")
    verdicts._warn_not_stored.cache_clear()
    with kernels("auto") as used:
        OP.run("usual", *inputs())
        OP.run("usual", *inputs())
        OP.run("usual", *(x.detach() for x in inputs()))
    stderr = capsys.readouterr().err
    assert stderr.count("cannot be stored") == 1 and "XDG_CACHE_HOME" in stderr
    assert used.record()["toy"].startswith("right (") and proved == ["right", "right"]


def test_two_at_once_prove_once(card: Path, monkeypatch: pytest.MonkeyPatch):
    proofs: list[str] = []

    def answer(op: object, key: verdicts.Key, inputs: object, limit: int) -> Answer:
        proofs.append(key.kernel)
        other.start()
        other.join(0.5)  # it waits for the verdict
        assert other.is_alive()
        return FAST

    key = verdicts.key_of(OP, "right", "usual", inputs())
    others: list[verdicts.Verdict | None] = []
    other = threading.Thread(target=lambda: others.append(verdicts._prove_once(OP, key, inputs())))
    monkeypatch.setattr(verdicts, "_answer", answer)
    first = verdicts._prove_once(OP, key, inputs())
    other.join(10)
    assert proofs == ["right"] and others == [first]


def test_a_signal_ends_the_wait_for_a_proof(card: Path, monkeypatch: pytest.MonkeyPatch):
    card.mkdir(parents=True)
    with (card / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(verdicts.interrupts, "requested", lambda: True)
        assert verdicts.verdict(OP, "right", "usual", inputs()) is None


def test_a_population_s_first_member_is_what_is_proved(card: Path, proved: list[str]):
    x, weight = inputs()
    alone = verdicts.key_of(OP, "right", "usual", [x, weight])
    stacked = torch.stack([x.detach(), x.detach()], 1).requires_grad_()
    vmap(lambda member: OP.run("usual", member, weight), in_dims=1)(stacked)
    assert list(verdicts._known) == [alone] and verdicts._known[alone].sizes == "4x32x8 8x5"  # pyright: ignore


def test_a_proof_may_begin_inside_vmap(card: Path, monkeypatch: pytest.MonkeyPatch):
    trained: list[object] = []

    def read_alone(words: list[str], log: Path, limit: int) -> int:
        trained.append(torch.load(words[-2], weights_only=False).trained)
        return log.write_text("") + limit

    monkeypatch.setattr(verdicts, "_exit_code", read_alone)
    x, weight = inputs()
    vmap(lambda member: OP.run("usual", member, weight))(
        torch.stack([x.detach(), x.detach()]).requires_grad_()
    )
    assert trained == [[True, True]]


def test_nothing_is_proved_while_torch_compile_traces(
    card: Path, proved: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    OP.run("usual", *inputs())
    assert not proved and not verdicts._known


def test_on_a_cpu_nothing_is_proved_or_looked_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "verdict", lambda *given: pytest.fail("asked for a verdict"))
    monkeypatch.setattr(choice, "absent", lambda name: pytest.fail("looked for a package"))
    OP.run("usual", *inputs())


def test_a_kernel_that_ends_its_process_or_hangs_ends_no_cell(card: Path, capsys: pytest.CaptureFixture[str]):
    """The proofs run in processes, three of them."""
    ends = {}
    for kernel, limit in (("right", 60), ("crash", 60), ("hang", 1)):
        key = verdicts.key_of(OP, kernel, "usual", inputs())
        verdict = verdicts.prove(OP, key, inputs(), limit)
        assert verdict is not None and verdicts.read(key) == verdict
        ends[kernel] = (verdict.answer.end, verdict.answer.why[:12])
    assert ends == dict(right=("right", ""), crash=("crashes", "SIGSEGV"), hang=("hangs", "no end after"))
    assert "toy: crash on cpu is crashes: SIGSEGV" in capsys.readouterr().err


def test_all_are_proved_listed_written_and_read_again(
    card: Path,
    proved: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """Every kernel but those that refuse a CPU's tensors: `unfit` is what a card would answer."""
    everything = {(op.name, name) for op in ops() for name in op.others if name == "triton"}
    for op in ops():
        monkeypatch.setattr(op, "refusal", lambda name, *inputs: None if name == "triton" else "another's")
    monkeypatch.setattr(Op, "implementation", lambda self, name: lambda *inputs: None)
    proved_here = list(prove_all("cpu", (torch.float32,), small=True))
    assert {(one.key.op, one.key.kernel) for one in proved_here} == everything
    verdicts.write_list(tmp_path / "h200.json", proved_here)
    for path in card.glob("*.json"):
        path.unlink()
    main(["--verdicts", str(tmp_path / "h200.json")])
    shown = capsys.readouterr().out
    assert all(f"{op} " in shown for op, _ in everything) and "2.00 times" in " ".join(shown.split())
    assert sorted(map(str, verdicts.all_stored())) == sorted(map(str, proved_here))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--verdicts", str(tmp_path / "none.json")])
    assert "--verdicts (=" in capsys.readouterr().err


def test_a_cache_that_others_can_write_is_not_believed(
    card: Path, proved: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert (again(proved), again(proved)) == (1, 1)
    (path,) = card.glob("*.json")
    path.chmod(0o666)
    assert (again(proved), again(proved)) == (2, 2), "it is written again"
    verdicts._warn_not_stored.cache_clear()
    card.chmod(0o777)
    assert again(proved) == 3 and verdicts.all_stored() == []
    assert f"{card} can be written by other users: chmod go-w" in capsys.readouterr().err
    card.chmod(0o700)
    monkeypatch.setattr("zoo.kernels.common.private.os.geteuid", lambda: 12345)
    assert again(proved) == 4


def planted(**changes: object) -> dict:
    key = verdicts.Key("c", "torch=2", "attention", "flash_attn", "0", "float32:8", "sdpa", True)
    whole = asdict(verdicts.Verdict(key, FAST, "2x2", "2026"))
    return {**whole, **{part: whole[part] | value for part, value in changes.items()}}  # pyright: ignore


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            json.dumps([planted(key={"op": "../../../outside"})]),
            "no 'flash_attn' of an op '../../../outside'",
        ),
        (json.dumps([planted(key={"kernel": "/tmp/outside"})]), "no '/tmp/outside' of an op 'attention'"),
        (json.dumps([planted(answer={"seconds": 0.0})]), "answer.seconds: Input should be greater than 0"),
        ("[" * 100_000, "recursion limit exceeded"),
        (" " * (verdicts.MOST_BYTES + 1), "bytes, and at most"),
        ("{}", "Input should be a valid array"),
        ("[{}]", "0.key: Field required"),
    ],
)
def test_a_planted_file_of_verdicts_costs_a_line_and_writes_nothing(
    text: str, reason: str, tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file.json").write_text(text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit):
        main(["--verdicts", str(tmp_path / "file.json")])
    last = capsys.readouterr().err.splitlines()[-1]
    assert reason in last and sorted(tmp_path.rglob("*")) == before


def test_a_pipe_is_no_file_of_verdicts(tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(SystemExit):
            main(["--verdicts", str(path)])
        assert "it is no regular file" in capsys.readouterr().err


def test_a_file_of_verdicts_reaches_the_terminal_as_text(
    tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file.json").write_text(json.dumps([planted(key={"inputs": "\x1b[2J[/x]"})]))
    main(["--verdicts", str(tmp_path / "file.json")])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and r"\x1b[2J[/x]" in "".join(shown.split())
    (stored,) = card.glob("*.json")
    assert stored.parent == card and len(stored.stem) == 24


def test_the_hash_is_of_the_kernel_and_all_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def hashed(**texts: str) -> str:
        for name, text in texts.items():
            (tmp_path / "zoo" / f"{name}.py").write_text(text)
        return verdicts.source.__wrapped__("zoo.a")

    (tmp_path / "zoo").mkdir()
    monkeypatch.setattr(verdicts, "ROOT", tmp_path)
    first = hashed(a="from zoo.b import f", b="from zoo import c", c="x = 1", d="x = 1")
    assert hashed(d="x = 2") == first
    assert (
        len({first, hashed(c="x = 2"), hashed(b="from zoo import c, d"), hashed(a="from zoo import b")}) == 4
    )
    (tmp_path / "zoo" / "a.py").write_text('"""Words."""\nfrom zoo.b import f  # more words')
    assert hashed(b="from zoo import c", c="x = 1") == hashed(a='"""Other words."""\nfrom zoo.b import f')
