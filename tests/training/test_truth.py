"""Wrong claims of a mixer end a cell, other source is reported, and rerun=true repeats a finished cell."""

import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.command import SMALL, Zoo
from tests.training.tiny import tiny
from zoo import evaluate
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.kernels.choice import kernels
from zoo.launch import rerun
from zoo.launch.grouping import Group
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.launch.run_population import run_population
from zoo.launch.sweep import run_sweep
from zoo.mixers.base import Mixer
from zoo.mixers.state import StateSize
from zoo.model import SequenceModel, build_model
from zoo.results import lease, source
from zoo.results.checked import parse
from zoo.results.store import error, is_done
from zoo.training import truth
from zoo.training.build import build
from zoo.training.truth import check_run

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


class Lying(Mixer[tuple[Tensor, ...]]):
    """A state of the last three inputs, claimed to be `extra` larger; outputs read `ahead` tokens ahead.

    more: inputs that it keeps without a claim, of more than 40.
    """

    def __init__(self, extra: int = 0, ahead: int = 0, weight: float = 0.1, more: int = 0) -> None:
        super().__init__()
        self.extra, self.ahead, self.weight, self.more = extra, ahead, weight, more

    def extend(self, x: Tensor, state: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        past = x if state is None else torch.cat((*state, x), 1)
        later = F.pad(x, (0, 0, 0, self.ahead))[:, self.ahead :]
        return x + self.weight * later * (self.ahead > 0), (past[:, -3 - self.more * (past.shape[1] > 40) :],)

    def state_size(self, seq_len: int) -> StateSize:
        size = min(seq_len, 3) * 16 + (self.extra if seq_len > 20 else 0)
        return StateSize(None, size, size)


class Whole(Mixer[Any]):
    """A mixer without memory, whose `forward` is any function, and whose `extend` returns its inputs."""

    def __init__(self, whole: Callable[[Tensor], Tensor], state: object = (), size: object = 0) -> None:
        super().__init__()
        self.whole, self.state, self.size = whole, state, size

    def forward(self, x: Tensor) -> Tensor:
        return self.whole(x)

    def extend(self, x: Tensor, state: object = None) -> tuple[Tensor, object]:
        return x, self.state

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(None, self.size, 0) if isinstance(self.size, int | float) else self.size  # pyright: ignore


def means_of_chunks(x: Tensor) -> Tensor:
    return x + x.unflatten(1, (-1, 4)).mean(2, keepdim=True).expand(-1, -1, 4, -1).flatten(1, 2)


FAULTS: dict[str, Mixer] = {
    r" says causal=True, and its outputs change when later": Whole(means_of_chunks),
    r" gives other outputs for the same tokens once more: ": Whole(lambda x: x + torch.rand_like(x)),
    r" gives other outputs by `extend`, on 5 tokens and the rest, than by `forward` on all 8: ": Whole(
        lambda x: 2 * x
    ),
    r"^a state must be a NamedTuple of tensors, and has a dict in it": Whole(Tensor.clone, state={}),
    r"^StateSize.resident \(=0.5\) must be an integer: divide by // ": Whole(Tensor.clone, size=0.5),
    r"^state_size must return a StateSize, and returned '7'": Whole(Tensor.clone, size="7"),
    r" holds 80 scalars after 64 tokens, and its state_size says 48": Lying(more=2),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_faulty_mixer_is_refused(message: str):
    truth.check_model(model_with(Whole(Tensor.clone)), 8, 64)
    with pytest.raises(ValueError, match=message):
        truth.check_model(model_with(FAULTS[message]), 8, 64)


def model_with(mixer: Mixer, layer: int = 1) -> SequenceModel:
    model = build_model(tiny())
    model.blocks[layer].mixer = mixer  # pyright: ignore
    return model


@pytest.mark.parametrize("extra", [1, -1])
def test_a_wrong_state_size_is_refused(extra: int):
    truth.check_model(model_with(Lying()), 8, 64)
    truth.check_model(model_with(Lying(extra)), 8, 20)  # right up to 20 tokens
    with pytest.raises(ValueError) as wrong:
        truth.check_model(model_with(Lying(extra)), 8, 64)
    message = "Lying (layer 1) holds 48 scalars after 22 tokens, and its state_size says "
    assert str(wrong.value) == f"{message}{48 + extra}: mend state_size(22).resident."


@pytest.mark.parametrize(("ahead", "weight"), [(1, 1.0), (1, 0.02), (2, 0.1)])
def test_a_mixer_that_reads_the_future_is_refused(ahead: int, weight: float):
    lying = Lying(ahead=ahead, weight=weight)
    with pytest.raises(ValueError, match=r"^Lying \(layer 0\) says causal=True, .* set causal=False on it"):
        truth.check_model(model_with(lying, layer=0), 8, 16)
    lying.causal = lying.exact_decode = False
    truth.check_model(model_with(lying, layer=0), 8, 16)


def test_the_checks_change_nothing():
    """They change neither weights and modes of the model, nor the generator, nor the record of kernels."""
    model, before = build_model(tiny(block="zoology")), torch.get_rng_state()  # it has dropout
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    with kernels("auto") as choice:
        truth.check_model(model, 8, 64)
    assert choice.ran == {} and torch.equal(torch.get_rng_state(), before)
    assert all(part.training for part in model.modules())
    torch.testing.assert_close(dict(model.state_dict()), weights, rtol=0, atol=0)


def test_a_wrong_state_size_fails_the_cell_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    cell = tiny()
    kind = type(build_model(cell).mixers[-1])
    monkeypatch.setattr(kind, "state_size", lambda self, seq_len: StateSize(None, 7, 7))
    with pytest.raises(CellFailed, match=rf"^ValueError: {kind.__name__} .* state_size says 7: mend"):
        run_cell(cell, Mock())
    assert {path.name for path in cell.folder.iterdir()} == {"config.yaml", "env.json", "error.txt"}
    assert "state_size says 7: mend" in error(cell.folder)
    failure = run_population(Group((cell, tiny(seed=1))), Mock())
    assert failure and "state_size says 7: mend" in failure.why
    run = build(cell, tmp_path)
    run.position.step = 1  # a cell that has begun is not checked again
    check_run(run)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Yield the command, with a user's mixer that imports another file of the user."""
    (tmp_path / "conf" / "mixer").mkdir(parents=True)
    (tmp_path / "conf" / "mixer" / "mine.yaml").write_text(YAML)
    (tmp_path / "truth_mixer.py").write_text(CODE)
    (tmp_path / "beside.py").write_text("FACTOR = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tests.command.TOYS", tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    forget()
    yield Zoo(monkeypatch, capfd)
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
    code, out, err = mine(*ONE)
    assert (code, err) == (0, "")
    folder = cell_of(tmp_path).folder
    record = parse((folder / "result.json").read_text(), folder)
    assert "other source" not in mine(*ONE)[1]
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    forget()
    code, out, _ = mine(*ONE)
    assert out.splitlines()[-1] == "made by other source of truth_mixer.Mine; rerun=true runs it again"
    assert json.loads((folder / "result.json").read_text()) == record
    assert evaluate.main([str(folder), "evaluation=scores", "--config-dir", str(tmp_path / "conf")]) == 0
    assert "note: made by other source of truth_mixer.Mine; the answers are" in mine.capfd.readouterr().err
    code, out, err = mine(*ONE, "rerun=true")
    assert (code, err, "not done again" in out) == (0, "", False)
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
    code, _, err = mine(*ONE)
    assert (code, len(err.splitlines())) == (2, 1) and message in err
    with pytest.raises(CellFailed, match=message):
        run_cell(cell, Mock())
    assert json.loads((cell.folder / "env.json").read_text()) == noted
    (cell.folder / "last.ckpt").unlink()
    assert mine(*ONE)[0] == 0


def test_an_impossible_rerun_is_refused(mine: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for check in ("check_commands", "check_partition"):
        monkeypatch.setattr(f"zoo.launch.slurm.cluster.{check}", lambda *of: None)
    for words, message in (
        (("rerun=3",), "rerun (=3) must be true or false."),
        (("-m", "hydra/launcher=slurm", "rerun=true"), "rerun=true is for hydra/launcher=local: "),
    ):
        code, _, err = mine(*words, *ONE)
        assert (code, len(err.splitlines())) == (2, 1) and message in err
    cell = cell_of(tmp_path, "rerun=true")
    cell.place.mkdir(parents=True)
    with (
        lease.held(cell.place),
        pytest.raises(ValueError, match=r"rerun=true: .* is run by .*: wait until it"),
    ):
        rerun.prepare(cell)
    shutil.rmtree(cell.place)
    assert cell.run_id == cell_of(tmp_path).run_id and cell.point == cell_of(tmp_path).point
