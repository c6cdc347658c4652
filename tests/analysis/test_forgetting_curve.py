"""The picture of forgetting curves: seeds pooled, both lengths marked, a panel a setting."""

import pandas as pd
import pytest

from analysis.figures import forgetting_curve as picture
from tests.analysis import study

LENGTHS = (8, 16, 32, 64)


def curve(run_id: str, remembers: int) -> list[dict]:
    """Copies perfectly up to a length; guesses one in five."""
    return [
        {"run_id": run_id, "mixer": "?", "length": length, "kind": kind, "repeat": repeat, "tokens": 4}
        | {"prefix": "" if kind == "copy" else "corpus"}
        | {"accuracy": 1.0 if kind == "copy" and length <= remembers else 0.2}
        for length in LENGTHS
        for kind in ("copy", "lm")
        for repeat in range(3)
    ]


@pytest.fixture
def asked() -> study.Asked:
    """A mixer whose two seeds remember 16 and 32 tokens, and one that remembers all."""
    records = [study.record("fades", 0.5, seed=seed, state=10) for seed in (0, 1)]
    records.append(study.record("keeps", 0.5, state=99))
    rows = [curve(r["run_id"], far) for r, far in zip(records, (16, 32, 64), strict=True)]
    return study.Asked(study.table(records), pd.DataFrame(sum(rows, [])), "forgetting_curve")  # noqa: RUF017


def test_a_panel_a_setting_with_both_lengths(asked: study.Asked) -> None:
    found = asked.drawn(picture)
    lengths = found.tables["lengths"].set_index("mixer")
    assert lengths["fine"].to_dict() == {"fades": "16", "keeps": ">64"}
    assert lengths["coarse"].to_dict() == {"fades": "32", "keeps": ">64"}  # one of two seeds still copies
    assert lengths["seeds"].to_dict() == {"fades": 2, "keeps": 1}
    fades, keeps = found.figure.axes
    assert [line.get_xdata()[0] for line in fades.lines[2:]] == [16, 32]
    assert "fine >64, coarse >64" in keeps.get_title()
    assert found.rows.query("kind == 'copy' and length == 32")["accuracy"].tolist() == [0.6, 1.0]


def test_a_model_of_another_house_stands_beside_ours_and_alone(asked: study.Asked) -> None:
    asked.others = pd.DataFrame(curve("hf-book_llama", 32))
    found = asked.drawn(picture)
    assert found.figure.axes[-1].get_title() == "book_llama\nfine 32, coarse 32"
    assert len(found.figure.axes) == 3
    asked.table = asked.table[:0]
    [alone] = asked.drawn(picture).figure.axes
    assert alone.get_title().startswith("book_llama")


def test_points_of_one_name_are_told_apart_by_their_layers(asked: study.Asked) -> None:
    other = study.record("keeps", 0.5, state=50, d_model=32)
    asked.table = pd.concat([asked.table, study.table([other])], ignore_index=True)
    asked.found = pd.concat([asked.found, pd.DataFrame(curve(other["run_id"], 8))])
    keeps = sorted(run for run in set(asked.found["run_id"]) if run.startswith("keeps"))
    asked.layers = dict(zip(keeps, ("Mamba2, Attention", "BaseConv, Mamba2"), strict=True))
    found = asked.drawn(picture)
    titles = [ax.get_title().split("\n")[0] for ax in found.figure.axes]
    assert {"Keeps d_model=32 (Mamba2, Attention)", "Keeps d_model=64 (BaseConv, Mamba2)"} < set(titles)


def test_two_questions_are_no_curve(asked: study.Asked) -> None:
    asked.found = pd.concat([asked.found] * 2)
    with pytest.raises(ValueError, match="asked in several ways"):
        asked.drawn(picture)
