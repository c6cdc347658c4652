"""A trained model that can be held: its weights are those that were tested, and no others pass for them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save

import zoo
from tests.analysis.fake import change
from tests.evaluation.conftest import CELLS, Ask
from tests.population.together import trained_together
from tests.training.tiny import tiny
from zoo.config.cell import Cell
from zoo.evaluation.task_scores import Distance, Groups, Scores
from zoo.evaluation.trained import Trained
from zoo.results import archive, weights
from zoo.results.home import WEIGHTS
from zoo.results.record import Kind
from zoo.results.table import slice_name
from zoo.tasks.batches import BatchStream

NAMES = ("accuracy", "row_accuracy", "exact_rows", "loss", "answers", "rows")


@pytest.mark.parametrize("name", CELLS)
def test_it_scores_on_its_own_task_what_its_record_says(name: str, trained: dict[str, Path]) -> None:
    held = zoo.load(trained[name])
    for split in ("valid", "test"):
        table = Scores(split=split, batch_size=None).table(held)
        found = [tuple(row) for row in table[["slice", *NAMES]].itertuples(index=False)]
        wanted = [entry for entry in held.record["slices"] if entry["split"] == split]
        assert found == [(slice_name(entry["slice"]), *(entry[k] for k in NAMES)) for entry in wanted]
    bins, near = (of(split="test", batch_size=None).table(held) for of in (Groups, Distance))
    assert bins[[*Kind.__annotations__]].to_dict("records") == held.record["groups"]
    assert near["distance"].tolist() == bins["value"].tolist() and near["right"].equals(bins["right"])


def test_shared_weights_are_stored_once_and_are_shared_again(trained: dict[str, Path]) -> None:
    first, _, last = zoo.load(trained["shared"]).model.mixers
    assert first.qkv is last.qkv
    stored = load_file(trained["shared"] / WEIGHTS)
    assert not [name for name in stored if name.startswith("blocks.2.mixer.qkv")]


def test_members_of_a_population_keep_each_their_own(tmp_path: Path) -> None:
    cells = [tiny(mixer="attention", lr=lr) for lr in (0.01, 0.02)]
    folders = [tmp_path / str(i) for i in range(2)]
    for folder in folders:
        folder.mkdir()
    outcomes = trained_together(cells, folders)
    for cell, folder, outcome in zip(cells, folders, outcomes, strict=True):
        kept = weights.read(folder, outcome["weights"])
        saved = torch.load(folder / "last.ckpt", weights_only=True)["model"]
        assert kept.keys() == saved.keys(), cell.overrides
        assert all(torch.equal(kept[k], saved[k]) for k in kept), cell.overrides


def test_it_decodes_token_by_token_what_whole_sequences_say(held: Trained) -> None:
    _, batch = next(iter(BatchStream(held.task, "test", 3)))
    whole = batch.inputs
    for _ in range(4):
        whole = torch.cat([whole, held.logits(whole)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(held.greedy(batch.inputs, 4), whole[:, -4:])
    picked = held.logits(batch.inputs, batch.positions)
    rows = torch.arange(3)[:, None]
    assert torch.allclose(picked, held.logits(batch.inputs)[rows, batch.positions])
    right = picked.argmax(-1) == batch.answers
    assert held.score(batch).accuracy == right.double().mean().item() and held.score(batch).rows == 3


@pytest.mark.parametrize(
    ("wanted", "small", "kept"),
    [("auto", True, True), ("auto", False, False), (True, False, True), (False, True, False)],
)
def test_what_keep_weights_keeps(
    wanted: Any, small: bool, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / WEIGHTS).write_text("of an earlier attempt")
    monkeypatch.setattr(weights, "SMALL", 17 if small else 16)
    digest = weights.keep(wanted, tmp_path, torch.nn.Linear(3, 1))  # 16 bytes
    assert [path.name for path in tmp_path.iterdir()] == ([WEIGHTS] if kept else [])
    assert (digest is not None) == kept


def test_keep_weights_is_no_part_of_the_name() -> None:
    assert len({tiny(keep_weights=kept).run_id for kept in ("auto", True, False)}) == 1


def test_archives_carry_weights_where_that_is_asked_for(one: Path, tmp_path: Path) -> None:
    home = one.parent
    archive.archive(home, tmp_path / "plain.zip")
    assert archive.main([str(home), "--out", str(tmp_path / "whole.zip"), "--weights"]) == 0
    with pytest.raises(ValueError, match="has no weights"):
        zoo.load(tmp_path / "plain.zip", one.name)
    (one / WEIGHTS).rename(tmp_path / "away")
    archive.archive(home, tmp_path / "without.zip")
    assert (tmp_path / "plain.zip").read_bytes() == (tmp_path / "without.zip").read_bytes()
    held = zoo.load(tmp_path / "whole.zip", one.name)
    assert torch.equal(held.model.embedding, load_file(tmp_path / "away")["embedding"])


def _other(folder: Path, content: bytes) -> None:
    """Other weights, under the hash that the record has of them."""
    (folder / WEIGHTS).write_bytes(content)
    change(folder, weights=weights.hashlib.sha256(content).hexdigest())


def _kept(folder: Path, to: Callable[[dict[str, torch.Tensor]], object]) -> None:
    found = load_file(folder / WEIGHTS)
    to(found)
    _other(folder, save(found))


def _yaml(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.yaml").write_text(text)


NONE = "has no weights of its record: train .* keep_weights=true"
NO_CONFIG = "is no config of a cell"
# what is done to a run's folder -> what `zoo.load` says
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "unfinished": (lambda f: (f / "result.json").unlink(), "is not finished: give the command that made it"),
    "diverged": (lambda f: change(f, status="diverged", diverged_step=3), "diverged at step 3: it kept no"),
    "no file": (lambda f: (f / WEIGHTS).unlink(), NONE),
    "none kept": (lambda f: change(f, weights=None), NONE),
    "damaged": (lambda f: (f / WEIGHTS).write_bytes(b"x"), "is damaged, or not of its record"),
    "no safetensors": (lambda f: _other(f, b"x"), "is no safetensors file"),
    "a tensor less": (lambda f: _kept(f, lambda w: w.pop("embedding")), "its model: embedding is missing"),
    "a tensor more": (
        lambda f: _kept(f, lambda w: w.update(x=torch.ones(1))),
        "x is in no part of the model",
    ),
    "a shape": (lambda f: _kept(f, lambda w: w.update(embedding=torch.ones(2, 3))), "is 2x3, .* is 24x16"),
    "a type": (
        lambda f: _kept(f, lambda w: w.update(embedding=w["embedding"].double())),
        "embedding is torch.float64, the",
    ),
    "another config": (lambda f: change(f, run_id=f"attention-{'0' * 12}"), "the config of attention-"),
    "an alias": (_yaml("a: &x [1]\nb: *x\n"), "no config of a cell .*alias"),
    "no yaml": (_yaml("a: ["), NO_CONFIG),
    "a list": (_yaml("[1]"), NO_CONFIG),
    "python": (_yaml("!!python/object/apply:os.getcwd []"), NO_CONFIG),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_cannot_be_held_is_one_line(name: str, one: Path) -> None:
    broken, says = BROKEN[name]
    broken(one)
    with pytest.raises(ValueError, match=says) as error:
        zoo.load(one)
    assert "\n" not in str(error.value)


def test_a_setting_that_came_later_is_as_it_was_before(one: Path) -> None:
    text = (one / "config.yaml").read_text()
    (one / "config.yaml").write_text(re.sub(r"(?m)^ +dropout: 0\.0\n", "", text))
    today = zoo.load(one).cell
    assert (one / "config.yaml").read_text() != text
    assert today.mixer_settings["dropout"] == today.layers[-1]["dropout"] == 0.0


# where a record names a class that its author planted -> how the config comes to name it
PLANTED: dict[str, Callable[[dict[str, Any], str], object]] = {
    "layer": lambda config, name: config["model"]["layers"][-1].update(_target_=name),
    "block": lambda config, name: config["block"].update(_target_=name),
    "task": lambda config, name: config["task"].update(_target_=name),
    "nested": lambda config, name: config["model"]["layers"][0].update(
        feature_map=[{"a": {"_target_": name}}]
    ),
}
LEAVES_A_MARK = """
from pathlib import Path
from zoo.mixers.attention import Attention
Path(__file__).with_name("ran").touch()
class X(Attention): ...
"""


Plant = Callable[[str, str], tuple[Path, Path]]


@pytest.fixture
def plant(one: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Write MODULE and name its X in the record; the run's folder, and the file that MODULE leaves."""

    def planted(place: str, module: str) -> tuple[Path, Path]:
        path = one.parent.parent / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LEAVES_A_MARK)
        monkeypatch.chdir(one.parent.parent)
        monkeypatch.syspath_prepend("")
        return _naming(one, place, f"{module}.X"), path.with_name("ran")

    return planted


