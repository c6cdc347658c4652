"""Capacity and half-life, read off surfaces whose answers are known, and their picture."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from analysis.figures import load_distance as picture
from analysis.statistics import learning_rate, load_distance
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


def test_too_much_and_too_long_ago_are_told_apart() -> None:
    crowded = limits(answers("a", lambda n, d: 1.0 if n <= 4 else 0.5))
    assert crowded["capacity"] == pytest.approx(2 ** (2 + 0.2)) and crowded["half_life"] == np.inf
    fading = limits(answers("a", lambda n, d: 1.0 if d < 64 else 0.1))
    assert fading["capacity"] == np.inf
    assert fading["half_life"] == pytest.approx(2 ** (5 + 0.5))  # halfway from all of the lead to none of it
    perfect, deaf = limits(answers("a", lambda n, d: 1.0)), limits(answers("a", lambda n, d: 0.15))
    assert (perfect["capacity"], perfect["half_life"]) == (np.inf, np.inf)
    assert deaf["capacity"] == 0 and np.isnan(deaf["half_life"])


def test_intervals_are_of_seeds_and_of_rows() -> None:
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


def test_a_seed_that_is_drawn_brings_the_error_of_its_own_rows() -> None:
    """Of two seeds one is measured exactly: it is drawn twice in a quarter of the draws, which then agree."""
    values, errors = np.full((2, 1, 1), 0.5), np.array([0.0, 0.1]).reshape(2, 1, 1)
    drawn = np.random.default_rng(1).integers(2, size=(4_000, 2))
    _, *again = load_distance._measured_and_drawn(values, errors, drawn, np.random.default_rng(0))
    assert np.mean(np.array(again) == 0.5) == pytest.approx(0.25, abs=0.03)
    both = np.array(again)[drawn.sum(1) == 2]
    assert both.std() == pytest.approx(0.1 / np.sqrt(2), rel=0.1)


def lines(ax, colour: str) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
    parts = [part for part in ax.collections if to_hex(part.get_color()[0]) == to_hex(colour)]
    return [line for part in parts for line in part.get_segments()]


def test_limits_are_said_with_their_intervals() -> None:
    row = {"capacity": 8.14, "capacity_low": 0.0, "capacity_high": np.inf, "half_life": np.inf}
    row |= {"half_life_low": 30.0, "half_life_high": np.inf}
    assert picture.in_numbers(row, [2, 16], [4, 128]) == [
        "holds 8.14 pairs [< 2, > 16]", "half-life > 128 tokens [30, > 128]",
    ]  # fmt: skip


def asked(*accuracies) -> study.Asked:  # type: ignore[no-untyped-def]
    records = [study.record(f"mixer{i}", 0.5, state=10 * i) for i in range(len(accuracies))]
    found = [answers(r["run_id"], each) for r, each in zip(records, accuracies, strict=True)]
    return study.Asked(study.table(records), pd.concat(found, ignore_index=True), "load_distance")


def test_the_picture_shows_the_boundary_what_was_not_asked_and_what_is_a_guess() -> None:
    shown = asked(lambda n, d: 1.0 if n <= 4 else 0.5, lambda n, d: 0.1)
    found = shown.drawn(picture)
    first, second = found.figure.axes[:2]
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
    assert set(found.tables["limits"].columns) >= {"capacity", "half_life_high", "seeds", "series"}


def test_several_questions_are_no_surface() -> None:
    shown = asked(lambda n, d: 1.0)
    chosen = learning_rate.choose(study.table([study.record("mixer0", 0.5)]))
    with pytest.raises(ValueError, match="asked in several ways"):
        load_distance.answered(pd.concat([shown.found] * 2), shown.table, chosen)
