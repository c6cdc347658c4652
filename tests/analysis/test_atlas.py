"""The page of the atlas: sizes, seeds that differ, points at chance, and results of other archives."""

from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from analysis.atlas import __main__ as atlas
from analysis.atlas import block
from analysis.figures.effective_state import ABOVE
from tests.analysis import study
from tests.analysis.report.pages import WEIGHTS, answer
from tests.command import Run
from zoo.results.archive import archive
from zoo.results.reading import INCOMPLETE

SLICES = [(16, 4), (32, 8)]  # chance is 1/4 and 1/8
GRID = {"num_kv_pairs": [2, 2, 4], "distance": [4, 8, 8], "accuracy": [1.0, 0.4, 0.0]}
FALLING = pd.DataFrame(GRID).assign(error=0.0, blind=0.0, blind_error=0.0, guess=0.5)


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    scores = {"based": {500: (0.6, 0.7), 1600: (0.2, 0.9)}, "mamba": {1600: (0.18, 0.2), 9000: (0.95, 0.95)}}
    records = [
        cell
        for mixer, sizes in scores.items()
        for state, seeds in sizes.items()
        for cell in study.seeds(mixer, seeds, state=state, feature_dim=state, slices=SLICES)
    ]
    (tmp_path / "archives").mkdir()
    archive(study.write(tmp_path / "r", records), tmp_path / "archives" / "atlas_frontier.zip")
    return tmp_path / "archives"


def test_each_mixer_is_listed_at_its_sizes(archives: Path, run: Run) -> None:
    lines = run(atlas.main, archives)[0].splitlines()
    assert "| Based | linear | 0.650*† (500) | 0.20/0.90† (1,600) |  |  |" in lines
    assert "| Mamba | linear |  | -† (1,600) |  | 0.950* (9,000) |" in lines
    assert "### Based" in lines and "### Mamba" in lines
    [row] = [line for line in lines if line.startswith("| feature_dim=500 |")]
    assert row == "| feature_dim=500 | 500 | 0.65 | 0.65 | 0.650* |"
    assert "compares 2 mixers" in " ".join(lines)
    assert "2 points of 1,200 to 1,800 scalars, 0 have" in " ".join(lines)
    assert "easiest rows: Based with 1,600 (1 of 2), Mamba with 1,600 (0 of 2)." in " ".join(lines)


def test_a_cell_without_a_curve_is_named_and_not_counted(archives: Path, run: Run) -> None:
    home = archives.parent / "r"
    folder = min(home.glob("mamba-mqar-64-feature_dim1600*"))
    (folder / "metrics.csv").write_text("no table")
    archive(home, archives / "again.zip")
    (archives / "again.zip").replace(archives / "atlas_frontier.zip")
    out, err = run(atlas.main, archives, code=INCOMPLETE)
    assert "Based with 1,600 (1 of 2), Mamba with 1,600 (0 of 1)." in " ".join(out.split())
    assert err.startswith("left out:") and folder.name in err


def test_an_archive_that_is_not_there_is_named(tmp_path: Path, run: Run) -> None:
    run.refused("no .*atlas_frontier.zip: name the folder of archives, docs.results", atlas.main, tmp_path)