def _naming(one: Path, place: str, target: str) -> Path:
    """The record with a config that names the target, under the run id that it then has."""
    config = yaml.safe_load((one / "config.yaml").read_text())
    PLANTED[place](config, target)
    (one / "config.yaml").write_text(yaml.safe_dump(config))
    record = json.loads((one / "result.json").read_text())
    choices = {"mixer": record["mixer"], "task": record.get("task", "")}
    change(one, run_id=(run_id := Cell(config, choices).run_id))
    return one.rename(one.with_name(run_id))


@pytest.mark.parametrize("place", PLANTED)
@pytest.mark.parametrize("module", ["results.figures.notes", "planted_elsewhere"])
def test_a_record_imports_nothing_that_it_names(place: str, module: str, plant: Plant, ask: Ask) -> None:
    one, ran = plant(place, module)
    archive.archive(one.parent, one.parent / "a.zip", True)
    says = f"names {module}.X, which is no part of zoo: what a record names is imported only where you name"
    for given in ((one,), (one.parent / "a.zip", one.name)):
        with pytest.raises(ValueError, match=re.escape(says)):
            zoo.load(*given)
    assert says in ask(one, "evaluation=scores", code=2)[1]
    assert not ran.exists()


def test_what_lies_beside_records_is_not_trusted_by_name_either(plant: Plant) -> None:
    one, ran = plant("layer", "results.figures.notes")
    for named in ("results.figures.notes", "results"):
        with pytest.raises(ValueError, match=r"results: code beside records is never run"):
            zoo.load(one, trusted=[named])
    assert not ran.exists()


