"""Capacity and half-life, read off surfaces whose answers are known, and their picture."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from analysis.figures import load_distance as picture
from analysis.statistics import load_distance
from tests.analysis import study

LOADS, DISTANCES = (2, 4, 8, 16), (4, 8, 16, 32, 64, 128)


def answers(run_id: str, accuracy, blind: float = 0.1, error: float = 0.0) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    return pd.DataFrame(
        {"run_id": run_id, "num_kv_pairs": n, "distance": d, "accuracy": accuracy(n, d), "error": error}
        | {"blind": blind if n < 16 else np.nan, "blind_error": 0.0 if n < 16 else np.nan, "guess": 1 / n}
        | {"trained": int(n <= 4 and d <= 16)}
        for n, d in product(LOADS, DISTANCES)
        if d >= 2 * n
    )


def limits(*parts: pd.DataFrame) -> dict:
    return load_distance.limits(pd.concat(parts).assign(point="p")).iloc[0].to_dict()


def test_capacity_and_half_life_are_separate_limits() -> None:
    crowded = limits(answers("a", lambda n, d: 1.0 if n <= 4 else 0.5))
    assert crowded["capacity"] == pytest.approx(2 ** (2 + 0.2)) and crowded["half_life"] == np.inf
    fading = limits(answers("a", lambda n, d: 1.0 if d < 64 else 0.1))
    assert fading["capacity"] == np.inf
    assert fading["half_life"] == pytest.approx(2 ** (5 + 0.5))  # halfway from all of the lead to none of it
    perfect, failing = limits(answers("a", lambda n, d: 1.0)), limits(answers("a", lambda n, d: 0.15))
    assert (perfect["capacity"], perfect["half_life"]) == (np.inf, np.inf)
    assert failing["capacity"] == 0 and np.isnan(failing["half_life"])


def test_intervals_count_seeds_and_rows() -> None:
    surfaces = [
        answers(str(seed), lambda n, d, top=top: 1.0 if n <= top else 0.0) for seed, top in enumerate((2, 8))
    ]
    both = limits(*surfaces)
    alone = limits(surfaces[0])
    assert alone["capacity_low"] == alone["capacity_high"] == alone["capacity"]
    assert both["seeds"] == 2 and both["capacity_low"] == alone["capacity"]
    assert both["capacity_high"] == limits(surfaces[1])["capacity"] > both["capacity"]
    noisy = limits(answers("a", lambda n, d: 0.9 - 0.1 * np.log2(n / 4), error=0.02))
    assert noisy["capacity"] == pytest.approx(4.0)
    assert 3 < noisy["capacity_low"] < 3.8 and 4.2 < noisy["capacity_high"] < 5.5


def test_each_drawn_seed_has_the_error_of_its_rows() -> None:
    """One of two seeds is measured exactly: it is drawn twice in a quarter of the draws, which then agree."""
    values, errors = np.full((2, 1, 1), 0.5), np.array([0.0, 0.1]).reshape(2, 1, 1)
    drawn = np.random.default_rng(1).integers(2, size=(4_000, 2))
    _, *again = load_distance._measured_and_drawn(values, errors, drawn, np.random.default_rng(0))
    assert np.mean(np.array(again) == 0.5) == pytest.approx(0.25, abs=0.03)
    both = np.array(again)[drawn.sum(1) == 2]
    assert both.std() == pytest.approx(0.1 / np.sqrt(2), rel=0.1)


def lines(ax, colour: str) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
    parts = [part for part in ax.collections if to_hex(part.get_color()[0]) == to_hex(colour)]
    return [line for part in parts for line in part.get_segments()]


def test_limits_are_printed_with_their_intervals() -> None:
    row = {"capacity": 8.14, "capacity_low": 0.0, "capacity_high": np.inf, "half_life": np.inf}
    row |= {"half_life_low": 30.0, "half_life_high": np.inf}
    here = answers("a", lambda n, d: 1.0)
    assert picture.in_numbers(row, here) == [
        "holds 8.14 pairs [< 2, > 16]", "half-life > 128 tokens [30, > 128]",
    ]  # fmt: skip


def test_a_limit_lies_beyond_what_this_model_was_asked() -> None:
    """The second model refuses rows with more than 16 tokens between a key and its query."""
    asked = fake_study(lambda n, d: 1.0, lambda n, d: 1.0)
    asked.answers = asked.answers.query("not run_id.str.startswith('mixer1') or distance <= 16")
    first, second = (ax.get_title().splitlines()[2:] for ax in asked.drawn(picture).figure.axes[:2])
    assert first == ["holds > 16 pairs", "half-life > 128 tokens"]
    assert second == ["holds > 8 pairs", "half-life > 16 tokens"]


def fake_study(*accuracies) -> study.FakeStudy:  # type: ignore[no-untyped-def]
    records = [study.record(f"mixer{i}", 0.5, state=10 * i) for i in range(len(accuracies))]
    parts = [answers(r["run_id"], each) for r, each in zip(records, accuracies, strict=True)]
    return study.FakeStudy(study.table(records), pd.concat(parts, ignore_index=True), "load_distance")


def test_the_picture_shows_the_boundary_the_trained_region_and_guesses() -> None:
    drawn = fake_study(lambda n, d: 1.0 if n <= 4 else 0.5, lambda n, d: 0.1).drawn(picture)
    first, second = drawn.figure.axes[:2]
    image = first.images[0].get_array()
    assert image.shape == (4, 6) and np.ma.getmaskarray(image).sum() == 6  # where 2 n tokens do not fit
    white, dotted = lines(first, "white"), lines(first, picture.TRAINED)
    assert len(white) == 4 and {tuple(line[:, 1]) for line in white} == {(1.5, 1.5)}  # between 4 and 8 pairs
    assert len(dotted) == 3  # around what training had: 2 and 4 pairs, up to 16 tokens away
    assert {tuple(line[:, 0]) for line in dotted if line[0, 0] == line[1, 0]} == {(2.5, 2.5)}
    assert first.lines[0].get_xdata().size == 0
    assert second.lines[0].get_xdata().size == 15  # all but those of 16 pairs, whose 1 / n is less
    assert first.get_title().splitlines()[2:] == ["holds 4.59 pairs", "half-life > 128 tokens"]
    assert second.get_title().splitlines()[1:] == [
        "10 scalars of state", "holds < 2 pairs", "recalls nothing at the shortest distance",
    ]  # fmt: skip
    assert set(drawn.tables["limits"].columns) >= {"capacity", "half_life_high", "seeds", "series"}


def test_repeated_answers_are_refused() -> None:
    shown = fake_study(lambda n, d: 1.0)
    shown.answers = pd.concat([shown.answers] * 2)
    with pytest.raises(ValueError, match="asked in several ways"):
        shown.drawn(picture)


def test_answers_at_a_rate_that_was_not_chosen_do_not_count() -> None:
    shown = fake_study(lambda n, d: 1.0)
    shown.table = study.table([study.record("mixer0", 0.5), study.record("mixer0", 0.9, lr=0.1)])
    with pytest.raises(ValueError, match="asked of no cell at the learning rate that was chosen"):
        shown.drawn(picture)
