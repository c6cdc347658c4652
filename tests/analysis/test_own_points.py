"""--points: one's own points beside those of the records, checked on reading."""

from pathlib import Path

import pytest

from analysis import pareto
from analysis.drawing import figure
from analysis.drawing.own_points import read
from tests.analysis import study

GOOD = """# mine
name,state_resident,accuracy,low,high
Mine,100,0.9,0.8,0.95
Mine,200,0.95,,
"Another, one",50,0.5,,
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "mine.csv").write_text(text)
    return tmp_path / "mine.csv"


def test_they_are_read(tmp_path: Path) -> None:
    rows = read(written(tmp_path, GOOD), "resident")
    assert rows["name"].tolist() == ["Mine", "Mine", "Another, one"]
    assert rows["state_resident"].tolist() == [100, 200, 50] and rows["low"].isna().tolist() == [
        False,
        True,
        True,
    ]
    bom = "\ufeffaccuracy,name,decode_tokens_per_second\r\n1,a,3e4\r\n"
    assert read(written(tmp_path, bom), "throughput")["decode_tokens_per_second"].tolist() == [3e4]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,state,accuracy\na,1,1\n", ["lacks the column 'state_resident'"]),
        ("name,state_resident,accuracy,lo\na,1,1,1\n", ["unknown column lo; did you mean low?"]),
        ("name,state_resident,accuracy,low\na,1,1,1\n", ["one of low and high", "low stands alone"]),
        (
            "name,state_resident,accuracy\na,x,0.5\nb,1,90\n\n,1,1\nd,0,1\ne,1,nan\nf,inf,1\n",
            ["point 1: state_resident (=x) must be a number", "point 2: accuracy (=90) must lie between 0",
             "point 3: the name is empty", "point 4: state_resident (=0) must be a number above 0",
             "point 5: accuracy (=nan) must lie", "point 6: state_resident (=inf) must be a number"],
        ),
        (
            "name,state_resident,accuracy,low,high\na,1,.5,.6,.7\nb,1,.5,.4,\n",
            ["point 1: accuracy (=.5) must lie between low and high", "point 2: low stands alone"],
        ),
        ("name,state_resident,accuracy\n" + "".join(f"{i},1,1\n" for i in range(17)), ["17 names, and 16"]),
    ],
)  # fmt: skip
def test_every_mistake_is_a_line(tmp_path: Path, text: str, says: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        read(written(tmp_path, text), "resident")
    for line, wanted in zip(str(caught.value).splitlines(), says, strict=True):
        assert wanted in line and "mine.csv" in line


def test_they_are_drawn_named_and_no_part_of_frontier_table_and_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = study.write(tmp_path / "r", [study.record("based", 0.5, state=800)])
    drawn: list[figure.Figure] = []
    monkeypatch.setattr(pareto.page, "save", lambda picture, *_: drawn.append(picture) or [])
    assert pareto.main([str(home), "--points", str(written(tmp_path, GOOD))]) == 0
    assert (
        "Mine" not in capsys.readouterr().out and "Mine" not in (home / "figures" / "pareto.csv").read_text()
    )
    (ax,) = [ax for ax in drawn[0].axes if ax.get_title() is not None][:1]
    at = [tuple(c.get_offsets()[0]) for c in ax.collections if len(c.get_offsets()) == 1]
    assert {(100, 0.9), (200, 0.95), (50, 0.5)} <= set(at)
    names = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert names.count("Mine") == 1 and {"Another, one", "points of your own"} <= set(names)
    assert ax.get_xlim()[0] < 50
    (tmp_path / "mine.csv").write_text("name,accuracy\na,2\n")
    assert pareto.main([str(home), "--points", str(tmp_path / "mine.csv")]) == 1
    assert capsys.readouterr().err.count("error: ") == 1
    assert pareto.main([str(home), "--points", str(tmp_path / "none.csv")]) == 1
    assert "There is no " in capsys.readouterr().err


def test_beside_several_loads_they_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [study.record("based", 0.5, slices=[(8 * n, n)]) for n in (4, 8)]
    home = study.write(tmp_path / "r", records)
    assert pareto.main([str(home), "--points", str(written(tmp_path, GOOD))]) == 1
    assert "beside 2 loads" in capsys.readouterr().err