def test_a_module_that_the_user_names_is_imported(plant: Plant, tmp_path: Path, ask: Ask) -> None:
    one, ran = plant("layer", "planted_mine")
    with pytest.raises(ValueError, match="which is no part of zoo"):
        zoo.load(one, trusted=["planted"])
    assert not ran.exists()
    assert type(zoo.load(one, trusted=["planted_mine"]).model.mixers[-1]).__name__ == "X"
    assert ran.exists()
    (tmp_path / "conf" / "mixer").mkdir(parents=True)
    (tmp_path / "conf" / "mixer" / "mine.yaml").write_text("_target_: planted_mine.Other\n")
    ask(one, "evaluation=scores", "--trust", "planted_mine")
    ask(one, "evaluation=distance", "--config-dir", "conf")


@pytest.mark.parametrize("name", ["os.getcwd", "torch.load", "zoo.config.cell.Cell", "tests.toys.faulty.X"])
def test_a_part_that_is_none_is_not_called(name: str, one: Path) -> None:
    """Even under a hash that fits: parts are built by zoo.config.targets alone."""
    one = _naming(one, "layer", name)
    with pytest.raises(ValueError, match=rf"{name}(, which is no part of zoo|\) is no Mixer)"):
        zoo.load(one)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("{home}",), r"is a folder of \d+ runs: name one, .*attention-"),
        (("{home}/attention-0",), r"no run attention-0 in .*; did you mean attention-"),
        (("{home}/no/where",), "no run where in .*no, nor such a folder"),
        (("{home}", "../x"), "no run ../x in "),
        (("{home}/a.zip",), r"is an archive: name one of its runs, zoo.load\(ARCHIVE, RUN_ID\)"),
        (("{home}/a.zip", "gla-1"), r"no run gla-1 in .*a.zip; did you mean attention-"),
    ],
)
def test_a_run_that_is_not_there_is_one_line(words: tuple[str, ...], says: str, one: Path) -> None:
    home = one.parent
    archive.archive(home, home / "a.zip")
    with pytest.raises(ValueError, match=says):
        zoo.load(*(word.format(home=home) for word in words))
