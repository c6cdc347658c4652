"""Memory lengths and statistics against published numbers and scipy's."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zoo.evaluation.forgetting.length import memory_lengths, prefix_effect


def test_the_published_lengths_of_llama_3_8b() -> None:
    """The curve in the authors' repository (NiuTrans/ForgettingCurve, Meta-Llama-3-8B.json, at e3b76dc).

    Table 3 of the paper says "4k" and ">9k"; exactly it is 4,134 and more than 9,293."""
    table = pd.read_csv(Path(__file__).with_name("llama_3_8b.csv"))  # a column a repeat
    rows = table.melt(["length", "kind"], var_name="repeat", value_name="accuracy")
    lengths = memory_lengths(rows.assign(prefix=""))
    assert str(lengths.fine) == "4134" and str(lengths.coarse) == ">9293"
    assert lengths.dip == pytest.approx(0.05)
    assert lengths.fine.low <= 4134 <= lengths.fine.high and lengths.fine_unbroken.tokens == 4134


def frame(copy: list[list[float]], lm: list[list[float]], lengths: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {"length": length, "kind": kind, "repeat": repeat, "accuracy": accuracy}
        | {"prefix": "corpus" if kind == "lm" else ""}
        for kind, table in (("copy", copy), ("lm", lm))
        for length, accuracies in zip(lengths, table, strict=True)
        for repeat, accuracy in enumerate(accuracies)
    )


def test_only_a_dip_at_short_lengths_is_tolerated() -> None:
    copy = [[0.5, 0.5], [1.0, 1.0], [0.5, 0.5], [1.0, 1.0], [0.2, 0.2]]
    lengths = memory_lengths(frame(copy, [[0.2, 0.2]] * 5, [8, 64, 128, 256, 512]))
    assert lengths.fine.tokens == 256 and lengths.fine_unbroken.tokens == 64
    assert lengths.coarse.tokens == 256 and lengths.dip == 0.5


def test_a_gain_that_is_noise_counts_as_published_and_not_as_tested() -> None:
    noisy = [[0.6, 0.2, 0.7, 0.1], [0.9, 0.9, 0.8, 0.9]]
    lengths = memory_lengths(frame(noisy[::-1], [[0.4, 0.3, 0.3, 0.3]] * 2, [64, 128]))
    assert lengths.coarse.tokens == 128 and lengths.coarse_tested.tokens == 64


def test_the_prefix_effect_equals_scipys() -> None:
    rng = np.random.default_rng(0)
    groups = {"a": rng.random(10).round(1), "b": rng.random(10).round(1) + 0.2, "c": rng.random(10).round(1)}
    rows = [(32, "lm", name, i, x) for name, group in groups.items() for i, x in enumerate(group)]
    table = pd.DataFrame(rows, columns=["length", "kind", "prefix", "repeat", "accuracy"])
    effect = prefix_effect(table, 32)
    # the formulas of the paper's appendix, written out
    values, sizes = list(groups.values()), 10
    grand = np.concatenate(values)
    between = sum(sizes * (group.mean() - grand.mean()) ** 2 for group in values) / 2
    within = sum(((group - group.mean()) ** 2).sum() for group in values) / 27
    ranks = stats.rankdata(grand).reshape(3, 10).sum(1)
    ties = np.unique(grand, return_counts=True)[1]
    h = (12 / (30 * 31) * (ranks**2 / 10).sum() - 93) / (1 - (ties**3 - ties).sum() / (30**3 - 30))
    assert effect.f == pytest.approx(between / within) and effect.h == pytest.approx(h)
    assert effect.f_p == pytest.approx(stats.f.sf(effect.f, 2, 27))
    assert effect.h_p == pytest.approx(stats.chi2.sf(effect.h, 2))


def test_equal_groups_and_a_single_one() -> None:
    rows = [(8, "lm", name, i, 0.0) for name in "ab" for i in range(3)]
    table = pd.DataFrame(rows, columns=["length", "kind", "prefix", "repeat", "accuracy"])
    effect = prefix_effect(table, 8)
    assert effect == (0, 1, 0, 1)
    with pytest.raises(ValueError, match="two sources"):
        prefix_effect(table.query("prefix == 'a'"), 8)
