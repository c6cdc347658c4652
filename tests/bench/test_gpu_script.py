"""benchmarks.gpu on a machine without a card: every part runs at tiny sizes, and its verdicts are earned."""

import json
import os
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as script
from benchmarks.gpu import commands, targets, tested
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.commands import Command, Part, Place, read_csv, run, write_csv
from benchmarks.gpu.first import FIRST
from benchmarks.gpu.parts import PARTS
from tests.command import ROOT
from tests.kernels.conftest import end_if_lost
from tests.registry import compose
from zoo.bench.op_subjects import subjects

SLOW = ["timeit", "-n", "1", "-r", "1", "import time; time.sleep(60)"]


def test_a_few_parts_run_at_tiny_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    words = ["layers", "sweep", "--device", "cpu", "--small", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *words])
    failed = main()
    complete(tmp_path, failed, {"layers", "sweep"})


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_part_runs_at_tiny_sizes(tmp_path: Path):
    words = ["benchmarks.gpu", "all", "--device", "cpu", "--small", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    complete(tmp_path, done.returncode, set(PARTS))
    assert all(list(tmp_path.glob(f"{part}/**/*.md")) for part in ("tests", "ops", "steps"))


def complete(place: Path, code: int, parts: set[str]) -> None:
    """What these parts leave when all of them have ended well."""
    ended = {(row["part"], row["name"]): row["note"] for row in read_csv(place / "commands.csv")}
    assert code == 0, ended
    assert {part for part, _ in ended} == parts
    assert list(place.glob("layers/**/*.md"))
    assert list(place.glob("sweep/**/*.png")) and (place / "sweep" / "based_fig2.zip").is_file()
    with zipfile.ZipFile(place / "tables.zip") as packed:
        names = packed.namelist()
    assert {"targets.md", "commands.csv", "sweep/based_fig2.zip"} <= set(names)
    assert not any(name.endswith(("result.json", "metrics.csv", "last.ckpt")) for name in names)
    verdicts = (place / "targets.md").read_text()
    assert verdicts.count("not measured") == len(targets.TARGETS), "a CPU cannot meet a card's target"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_card_that_is_missing_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", "ops", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main()
    assert "no CUDA device.  `--device cpu --small` tries every part." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def place(tmp_path: Path, device: str = "cuda") -> Place:
    return Place(device, False, tmp_path)


def part(*wanted: Command) -> Part:
    return Part(lambda place: wanted)


def test_a_command_that_fails_costs_the_next_nothing(tmp_path: Path):
    both = part(Command("fails", ["no_such_module"]), Command("runs", ["timeit", "-n", "1", "pass"]))
    assert run("some", both, place(tmp_path), time.monotonic() + 60) == 1
    notes = {row["name"]: (row["code"], row["note"]) for row in read_csv(tmp_path / "commands.csv")}
    assert notes == {"fails": ("1", "exit code 1"), "runs": ("0", "")}
    assert "no_such_module" in (tmp_path / "some" / "fails.log").read_text()


@pytest.mark.parametrize(("may_stop", "failures"), [(True, 0), (False, 1)])
def test_what_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, may_stop: bool, failures: int
):
    monkeypatch.setattr(commands, "LEAST_S", 0.1)
    slow = part(Command("slow", SLOW, may_stop=may_stop))
    assert run("some", slow, place(tmp_path), time.monotonic() + 0.5) == failures
    (row,) = read_csv(tmp_path / "commands.csv")
    assert row["note"] == "stopped when its time was over" and float(row["seconds"]) < 30


def test_nothing_is_begun_without_time_and_a_second_run_replaces_the_note(tmp_path: Path):
    one = part(Command("one", ["timeit", "-n", "1", "pass"]))
    assert run("some", one, place(tmp_path), time.monotonic() + 1) == 1
    (row,) = read_csv(tmp_path / "commands.csv")
    assert row["note"] == "not begun: no time was left"
    assert run("some", one, place(tmp_path), time.monotonic() + 60) == 0
    (row,) = read_csv(tmp_path / "commands.csv")
    assert (row["note"], row["code"]) == ("", "0")


# the first half hour ---------------------------------------------------------------------------------------


