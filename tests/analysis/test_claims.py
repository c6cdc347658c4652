"""Claims of a file against records: who is ahead, seed by seed, corrected for how many claims there are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import claims
from analysis.records import written as csv
from analysis.statistics import paired
from analysis.statistics.paired import CLAIMED, LEVEL, holm, least_p
from tests.analysis import study
from tests.command import Run

SWEEPS = Path(__file__).parents[2] / "sweeps"
SIGNS = (1, 1, 1, 1, 1, 1, -1, -1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Eight seeds: Based leads in all, Mamba in six.  One cell is of another task, as a start may be."""
    based, mamba = [0.6 + seed / 1000 for seed in range(8)], [0.5 + 0.02 * sign for sign in SIGNS]
    records = study.mixers({"attention": [0.5] * 8, "based": based, "mamba": mamba})
    return study.write(tmp_path / "results", [*records, study.record("gated_deltanet", 0.9, task="copy")])


def written(place: Path, *rows: str) -> Path:
    path = place / "claims.csv"
    path.write_text("\n".join(["# before the run", "claim,ahead,behind,slice", *rows]))
    return path


def test_a_claim_holds_is_open_or_is_reversed(home: Path, tmp_path: Path, run: Run) -> None:
    path = written(
        tmp_path,
        "first,mixer == 'based',mixer == 'attention',mean",
        "second,mixer == 'mamba',mixer == 'attention',mean",
        "third,mixer == 'attention',mixer == 'based',\"seq_len=64,num_kv_pairs=8\"",
    )
    lines = run(claims.main, home, path)[0].splitlines()
    first, second, third = (line.strip() for line in lines if "." in line and not line.startswith("p: "))
    assert first.split()[:1] + first.split()[-3:] == ["first", "0.00781", "0.0234", "holds"]
    assert "+0.010" in second and second.endswith("not shown")
    assert "-0.103" in third and third.endswith("the other way round")


def test_too_many_claims_for_the_seeds_cannot_be_shown(home: Path, tmp_path: Path, run: Run) -> None:
    for count, verdict in ((6, "holds"), (7, "cannot be shown")):
        path = written(tmp_path, *["first,mixer == 'based',mixer == 'attention',mean"] * count)
        assert run(claims.main, home, path)[0].count(verdict) == count


def test_claims_that_cannot_be_shown_are_told_one_by_one() -> None:
    """Seven pairs can show one of two claims, four cannot.  A claim without a shared seed is not counted."""
    scores = {name: pd.Series(1.0, range(int(name))) for name in "740"} | {"ahead": pd.Series(2.0, range(7))}
    claims = pd.DataFrame([(name, "ahead", name, "mean") for name in "740"], columns=list(CLAIMED))
    found = paired.tested(claims, lambda condition, _: scores[condition])
    assert found["p_holm"].tolist()[:2] == [2 * 2 / 2**7, 2 / 2**4]
    assert found["verdict"].tolist() == [paired.HOLDS, paired.UNABLE, paired.UNABLE]


def can_hold(file: Path) -> bool:
    batch = study.batch(file.name.partition(".")[0])
    seeds = {word for words in batch for word in words if word.startswith("seed=")}
    return len(csv.read(file, CLAIMED)) * least_p(len(seeds)) <= LEVEL


@pytest.mark.records
def test_the_claims_of_every_sweep_but_one_can_hold() -> None:
    cannot = [file.name for file in SWEEPS.glob("*.claims.csv") if not can_hold(file)]
    assert cannot == ["mini_state_threshold.claims.csv"]  # as docs/bits.md says


def test_one_seed_has_no_interval_and_shows_nothing(tmp_path: Path, run: Run) -> None:
    home = study.write(tmp_path / "results", [study.record("based", 0.6), study.record("attention", 0.5)])
    path = written(tmp_path, "first,mixer == 'based',mixer == 'attention',mean")
    (words,) = (line.split() for line in run(claims.main, home, path)[0].splitlines() if "first" in line)
    assert words[:5] == ["first", "+0.100", "-", "-", "1"] and words[-2:] == ["be", "shown"]


def test_holms_correction() -> None:
    """The smallest of four p counts four times, none falls below the one before, NaN is left out."""
    ps = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    assert holm(ps) == pytest.approx([0.03, 0.06, np.nan, 0.06, 0.02], nan_ok=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("c,mixer == 'gla',mixer == 'based',mean", "leaves 0 of 4 points: name one"),
        ("c,task == 'mqar',mixer == 'based',mean", "leaves 3 of 4 points: name one"),
        ("c,mixer == 'based',Based,mean", r"/claims.csv, claim 1: behind \(='Based'\): there is no"),
        ("c,mixer = 'gla',mixer == 'based',mean", "="),
        ("c,mixer == 'based',mixer == 'mamba',seq_len=1", "No slice 'seq_len=1'"),
    ],
)
def test_a_claim_that_names_no_single_point_is_one_line(
    home: Path, tmp_path: Path, run: Run, row: str, message: str
) -> None:
    run.refused(message, claims.main, home, written(tmp_path, row))
