"""Every public command on a terminal: narrow, wide, dumb and without colour, and one as a separate process.

The mains are called in this process, one after the other: torch and the others are imported once.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import zoo.kernels.__main__
import zoo.mixers.__main__
import zoo.tasks.__main__
from analysis import expected, pareto
from analysis.figures.__main__ import main as figures
from analysis.report.__main__ import main as report
from analysis.statistics import __main__
from tests.analysis import fake
from tests.analysis.test_commands import EXPECTED
from tests.command import OURS, ROOT, signals_kept
from tests.terminal.screen import Screen, here
from tests.test_interrupts import drop
from zoo import plan, run, status
from zoo.bench.__main__ import main as bench
from zoo.common import terminal
from zoo.results import archive, collect

pytestmark = pytest.mark.xdist_group("terminal")  # one worker, because all read the same few cells
SETTINGS = {
    "80 columns": (80, {"TERM": "xterm-256color"}),
    "200 columns, no colour": (200, {"TERM": "xterm-256color", "NO_COLOR": "1"}),
    "dumb": (80, {"TERM": "dumb"}),
}
EPOCH = "optim.max_epochs=1 optim.batch_size=8 optim.eval_batch_size=8"
TINY = ("experiment=smoke", "max_examples=8", "d_model=16")


def run_cells(words: list[str]) -> Any:
    """Run zoo.run, which reads its words from sys.argv."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["zoo.run", *words])
        return run.main()


# name -> main, its words, a part of its output; {ours} is a folder of trained cells, {fake} of made-up ones
COMMANDS: dict[str, tuple[Callable[[list[str]], Any], str, str]] = {
    "run": (run_cells, "mixer=sliding_window {tiny} results={new}", "trained and tested in "),
    "run, done": (run_cells, "mixer=sliding_window seed=1 {tiny} results={ours}", "done before"),
    "sweep": (run_cells, "-m {demo}", "6 done already"),
    "help": (run_cells, "mixer=based --help", "# width of the residual stream"),
    "wrong": (run_cells, "mixr=based", "did you mean mixer?"),
    "plan": (plan.main, "-m {demo}", "6 cells: 6 done"),
    "state table": (plan.main, "mixer=based,sliding_window", "sliding_window"),
    "status": (status.main, "{ours}", "8 cells: "),
    "status --watch": (status.main, "{ours} --watch", "8 cells: "),
    "collect": (collect.main, "{ours} --out {new}/table", "table.csv"),
    "archive": (archive.main, "{ours} --out {new}.zip", "8 cells: "),
    "mixers": (zoo.mixers.__main__.main, "", "mixer.feature_map.num_features=16,32,64"),
    "tasks": (zoo.tasks.__main__.main, "mqar", "seq_len=32"),
    "kernels": (zoo.kernels.__main__.main, "", "taylor_scan"),
    "expected": (expected.main, "{fake} {fake}/expected.csv", "of 2 as expected"),
    "figures": (figures, "--list", "based_fig2"),
}
SLOW: dict[str, tuple[Callable[[list[str]], Any], str, str]] = {
    "bench": (bench, "data task.vocab_size=128 {tiny} --rounds 1", "a second"),
    "statistics": (__main__.main, "{fake} --out {new}", "wrote "),
    "pareto": (pareto.main, "{fake} --out {new}", "wrote "),
    "a figure": (figures, "frontier {fake} --out {new}", "wrote "),
    "report": (report, "{fake} --out {new}/report.html", "wrote "),
}
DEMO = "experiment=demo mixer=sliding_window max_examples=8 d_model=16 {epoch} results={ours}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("terminal")
    (fake.write(base / "fake", seeds=2) / "expected.csv").write_text(EXPECTED.format(score=0.1))
    return {"ours": base / "ours", "fake": base / "fake"}


@pytest.fixture(scope="module")
def sweep(folders: dict[str, Path]) -> Screen:
    """Run the demo's sweep, cut down, on a terminal of 80 columns, and then two more cells."""
    words = DEMO.format(epoch=EPOCH, **folders)
    with pytest.MonkeyPatch.context() as patch:
        screen = on(patch, "80 columns", run_cells, f"-m {words}".split())
        others = ["-m", "mixer=sliding_window", "seed=1,2", *TINY, f"results={folders['ours']}"]
        on(patch, "dumb", run_cells, others)
    return screen


def on(patch: pytest.MonkeyPatch, setting: str, main: Callable[[list[str]], Any], words: list[str]) -> Screen:
    """Return the screen after a command, which must succeed unless it is the wrong one."""
    columns, environment = SETTINGS[setting]
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM"):
        patch.delenv(name, raising=False)
    for name, value in environment.items():
        patch.setenv(name, value)
    with here(columns) as screen:
        code = main(words)
    assert code in (None, 2 if words == ["mixr=based"] else 0), screen.text
    sane(screen, setting)
    return screen


