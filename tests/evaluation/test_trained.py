"""`zoo.load` returns the model that was tested, and refuses every other."""

import json
import pickle
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
def test_a_copy_of_a_loaded_cell_scores_as_its_record(name: str, trained: dict[str, Path]) -> None:
    held = pickle.loads(pickle.dumps(zoo.load(trained[name])))
    for split in ("valid", "test"):
        table = Scores(split=split, batch_size=None).table(held)
        rows = [tuple(row) for row in table[["slice", *NAMES]].itertuples(index=False)]
        entries = [entry for entry in held.record["slices"] if entry["split"] == split]
        assert rows == [(slice_name(entry["slice"]), *(entry[k] for k in NAMES)) for entry in entries]
    bins, near = (of(split="test", batch_size=None).table(held) for of in (Groups, Distance))
    assert bins[[*Kind.__annotations__]].to_dict("records") == held.record["groups"]
    assert near["distance"].tolist() == bins["value"].tolist() and near["right"].equals(bins["right"])


def test_shared_weights_are_stored_once_and_stay_shared(trained: dict[str, Path]) -> None:
    first, _, last = zoo.load(trained["shared"]).model.mixers
    assert first.qkv is last.qkv
    stored = load_file(trained["shared"] / WEIGHTS)
    assert not [name for name in stored if name.startswith("blocks.2.mixer.qkv")]


def test_each_member_of_a_population_stores_its_weights(tmp_path: Path) -> None:
    cells = [tiny(mixer="attention", lr=lr) for lr in (0.01, 0.02)]
    folders = [tmp_path / str(i) for i in range(2)]
    for folder in folders:
        folder.mkdir()
    outcomes = trained_together(cells, folders)
    for cell, folder, outcome in zip(cells, folders, outcomes, strict=True):
        stored = weights.read(folder, outcome["weights"])
        saved = torch.load(folder / "last.ckpt", weights_only=True)["model"]
        torch.testing.assert_close(stored, saved, rtol=0, atol=0, msg=str(cell.overrides))


def test_logits_and_score_are_those_of_the_answers(held: Trained) -> None:
    _, batch = next(iter(BatchStream(held.task, "test", 3)))
    picked = held.logits(batch.inputs, batch.positions)
    rows = torch.arange(3)[:, None]
    assert torch.allclose(picked, held.logits(batch.inputs)[rows, batch.positions])
    right = picked.argmax(-1) == batch.answers
    assert held.score(batch).accuracy == right.double().mean().item() and held.score(batch).rows == 3


@pytest.mark.parametrize(
    ("keep_weights", "small", "stored"),
    [("auto", True, True), ("auto", False, False), (True, False, True), (False, True, False)],
)
def test_keep_weights_stores_them_or_removes_older_ones(
    keep_weights: Any, small: bool, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / WEIGHTS).write_text("of an earlier attempt")
    monkeypatch.setattr(weights, "SMALL", 17 if small else 16)
    digest = weights.keep(keep_weights, tmp_path, torch.nn.Linear(3, 1))  # 16 bytes
    assert [path.name for path in tmp_path.iterdir()] == ([WEIGHTS] if stored else [])
    assert (digest is not None) == stored


def test_an_archive_holds_weights_only_with_the_option(one: Path, tmp_path: Path) -> None:
    home = one.parent
    archive.archive(home, tmp_path / "plain.zip")
    assert archive.main([str(home), "--out", str(tmp_path / "whole.zip"), "--weights"]) == 0
    with pytest.raises(ValueError, match="has no weights"):
        zoo.load(tmp_path / "plain.zip", one.name)
    (one / WEIGHTS).rename(tmp_path / "away")
    archive.archive(home, tmp_path / "without.zip")
    assert (tmp_path / "plain.zip").read_bytes() == (tmp_path / "without.zip").read_bytes()
    (one / WEIGHTS).write_bytes(b"x")
    assert archive.main([str(home), "--out", str(tmp_path / "damaged.zip"), "--weights"]) == 3
    held = zoo.load(tmp_path / "whole.zip", one.name)
    assert torch.equal(held.model.embedding, load_file(tmp_path / "away")["embedding"])


