"""A cell that starts from another's weights: its name, refusals, fresh weights and the order of work."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import zoo as library
from tests.command import SMALL, Zoo
from tests.registry import compose, composer
from zoo import run as command
from zoo.config.cell import Cell
from zoo.launch.describe import describe
from zoo.launch.display import words_apart
from zoo.launch.sweep import _in_order, waves
from zoo.model import outline
from zoo.results import store
from zoo.results.outcome import Failure
from zoo.training import initial_weights
from zoo.training.build import build
from zoo.training.resume import resume

COMPOSER = composer()
WORDS = "start={experiment:smoke,d_model:16,task.vocab_size:128,mixer:attention}"
CHILD = (*SMALL, "mixer=se_attn_lm", "mixer.bias=true", WORDS)


def child(*words: str) -> Cell:
    return COMPOSER.cell([*SMALL, "mixer=sliding_window", *words])


def test_the_run_id_depends_on_the_start_and_not_on_its_folder():
    here, there = child("start=based-0123456789ab"), child("start=a/b/based-0123456789ab", "results=c")
    assert here.run_id == there.run_id not in (child().run_id, child("start=based-ba9876543210").run_id)
    assert here.start_place == Path("results/based-0123456789ab")
    assert there.start_place == Path("a/b/based-0123456789ab")
    assert child().run_id == child("start=null").run_id and "start" not in child().config


def test_a_start_in_words_has_the_seed_of_its_cell():
    first, second = child(WORDS), child(WORDS, "seed=1", "lr=1e-2")
    assert first.parent and second.parent and second.parent.seed == 1
    assert first.start == first.parent.run_id != second.start
    assert first.point == second.point != child(WORDS.replace("16", "8")).point
    assert first.lineage == (first.parent, first)
    merged = COMPOSER.cell(["experiment=mini_adapt", "start={mixer:based,mixer.feature_dim:4}"])
    assert merged.parent and merged.parent.overrides[-2:] == ("mixer=based", "mixer.feature_dim=4")
    grandchild = COMPOSER.cell([*SMALL, f"start={{mixer:se_attn,{WORDS.replace('=', ':')}}}"])
    assert [cell.mixer for cell in grandchild.lineage] == ["attention", "se_attn", "based"]


def test_shared_words_are_those_of_the_cells_without_their_starts():
    cells = [child(WORDS), child(WORDS, "lr=1e-2")]
    starts = [cell.parent for cell in cells if cell.parent]
    shared, apart = words_apart([*starts, *cells])
    assert "mixer=sliding_window" in shared and "mixer=attention" not in shared
    assert apart == {cells[0].run_id: "", cells[1].run_id: "lr=1e-2"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the records of an attention cell and of an SE-Attn that starts from it."""
    place = tmp_path_factory.mktemp("start")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        run(patch, *CHILD)
    return place


def run(patch: pytest.MonkeyPatch, *words: str) -> None:
    patch.setattr("sys.argv", ["zoo.run", *words])
    assert command.main() == 0


def records(place: Path) -> dict[str, dict[str, Any]]:
    results = [json.loads(path.read_text()) for path in place.glob("results/*/result.json")]
    return {record["mixer"]: record for record in results}


def test_one_command_trains_the_start_and_the_cell_once(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    both = records(trained)
    assert both.keys() == {"attention", "se_attn_lm"}
    assert both["se_attn_lm"]["start"] == both["attention"]["run_id"] and "start" not in both["attention"]
    assert both["se_attn_lm"]["fresh"] == ["blocks.1.mixer.choice.summaries.landmark"]
    times = {path: path.stat().st_mtime_ns for path in trained.glob("results/*/*")}
    monkeypatch.chdir(trained)
    run(monkeypatch, *CHILD)
    assert "not done again" in capfd.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in trained.glob("results/*/*")} == times
    library.load(trained / "results" / both["se_attn_lm"]["run_id"])


def test_a_cell_starts_with_the_final_weights(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(trained)
    before = library.load("results", records(trained)["attention"]["run_id"]).model.state_dict()
    run = resume(build(COMPOSER.cell(CHILD), tmp_path))
    after = run.model.state_dict()
    assert run.position.fresh == ["blocks.1.mixer.choice.summaries.landmark"]
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=0, msg=name)