def test_a_complete_block_is_ranked(archives: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = ("mqar", "copy", "induction", "noisy_ar")
    scores = {"attention": 0.99, "based": 0.9, "mamba": 0.7, "gla": 0.5}
    records = [
        study.record(mixer, score - 0.01 * number, task=task, state=1600)
        for (mixer, score), (number, task) in product(scores.items(), enumerate(tasks))
    ]
    records.append(study.record("retnet", 1.0, task="mqar", state=1600))  # begun, and no more
    home = study.write(archives.parent / "b", [record | {"weights": WEIGHTS} for record in records])
    for record, known in zip(records[4:8], (0.9, 0.9, 0.4, 0.9), strict=True):  # of based
        forms = {"format": ["fp32", "int4"], "scale": ["none", "key"], "accuracy": [known, 0.6]}
        forms |= {"rounding": "nearest", "every": 1, "slice": "seq_len=64", "rows": 64}
        answer(home / str(record["run_id"]), "state_bits", pd.DataFrame(forms))
    asked = home / str(records[4]["run_id"])  # based, mqar
    used = {"slice": ["a", "a", "b"], "cut": 8, "layer": [0, 1, 1], ABOVE: [20.0, 80.0, 200.0]}
    answer(asked, "effective_state", pd.DataFrame(used))
    answer(asked, "load_distance", FALLING)
    longer = dict(varied=["seq_len", "seq_len", "load"], seq_len=[64, 128, 64], holds_90=[128, 128, 8])
    answer(asked, "extrapolation", pd.DataFrame(longer))
    archive(home, archives / "atlas_block.zip")
    assert "Friedman" not in run(atlas.main, archives)[0]  # of so few mixers
    monkeypatch.setattr(block, "TESTED", 3)
    lines = run(atlas.main, archives)[0].splitlines()
    assert "## 4 tasks, one size" in lines
    assert "| mixer | state | mqar | noisy_ar | copy | induction | mean rank |" in lines
    assert "| Attention | 1,600 | 0.99 | 0.96 | 0.98 | 0.97 |  |" in lines
    assert "| Based | 1,600 | 0.90 | 0.87 | 0.89 | 0.88 | 1.00 |" in lines
    assert "| Gla | 1,600 | 0.50 | 0.47 | 0.49 | 0.48 | 3.00 |" in lines
    assert "Begun, and not in the table: Retnet." in lines
    assert "of 1 cells each" in " ".join(lines)
    assert "| Attention | 100 | 100 | 100 | 100 |" in lines and "| Gla | - | - | - | - |" in lines
    words = "mqar 0.90, noisy_ar 0.87, copy 0.89, induction 0.88"
    assert f"- [4 tasks](#4-tasks-one-size), set as in `sweeps/atlas_block.yaml`: {words}." in lines
    assert "| Based | 0.30 | 0.30 | 0.30 |" in lines and "| Gla |  |  |  |" in lines
    assert "| Based | 150 |" in lines  # the mean over two slices, of which one has two layers
    assert "| Based | 2.14 pairs | 7.13 tokens |" in lines
    assert "| Based | 2 |" in lines
    assert "chi squared is 8.0," in " ".join(lines) and "Holm's correction: none." in " ".join(lines)
    assert "| mqar | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in lines
    assert "| noisy_ar |  | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in lines

    for name in ("based-copy", "mamba-copy", "gla-copy", "attention-copy", "gla-mqar"):
        [folder] = home.glob(f"{name}-*")
        (folder / "metrics.csv").write_text("no table")
    archive(home, archives / "atlas_block.zip")
    out, err = run(atlas.main, archives, code=INCOMPLETE)
    assert "| Attention | 100 | 100 |  | 100 |" in out and "| Gla |  | - |  | - |" in out.splitlines()
    assert err.count("left out: ") == 5


def test_take_off_is_given_at_each_rate_and_recall_at_the_soonest(archives: Path, run: Run) -> None:
    scores = {("based", 0.01): (0.95,), ("based", 0.03): (0.93, 0.97), ("mamba", 0.01): (0.1, 0.6)}
    records = [
        cell for (mixer, lr), seeds in scores.items() for cell in study.seeds(mixer, seeds, lr=lr, state=1600)
    ]
    archive(study.write(archives.parent / "t", records), archives / "atlas_takeoff.zip")
    lines = run(atlas.main, archives)[0].splitlines()
    assert "| mixer | lr 0.01 | lr 0.03 | then |" in lines
    assert "| Based | 100 | 100 | 2 after 100: 0.95 |" in lines and "| Mamba | 100 (1) |  | 0 |" in lines
    begins = "- [Takes off](#how-soon-each-memory-begins) after 100 steps in the mean (100 to 100)"
    assert f"{begins}, 2 of 2 seeds, at lr 0.03, the soonest." in lines


def test_load_by_distance_is_a_line_of_a_card(archives: Path, run: Run) -> None:
    record = study.record("based", 0.9, state=1600)
    home = study.write(archives.parent / "d", [record | {"weights": WEIGHTS}])
    answer(home / str(record["run_id"]), "load_distance", FALLING)
    archive(home, archives / "atlas_load_distance.zip")
    lines = [line for line in run(atlas.main, archives)[0].splitlines() if "up to 512 tokens](" in line]
    assert [line.partition("), ")[2] for line in lines] == ["it holds 2.14 pairs, half-life 7.13 tokens."]


def test_evaluations_are_shown_on_the_cards_of_their_mixers(tmp_path: Path, run: Run) -> None:
    home, used = tmp_path / "r", {"gla": 300.0, "based": 200.0, "retnet": 100.0}
    for score, (mixer, scalars) in zip((0.9, 0.8, 0.7), used.items(), strict=True):
        record = study.record(mixer, score, state=1600, feature_dim=8, slices=SLICES)
        study.write(home, [record | {"weights": WEIGHTS}])
        folder = home / str(record["run_id"])
        layers = pd.DataFrame({"slice": "seq_len=64", "cut": 32, "layer": [0, 1], ABOVE: scalars / 2})
        answer(folder, "effective_state", layers)
        forms = {"format": ["fp32", "int4"], "scale": ["none", "key"], "accuracy": [score, score - 0.1]}
        forms |= {"rounding": "nearest", "every": 1, "slice": "seq_len=64", "rows": 64}
        answer(folder, "state_bits", pd.DataFrame(forms))
    (tmp_path / "archives").mkdir()
    archive(home, tmp_path / "archives" / "atlas_frontier.zip")
    text = run(atlas.main, tmp_path / "archives")[0]
    words = " ".join(text.split())
    assert "| settings | state | 4 pairs | 8 pairs | all | used | 4 bits |" in text
    assert "| - | 1,600 | 0.90 | 0.90 | 0.900* | 300 | 0.80 |" in text
    assert "3 recurrent mixers" in words and "100 to 300 scalars" in words and "accuracy is 1.00 (" in words
