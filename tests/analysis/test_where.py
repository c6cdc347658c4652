"""--where: a grammar of comparisons, in which nothing is executed."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.records.where import where

TABLE = pd.DataFrame(
    {
        "mixer": ["based", "based", "mamba", "it's"],
        "d_model": [32, 64, 64, 128],
        "lr": [1e-3, 3e-3, 1e-2, 1e-3],
        "mixer.window": [None, 8.0, float("nan"), 16.0],
        "mixer.gate": ["none", None, "bias", "none"],
        "causal": [True, True, False, True],
        "mixer.a-b": [1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("mixer == 'based'", [0, 1]),
        ('mixer == "it\'s"', [3]),
        ("'based' != mixer", [2, 3]),
        ("d_model == 64 and lr < 5e-3", [1]),
        ("d_model == 32 or d_model == 64 and lr > 5e-3", [0, 2]),  # and binds more than or
        ("(d_model == 32 or d_model == 64) and lr > 5e-3", [2]),
        ("32 < d_model <= 64", [1, 2]),
        ("not mixer == 'based' and not not causal", [3]),
        ("causal", [0, 1, 3]),
        ("not causal", [2]),
        ("causal == False", [2]),
        ("d_model in [32, 128]", [0, 3]),
        ("mixer not in ['based', 'mamba']", [3]),
        ("lr == .001", [0, 3]),
        ("d_model > -1e0", [0, 1, 2, 3]),
        ("mixer.window == 8", [1]),
        ("`mixer.window` >= 8", [1, 3]),  # an empty field fulfils no comparison
        ("mixer.window != 8", [0, 2, 3]),  # except !=
        ("not mixer.window == 8", [0, 2, 3]),
        ("mixer.gate == 'none'", [0, 3]),
        ("d_model > mixer.window", [1, 3]),
        ("`mixer.a-b` >= 3", [2, 3]),
    ],
)
def test_a_condition_selects_the_rows_for_which_it_holds(condition: str, rows: list[int]) -> None:
    assert where(TABLE, condition).index.tolist() == rows


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("mixr == 'based'", "no column 'mixr': the nearest is 'mixer'"),
        ("mixer == based", "no column 'based'.* a word stands in quotes"),
        ("mixer ==", "it is not a comparison: write one such as mixer == 'based'"),
        ("mixer = 'based'", "written with =="),
        ("mixer = based", "a word in quotes: mixer == 'based'"),
        ("d_model = 64", "with ==, and a word in quotes: d_model == 64"),
        ("mixer", "compared with nothing"),
        ("64", "compared with nothing"),
        ("d_model == '64'", "d_model has numbers and '64' has words: compare like with like"),
        ("mixer < 3", "mixer has words and 3 has numbers"),
        ("d_model in 64", "after in stands a list"),
        ("d_model in []", "after in stands a list"),
        ("d_model is 64", "not a comparison"),
        ("d_model == 2 * 32", "2 \\* 32 is neither a column nor a number"),
        ("(" * 3000 + "causal" + ")" * 3000, "6,006 characters, at most 2,000"),
        ("(" * 900 + "causal" + ")" * 900, "not a comparison"),
        ("not " * 300 + "causal", "more than 50"),
        ("`` == 1", "no column ''"),
    ],
)
def test_an_invalid_condition_is_one_line(condition: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        where(TABLE, condition)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "attack",
    [
        "@pd.io.common.os.system('touch {0}') == 0",
        "@__import__('os').system('touch {0}') == 0",
        "mixer.str.contains('b')",
        "__import__('os').system('touch {0}')",
        "mixer.map(open('{0}', 'w').write)",
        "`mixer`.__class__",
        "index == index; import os",
        "d_model == (lambda: 64)()",
        "d_model ** 999999999 > 1",
    ],
)
def test_nothing_is_executed(attack: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        where(TABLE, attack.format(tmp_path / "ran"))
    assert not list(tmp_path.iterdir())