def _replace_weights(folder: Path, content: bytes) -> None:
    """Write other weights, and their hash into the record."""
    (folder / WEIGHTS).write_bytes(content)
    change(folder, weights=weights.hashlib.sha256(content).hexdigest())


def _weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        _replace_weights(folder, save(tensors))

    return changed


def _yaml(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.yaml").write_text(text)


NONE = "has no weights of its record: train .* keep_weights=true"
NO_CONFIG = "is no config of a cell"
# name -> what is done to a run's folder, and the error of `zoo.load`
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "unfinished": (lambda f: (f / "result.json").unlink(), "is not finished: give the command that made it"),
    "diverged": (lambda f: change(f, status="diverged", diverged_step=3), "diverged at step 3: it kept no"),
    "no file": (lambda f: (f / WEIGHTS).unlink(), NONE),
    "none kept": (lambda f: change(f, weights=None), NONE),
    "damaged": (lambda f: (f / WEIGHTS).write_bytes(b"x"), "is damaged, or not of its record"),
    "no safetensors": (lambda f: _replace_weights(f, b"x"), "is no safetensors file"),
    "a tensor less": (_weights(lambda w: w.pop("embedding")), "its model: embedding is missing"),
    "a tensor more": (_weights(lambda w: w.update(x=torch.ones(1))), "x is in no part of the model"),
    "a shape": (_weights(lambda w: w.update(embedding=torch.ones(2, 3))), "is 2x3, .* is 24x16"),
    "a type": (
        _weights(lambda w: w.update(embedding=w["embedding"].double())),
        "embedding is torch.float64, the",
    ),
    "another config": (lambda f: change(f, run_id=f"attention-{'0' * 12}"), "the config of attention-"),
    "an alias": (_yaml("a: &x [1]\nb: *x\n"), "no config of a cell .*alias"),
    "no yaml": (_yaml("a: ["), NO_CONFIG),
    "a list": (_yaml("[1]"), NO_CONFIG),
    "python": (_yaml("!!python/object/apply:os.getcwd []"), NO_CONFIG),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_cannot_be_loaded_is_refused_in_one_line(name: str, one: Path) -> None:
    broken, message = BROKEN[name]
    broken(one)
    with pytest.raises(ValueError, match=message) as error:
        zoo.load(one)
    assert "\n" not in str(error.value)


def test_a_setting_that_an_older_config_lacks_has_its_usual_value(one: Path) -> None:
    text = (one / "config.yaml").read_text()
    (one / "config.yaml").write_text(re.sub(r"(?m)^ +dropout: 0\.0\n", "", text))
    cell = zoo.load(one).cell
    assert (one / "config.yaml").read_text() != text
    assert cell.mixer_settings["dropout"] == cell.layers[-1]["dropout"] == 0.0


# place of a planted class in a config -> how it is put there
PLANTED: dict[str, Callable[[dict[str, Any], str], object]] = {
    "layer": lambda config, name: config["model"]["layers"][-1].update(_target_=name),
    "block": lambda config, name: config["block"].update(_target_=name),
    "task": lambda config, name: config["task"].update(_target_=name),
    "nested": lambda c, name: c["model"]["layers"][0].update(feature_map=[{"a": {"_target_": name}}]),
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
    """Return a function that plants a module in a record: its folder, and the file that an import leaves."""

    def planted(place: str, module: str) -> tuple[Path, Path]:
        path = one.parent.parent / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LEAVES_A_MARK)
        monkeypatch.chdir(one.parent.parent)
        monkeypatch.syspath_prepend("")
        return _naming(one, place, f"{module}.X"), path.with_name("ran")

    return planted


def _naming(one: Path, place: str, target: str) -> Path:
    """Name the target in the config, and rename the record to the run id that it then has."""
    config = yaml.safe_load((one / "config.yaml").read_text())
    PLANTED[place](config, target)
    (one / "config.yaml").write_text(yaml.safe_dump(config))
    record = json.loads((one / "result.json").read_text())
    choices = {"mixer": record["mixer"], "task": record.get("task", "")}
    change(one, run_id=(run_id := Cell(config, choices).run_id))
    return one.rename(one.with_name(run_id))


@pytest.mark.parametrize("place", PLANTED)
@pytest.mark.parametrize("module", ["results.figures.notes", "planted_elsewhere"])
def test_loading_does_not_import_named_modules(place: str, module: str, plant: Plant, ask: Ask) -> None:
    one, mark = plant(place, module)
    archive.archive(one.parent, one.parent / "a.zip", True)
    message = (
        f"names {module}.X, which is no part of zoo: what a record names is imported only where you name"
    )
    for words in ((one,), (one.parent / "a.zip", one.name)):
        with pytest.raises(ValueError, match=re.escape(message)):
            zoo.load(*words)
    assert message in ask(one, "evaluation=scores", code=2)[1]
    assert not mark.exists()


def test_a_module_in_the_results_folder_cannot_be_trusted(plant: Plant) -> None:
    one, mark = plant("layer", "results.figures.notes")
    for named in ("results.figures.notes", "results"):
        with pytest.raises(ValueError, match=r"results: code beside records is never run"):
            zoo.load(one, trusted=[named])
    assert not mark.exists()


def test_a_trusted_module_is_imported(plant: Plant, tmp_path: Path, ask: Ask) -> None:
    one, mark = plant("layer", "planted_mine")
    with pytest.raises(ValueError, match="which is no part of zoo"):
        zoo.load(one, trusted=["planted"])
    assert not mark.exists()
    assert type(zoo.load(one, trusted="planted_mine").model.mixers[-1]).__name__ == "X"
    assert mark.exists()
    (tmp_path / "conf" / "mixer").mkdir(parents=True)
    (tmp_path / "conf" / "mixer" / "mine.yaml").write_text("_target_: planted_mine.Other\n")
    ask(one, "evaluation=scores", "--trust", "planted_mine")
    ask(one, "evaluation=distance", "--config-dir", "conf")


@pytest.mark.parametrize("name", ["os.getcwd", "torch.load", "zoo.config.cell.Cell", "tests.toys.faulty.X"])
def test_a_target_that_is_no_part_is_not_called(name: str, one: Path) -> None:
    """The run id fits the config, but zoo.config.targets builds nothing that is no part."""
    one = _naming(one, "layer", name)
    with pytest.raises(ValueError, match=rf"{name}(, which is no part of zoo|\) is no Mixer)"):
        zoo.load(one)


@pytest.mark.parametrize(("last", "place"), [(-1, 0), (10**6, 0), (1, 4), (1, -1)])
def test_rows_of_other_tokens_or_places_are_refused(last: int, place: int, one: Path) -> None:
    """A place behind the end of a row would be one of the next row."""
    trained, rows = zoo.load(one), torch.tensor([[1, 2, 3, last], [1, 2, 3, 4]])
    rule = r"(inputs|positions) \(=.* in \[2, .*must be rows of whole numbers below"
    with pytest.raises(ValueError, match=rule):
        trained.logits(rows, torch.tensor([[place], [0]]))
    for none in (rows[:0], rows[:, :0], rows[0], rows[1:].float()):
        with pytest.raises(ValueError, match=r"inputs \(=.*must be rows"):
            trained.greedy(none, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{home}",), r"is a folder of \d+ runs: name one, .*attention-"),
        (("{home}/attention-0",), r"no run attention-0 in .*; did you mean attention-"),
        (("{home}/no/where",), "no run where in .*no, nor such a folder"),
        (("{home}", "../x"), "no run ../x in "),
        (("{home}/a.zip",), r"is an archive: name one of its runs, zoo.load\(ARCHIVE, RUN_ID\)"),
        (("{home}/a.zip", "gla-1"), r"no run gla-1 in .*a.zip; did you mean attention-"),
    ],
)
def test_a_missing_run_is_refused_in_one_line(words: tuple[str, ...], message: str, one: Path) -> None:
    home = one.parent
    archive.archive(home, home / "a.zip")
    with pytest.raises(ValueError, match=message):
        zoo.load(*(word.format(home=home) for word in words))