def sane(screen: Screen, setting: str) -> None:
    text = screen.text
    assert "Traceback" not in text and "Error" not in text, text
    assert not screen.too_wide, screen.too_wide
    if setting == "dumb":
        assert "\x1b" not in screen.raw, text
    if setting.endswith("no colour"):
        assert not screen.colours


@pytest.mark.parametrize(
    ("name", "setting"), [*product(COMMANDS, SETTINGS), *((name, "80 columns") for name in SLOW)]
)
@pytest.mark.usefixtures("sweep")  # its records are what many read
def test_a_command_on_a_terminal(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, setting: str
):
    main, words, message = (COMMANDS | SLOW)[name]
    shared = folders | {"tiny": " ".join(TINY), "epoch": EPOCH, "new": tmp_path / "new"}
    screen = on(monkeypatch, setting, main, words.replace("{demo}", DEMO).format(**shared).split())
    assert message in screen.text, screen.text
    if name == "run":
        assert ("0/?" in screen.text) is (setting != "dumb")


def test_a_sweep_on_a_terminal(sweep: Screen):
    """Its lines have room for a ^C: behind a full one it would begin a new line."""
    assert max(map(len, re.findall(r"^sweep .*", sweep.text, re.MULTILINE))) <= 78
    assert "6 cells: 0 done already, 6 to run" in sweep.text
    assert "\nwindow=8 seed=0 " in sweep.text and "0/?" in sweep.text
    assert "[6/6] mixer.window=" in sweep.text
    assert "32/4: " in sweep.text and "±" in sweep.text


def test_a_separate_process_on_a_terminal(tmp_path: Path):
    """COLUMNS is unset and nothing is patched; this command had crashed at the first refresh of its bar."""
    columns, environment = SETTINGS["80 columns"]
    inherited = {k: v for k, v in (os.environ | OURS).items() if k not in ("COLUMNS", "NO_COLOR")}
    screen = Screen(columns)
    command = [sys.executable, "-m", "zoo.run", "mixer=sliding_window", "experiment=smoke"]
    fd = screen.theirs
    ended = subprocess.run(
        command, cwd=tmp_path, env=inherited | environment, stdin=fd, stdout=fd, stderr=fd, timeout=120
    )
    screen.close()
    assert ended.returncode == 0, screen.text
    sane(screen, "80 columns")
    assert "trained and tested in " in screen.text and "0/?" in screen.text


@pytest.mark.parametrize("dropped", [False, True])
def test_ctrl_c_ends_a_command_in_a_line(dropped: bool, capsys: pytest.CaptureFixture[str]):
    def main() -> int:
        (drop if dropped else signal.raise_signal)(signal.SIGINT)
        time.sleep(30)
        return 0

    with signals_kept(), pytest.raises(SystemExit) as ended:
        terminal.command(main)
    assert ended.value.code == terminal.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("module", ["zoo.plan", "analysis.pareto"])
def test_ctrl_c_during_the_imports_prints_nothing(module: str):
    """The imports take seconds when the disk is cold."""
    package = module.partition(".")[0]
    command = [sys.executable, "-X", "importtime", "-m", module, "--help"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stderr=pipe, stdout=pipe, text=True) as process:
        assert process.stderr is not None and process.stdout is not None
        assert any(line.endswith(f"| {package}\n") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        errors = [line for line in process.stderr if not line.startswith("import time:")]
        assert process.stdout.read() == ""
    assert (process.returncode, errors) == (-signal.SIGINT, [])


def test_a_package_that_imports_zoo_keeps_its_signal_handler(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import zoo\n")
    (tmp_path / "mine" / "go.py").write_text(
        "import signal\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "mine.go"], cwd=tmp_path, env=environment, check=True, timeout=60)


OTHER_END = {"run.py"}  # prints more on Ctrl-C
NO_COMMANDS = {"proof.py", "add_your_own_task.py"}  # an internal process, a notebook


def test_every_command_handles_ctrl_c():
    """A bench had answered Ctrl-C with the tracebacks of its workers and its own."""
    calls = {}
    for path in [*(ROOT / "zoo").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]:
        _, is_command, call = path.read_text().rpartition('\nif __name__ == "__main__":')
        if is_command and path.name not in OTHER_END | NO_COMMANDS:
            calls[path] = call.strip()
    assert len(calls) > 10 and set(calls.values()) <= {"command(main)", "terminal.command(main)"}, calls


def test_a_long_list_is_broken_between_words_on_a_terminal():
    with here(60) as screen:
        assert run_cells(["mixer=swa"]) == 2
    lines = screen.text.strip().split("\n")
    assert len(lines) > 10 and max(map(len, lines)) <= 60
    names, _, hint = " ".join(lines).partition("(there are: ")[2].partition("; ")
    assert hint == "one of your own needs --config-dir)"
    assert names.split(", ") == sorted(path.stem for path in Path("conf/mixer").glob("*.yaml"))