def test_the_first_half_hour_has_its_order_and_thirty_minutes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A part that fails or takes too long costs the next nothing; time left over is the last one's."""
    clock, left, packed = [0.0], dict[str, float](), list[int]()

    def run_part(name: str, part: Part, where: Place, deadline: float) -> int:
        left[name] = (deadline - clock[0]) / 60
        clock[0] += 60 * (9 if name == "tests" else 1)  # the first takes a minute too long
        return 1

    monkeypatch.setattr(script, "run", run_part)
    monkeypatch.setattr(script, "pack", lambda where: packed.append(len(left)))
    monkeypatch.setattr(script.time, "monotonic", lambda: clock[0])
    assert script._first(place(tmp_path)) == 5 and packed == [1, 2, 3, 4, 5]
    assert left == {"tests": 8, "ops": 5, "steps": 3, "point": 8, "rest": 18}
    assert sum(minutes for _, minutes in FIRST.values()) == 30


@pytest.mark.parametrize(("device", "small"), [("cuda", False), ("cpu", True)])
def test_the_first_half_hour_s_commands_are_words_that_are_known(tmp_path: Path, device: str, small: bool):
    where = Place(device, small, tmp_path)
    given = {name: list(part.commands(where)) for name, (part, _) in FIRST.items()}
    assert all(given.values())
    assert all(find_spec(one.words[0]) for commands in given.values() for one in commands)
    (run_words,) = (one.words for one in given["point"] if one.name == "run")
    batch = [word for word in run_words[2:] if not word.startswith("hydra.")]
    cells = [
        compose(list(words))
        for words in product(*([f"{w.split('=')[0]}={v}" for v in w.split("=")[1].split(",")] for w in batch))
    ]
    assert len({cell.run_id for cell in cells}) == (1 if small else 8)


# verdicts --------------------------------------------------------------------------------------------------


def case(file: str, child: str = "", name: str = "test_x") -> str:
    return f'<testcase classname="tests.kernels.{file}" name="{name}" time="1">{child}</testcase>'


def report_of(tmp_path: Path, cases: list[str]) -> Path:
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return report


def test_a_kernel_is_proven_where_all_its_tests_have_run_and_passed(tmp_path: Path):
    """A package that is not installed takes nothing from one that is."""
    cases = [case("test_a_gpu"), case("test_a_gpu"), case("test_b_gpu"), case("test_b_gpu", "<failure/>")]
    cases += [case("test_c_gpu"), case("test_c_gpu", "<skipped/>"), case("test_d_gpu", "<error/>")]
    cases += [
        case("test_p_gpu", "", "test_delta_rule_by_fla[a]"),
        case("test_p_gpu", "<skipped/>", "test_mamba_ssm[b]"),
    ]
    found = tested.counts([report_of(tmp_path, cases)])
    assert {file: tested.proven(ends) for file, ends in found.items()} == {
        "test_a_gpu": True,
        "test_b_gpu": False,
        "test_c_gpu": False,
        "test_d_gpu": False,
        "test_p_gpu fla": True,
        "test_p_gpu mamba_ssm": False,
    }
    assert "| test_b_gpu | 1 | 1 | 0 | no |" in tested.table(found)


def test_the_error_and_bound_of_every_case_are_in_a_table(tmp_path: Path):
    held = json.dumps([("output 0", 1.23456e-7, 4e-6), ("gradient 1", 2e-3, 1e-3)]).replace('"', "&quot;")
    child = f'<properties><property name="distances" value="{held}"/></properties>'
    found = list(
        tested.errors(report_of(tmp_path, [case("test_a_gpu", child, "test_x[1]"), case("test_a_gpu")]))
    )
    assert [(row["of"], row["error"], row["bound"]) for row in found] == [
        ("output 0", "1.23e-07", "4e-06"),
        ("gradient 1", "0.002", "0.001"),
    ]
    assert found[0]["test"] == "tests.kernels.test_a_gpu::test_x[1]"


def test_a_part_that_is_stopped_is_asked_as_ctrl_c_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """At which pytest writes its report."""
    monkeypatch.setattr(commands, "LEAST_S", 0.1)
    lines = "print('begun', flush=True)", "try: time.sleep(60)", "except KeyboardInterrupt: print('asked')"
    wait = "\n".join(["import time", *lines])
    words = ["timeit", "-n", "1", "-r", "1", wait]
    run("some", part(Command("slow", words, may_stop=True)), place(tmp_path), time.monotonic() + 2)
    assert (tmp_path / "some" / "slow.log").read_text().split()[:2] == ["begun", "asked"]