REFUSED = {
    "d_model=8": "embedding is 128x16 there and 128x8 here",
    "mixer.bias=false": "blocks.1.mixer.qkv.proj.bias 48 has no place in it",
    "mixer=gla": "has no place in it",
    "mixer.num_heads=4": "mixer.num_heads is 1 there and 4 here",
    "n_layers=4": "blocks.2.mixer.conv.weight 3x16 is not there",
    "task.vocab_size=256": "embedding is 128x16 there and 256x16 here",
}


@pytest.mark.parametrize("word", REFUSED)
def test_weights_that_do_not_fit_are_refused(trained: Path, zoo: Zoo, word: str):
    """The message names weights and shapes, also (tested once) for a start that is not yet trained."""
    mixer = ("mixer=sliding_window", "mixer.bias=true") if "mixer" not in word else ("mixer=sliding_window",)
    run_id = records(trained)["attention"]["run_id"]
    for start in (f"start={trained}/results/{run_id}", *[WORDS] * (word == "d_model=8")):
        err = zoo.refused(*SMALL, *mixer, word, start)
        assert err.startswith(f"start ({run_id}) does not fit") and REFUSED[word] in err
    assert not Path("results").exists()


def test_other_positions_than_the_start_has_are_said(trained: Path):
    start = f"start={trained}/results/{records(trained)['attention']['run_id']}"
    cell = COMPOSER.cell([*SMALL, "mixer=sliding_window", "mixer.bias=true", "mixer.position=rope", start])
    assert describe(cell)["start"].endswith("; mixer.position is none there and rope here")


def test_integer_weights_are_refused():
    """A copy into float weights would round them in silence."""
    cell = compose(["mixer=attention", *SMALL])
    model = outline(cell)
    weights = {name: value.int() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"embedding holds torch.int32 there and torch.float32 here"):
        initial_weights._fresh(weights, model, cell)


def test_a_start_that_cannot_be_used_is_refused(trained: Path, zoo: Zoo):
    run_id = records(trained)["attention"]["run_id"]
    place = Path("results") / run_id
    errors = {}
    for name in ("missing", "unfinished", "no weights", "renamed"):
        if name != "missing":
            shutil.copytree(trained / place, place, dirs_exist_ok=True)
        if name == "unfinished":
            (place / "result.json").unlink()
        if name == "no weights":
            (place / "weights.safetensors").unlink()
        if name == "renamed":
            place = place.rename(place.parent / "attention-other")
        errors[name] = zoo.refused(*SMALL, "mixer=sliding_window", f"start={place}")
    assert errors["missing"].startswith(f"start (=results/{run_id}) is no folder at results/{run_id}: give")
    assert "is not finished: give the command that made it once more" in errors["unfinished"]
    assert "keep_weights=true" in errors["no weights"]
    assert f"is the record of {run_id}" in errors["renamed"]
    for word, message in {
        "start=.": "must be the folder of a finished cell",
        f"start={trained / 'results'}": "is a folder of 2 runs: name one, attention-",
        "start={mixer:atention}": "start: unknown mixer atention; did you mean attention?",
    }.items():
        assert message in zoo.refused(*SMALL, word)


def test_a_cell_whose_start_fails_is_failed_too(cwd: Path):
    cells = [child(WORDS), child(WORDS, "seed=1"), child("seed=2")]
    todo = [one for cell in cells for one in cell.lineage]
    assert [len(wave) for wave in waves(todo)] == [3, 2] and [len(wave) for wave in waves(cells)] == [3]
    ran: list[Cell] = []

    def run(wave: list[Cell]) -> list[Failure]:
        ran.extend(wave)
        return [Failure(cell, "it broke") for cell in wave if cell is cells[0].parent]

    display = SimpleNamespace(started=lambda *cells: None, failed=lambda cell, reason: None)
    failures = _in_order(todo, run, display)  # pyright: ignore
    assert {failure.cell.run_id for failure in failures} == {todo[0].run_id, cells[0].run_id}
    assert cells[0] not in ran and cells[1] in ran
    assert store.error(cells[0].folder) == f"{cells[0].start}, which it starts from, failed"
