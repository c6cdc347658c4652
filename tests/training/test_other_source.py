"""Other source than a record's or a checkpoint's is reported, and rerun=true repeats a finished cell."""

import json
import shutil
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.command import SMALL, Zoo, written
from zoo import evaluate
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.launch import rerun
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.launch.sweep import run_sweep
from zoo.results import lease, source
from zoo.results.checked import parse
from zoo.results.store import is_done

ONE = (*SMALL, "max_examples=8", "optim.max_epochs=1", "optim.batch_size=8", "mixer=mine")
CODE = """
from beside import FACTOR
from zoo.mixers.base import Mixer
from zoo.mixers.state import StateSize


class Mine(Mixer):
    '''What it is.'''

    def __init__(self, d_model: int, scale: float = 1.0):
        super().__init__()
        self.factor = FACTOR * scale

    def extend(self, x, state=None):
        return x * self.factor, ()

    def state_size(self, seq_len):
        return StateSize(None, 0, 0)
"""
YAML = """
about: {label: Mine, family: ssm, knob: null}
_target_: truth_mixer.Mine
d_model: ${d_model}
scale: 1.0
"""


@pytest.fixture
def mine(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Yield the command, with a user's mixer that imports another file of the user."""
    written(tmp_path / "conf" / "mixer" / "mine.yaml", YAML)
    (tmp_path / "truth_mixer.py").write_text(CODE)
    (tmp_path / "beside.py").write_text("FACTOR = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tests.command.TOYS", tmp_path / "conf")
    forget()
    yield zoo
    for name in ("truth_mixer", "beside"):
        sys.modules.pop(name, None)
    forget()


def forget() -> None:
    """Forget the cached sources, as a new process would."""
    for remembered in (source.digest, source._read, source._file, source._home, source._is_neighbour):
        remembered.cache_clear()


def cell_of(tmp_path: Path, *words: str) -> Cell:
    return composer(tmp_path / "conf").cell([*ONE, *words])


def test_comments_and_docstrings_do_not_change_the_source(mine: Zoo, tmp_path: Path):
    def digest() -> str:
        forget()
        return source.digest("truth_mixer.Mine")

    def written(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return digest()

    first = digest()
    assert written("truth_mixer.py", "# words\n" + CODE.replace("What it is.", "What\n    else.")) == first
    assert written("truth_mixer.py", CODE.replace("x * self", "x - self")) != first
    assert written("truth_mixer.py", CODE) == first
    assert written("beside.py", "FACTOR = 2.0\n") != first
    assert written("beside.py", "FACTOR = 1.0\n") == first
    assert source.source(cell_of(tmp_path).config).keys() >= {"truth_mixer.Mine", "zoo.tasks.mqar.MQAR"}


def test_other_source_is_reported_and_rerun_replaces_the_record(mine: Zoo, tmp_path: Path):
    """The old record of the cell stays until the new one is complete."""
    mine.done(*ONE)
    folder = cell_of(tmp_path).folder
    record = parse((folder / "result.json").read_text(), folder)
    assert "other source" not in mine(*ONE)[1]
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    forget()
    out = mine(*ONE)[1]
    assert out.splitlines()[-1] == "made by other source of truth_mixer.Mine; rerun=true runs it again"
    assert json.loads((folder / "result.json").read_text()) == record
    assert evaluate.main([str(folder), "evaluation=scores", "--config-dir", str(tmp_path / "conf")]) == 0
    assert "note: made by other source of truth_mixer.Mine; the answers are" in mine.capfd.readouterr().err
    assert "not done again" not in mine.done(*ONE, "rerun=true")
    again = parse((folder / "result.json").read_text(), folder)
    assert again["source"] != record["source"] and again["run_id"] == record["run_id"]
    assert again["overrides"] == record["overrides"] and "rerun" not in (folder / "config.yaml").read_text()
    assert [path.name for path in (tmp_path / "results").iterdir()] == [folder.name]
    assert "other source" not in mine(*ONE)[1]
    mine("-m", *ONE, "rerun=false")
    del again["source"]  # as in an older record
    (folder / "result.json").write_text(json.dumps(again))
    assert "other source" not in mine(*ONE)[1]


def test_a_sweep_replaces_records_when_all_are_new(
    mine: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Alone:
        """A pool in this process, which is killed after the first cell if `after` is set."""

        after: str | None = None

        def __init__(self, *of: object) -> None: ...

        def run(self, todo: list[Cell]) -> list[str]:
            for i, cell in enumerate(todo):
                ran.append(cell.run_id)
                if Alone.after == "killed" and i == 1:
                    raise KeyboardInterrupt
                run_cell(cell, lambda progress: None)
            return []

    ran: list[str] = []
    monkeypatch.setattr("zoo.launch.sweep.Pool", Alone)
    made, words = composer(tmp_path / "conf"), [[*ONE, f"seed={seed}"] for seed in (0, 1)]
    run_sweep(made, words, 1)
    places = [made.cell(one).folder for one in words]
    old = [(place / "result.json").read_text() for place in places]
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    forget()
    mine.capfd.readouterr()
    run_sweep(made, words, 1)
    message = (
        "2 of the 2 done cells were made by other source of truth_mixer.Mine; rerun=true runs them again"
    )
    assert message in mine.capfd.readouterr().out.splitlines() and len(ran) == 2
    again = [[*one, "rerun=true"] for one in words]
    Alone.after = "killed"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(made, again, 1)
    assert [(place / "result.json").read_text() for place in places] == old
    Alone.after, ran[:] = None, []
    run_sweep(made, again, 1)  # the first waits in its stage
    assert ran == [places[1].name]
    new = [json.loads((place / "result.json").read_text()) for place in places]
    assert all(record["source"] != json.loads(text)["source"] for record, text in zip(new, old, strict=True))
    assert not (tmp_path / "results" / ".rerun").exists()


def staged(tmp_path: Path) -> Cell:
    """Return a finished cell whose new record waits in its stage."""
    cell = cell_of(tmp_path, "rerun=true")
    for folder, text in ((cell.place, "old"), (cell.folder, "new")):
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(text)
    return cell


def test_a_kill_between_moves_loses_nothing(mine: Zoo, tmp_path: Path):
    cell = staged(tmp_path)
    cell.place.rename(cell.stage / f".{cell.run_id}.old")
    rerun.prepare(cell_of(tmp_path))
    assert (cell.place / "result.json").read_text() == "old" and is_done(cell.folder)
    rerun.adopt([cell])
    assert (cell.place / "result.json").read_text() == "new" and not cell.stage.exists()


def test_an_error_between_moves_restores_the_old(mine: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cell, move = staged(tmp_path), Path.rename

    def rename(path: Path, to: Path) -> Path:
        if path == cell.folder:
            raise OSError("no")
        return move(path, to)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no"):
        patched.setattr(Path, "rename", rename)
        rerun.adopt([cell])
    assert (cell.place / "result.json").read_text() == "old"
    assert (cell.folder / "result.json").read_text() == "new"


def test_a_rerun_started_by_other_source_starts_over(mine: Zoo, tmp_path: Path):
    cell = staged(tmp_path)
    noted = source.source(cell.config)
    (cell.folder / "env.json").write_text(json.dumps({"source": noted}))
    rerun.prepare(cell)
    assert cell.folder.exists()
    (cell.folder / "env.json").write_text(json.dumps({"source": noted | {"truth_mixer.Mine": "0"}}))
    rerun.prepare(cell)
    assert not cell.folder.exists() and (cell.place / "result.json").read_text() == "old"


def test_a_checkpoint_of_other_source_is_refused(mine: Zoo, tmp_path: Path):
    cell = cell_of(tmp_path)
    cell.folder.mkdir(parents=True)
    zipfile.ZipFile(cell.folder / "last.ckpt", "w").close()
    noted = {"source": source.source(cell.config) | {"truth_mixer.Mine": "0"}}
    (cell.folder / "env.json").write_text(json.dumps(noted))
    message = (
        "last.ckpt was written by other source of truth_mixer.Mine: delete it, and its cell starts anew."
    )
    assert message in mine.refused(*ONE)
    with pytest.raises(CellFailed, match=message):
        run_cell(cell, Mock())
    assert json.loads((cell.folder / "env.json").read_text()) == noted
    (cell.folder / "last.ckpt").unlink()
    assert mine(*ONE)[0] == 0


def test_other_text_is_other_source(cwd: Path):
    """The files of a task are named by its settings, and what they hold is not."""
    for name in "abc":
        (cwd / name).write_text(f"{name} is a letter. " * 400)
    cell = composer(None).cell(("mixer=based", "task=text", "task.corpus.files=[a,b,c]"))
    before = source.source(cell.config)
    assert source.source(cell.config) == before
    (cwd / "b").write_text("Other text. " * 400)
    assert source.changed({"source": before}, source.source(cell.config)) == ["task.corpus.files"]


def test_an_impossible_rerun_is_refused(mine: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for check in ("check_commands", "check_partition"):
        monkeypatch.setattr(f"zoo.launch.slurm.cluster.{check}", lambda *of: None)
    for words, message in (
        (("rerun=3",), "rerun (=3) must be true or false."),
        (("-m", "hydra/launcher=slurm", "rerun=true"), "rerun=true is for hydra/launcher=local: "),
    ):
        assert message in mine.refused(*words, *ONE)
    cell = cell_of(tmp_path, "rerun=true")
    cell.place.mkdir(parents=True)
    with (
        lease.held(cell.place),
        pytest.raises(ValueError, match=r"rerun=true: .* is run by .*: wait until it"),
    ):
        rerun.prepare(cell)
    shutil.rmtree(cell.place)
    assert cell.run_id == cell_of(tmp_path).run_id and cell.point == cell_of(tmp_path).point