def test_a_worker_that_has_lost_its_card_ends_and_is_replaced(monkeypatch: pytest.MonkeyPatch):
    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    end_if_lost()
    assert not ended
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    end_if_lost()
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    end_if_lost()
    assert ended == [1]


def ops_row(
    name: str, implementation: str, seconds: float, share: float, small: bool = False
) -> dict[str, str]:
    subject = next(s for s in subjects(small) if s.name == name)
    return {
        "op": subject.op,
        "mixer": name,
        "sizes": f"{subject.words} bfloat16 forward",
        "implementation": implementation,
        "seconds": str(seconds),
        "floor_share": str(share),
    }


def put(home: Path, rows: list[dict[str, str]]) -> None:
    for op in {row["op"] for row in rows}:
        folder = home / "ops" / op
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(folder / "ops.csv", [row for row in rows if row["op"] == op])


def verdict(home: Path, name: str, device: str = "cuda") -> list[tuple[str, str]]:
    return [t.row(place(home, device))[2:] for t in targets.TARGETS if t.name == name]


def test_targets_are_met_by_our_kernels_at_their_sizes_alone(tmp_path: Path):
    prefill = [("triton", 2.0, 0.4), ("no state: triton", 1.0, 0.8), ("no state: fla", 2.5, 0.3)]
    decode = [("triton", 1.0, 0.6), ("chunked", 0.1, 0.99)]
    rows = [ops_row("taylor prefill", *row) for row in prefill]
    rows += [ops_row("taylor decode", *row) for row in decode]
    rows += [ops_row("taylor decode", "triton", 0.1, 0.9, small=True)]
    rows += [ops_row("se_attention", "triton", 1.0, 0.5), ops_row("se_attention", "everything: sdpa", 4.9, 1)]
    rows += [ops_row("se_attention", "a window as long: FlexAttention", 0.8, 0.5)]
    put(tmp_path, rows)
    assert verdict(tmp_path, "taylor prefill, against fla's fused kernel") == [("2.5 times as fast", "yes")]
    assert verdict(tmp_path, "taylor prefill") == [("1.25 times its floor", "yes")]
    assert verdict(tmp_path, "taylor decode") == [("1.67 times its floor", "no")]
    assert verdict(tmp_path, "SE-Attn at 65,536, blocks given, against attention") == [
        ("4.9 times as fast", "no")
    ]
    assert verdict(tmp_path, "SE-Attn at 65,536, blocks given") == [("1.25 times a window's time", "yes")]
    assert verdict(tmp_path, "taylor decode", "cpu") == [("not measured", "no")]


def test_populations_are_judged_by_members_a_second_and_by_the_mixer_that_gains_least(tmp_path: Path):
    rows = [("based", "alone", 10.0), ("based", "alone, recorded", 50.0), ("based", "population of 4", 40.0)]
    rows += [("based", "population of 64", 120.0), ("attention", "alone", 10.0)]
    rows += [("attention", "population of 4", 110.0)]
    table = [
        {"mixer": mixer, "implementation": how, "alternative": "alone", "units_per_second": str(speed)}
        for mixer, how, speed in rows
    ]
    (tmp_path / "steps").mkdir()
    write_csv(tmp_path / "steps" / "population.csv", table)
    assert verdict(tmp_path, "populations, against one cell at a time") == [
        ("11 times the cells an hour", "yes")
    ]


def test_a_figure_that_was_not_finished_has_no_time(tmp_path: Path):
    row = {"part": "sweep", "name": "run", "seconds": "600", "code": "0", "note": "", "command": ""}
    write_csv(tmp_path / "commands.csv", [row | {"note": "stopped when its time was over"}])
    assert verdict(tmp_path, "Figure 2 on one card") == [("not measured", "no")]
    write_csv(tmp_path / "commands.csv", [row])
    assert verdict(tmp_path, "Figure 2 on one card") == [("10 minutes", "yes")]
