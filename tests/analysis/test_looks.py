"""How a mixer is known again from picture to picture, and what is drawn where a mean says nothing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.drawing import draw
from analysis.drawing.style import MARKER_OF, MARKERS, SCREEN, STYLES, looks
from analysis.figures import gallery
from analysis.statistics.chance import chance
from analysis.statistics.frontier import frontier
from analysis.statistics.scored import means
from analysis.statistics.seeds import apart, written
from tests.analysis import study

CONF = Path(__file__).parents[2] / "conf" / "mixer"
EIGHT = ["seq_len=64,num_kv_pairs=8"]


def points(*mixers: str, family: str = "linear", **settings: object) -> pd.DataFrame:
    return means(study.table([study.record(name, 0.5, family=family, **settings) for name in mixers]))


def test_a_mixer_has_its_marker_whatever_stands_beside_it() -> None:
    alone = looks(points("based"))["Based"].marker
    among = looks(points("all_poly", "based", "cosformer", "deltanet", "gla"))
    assert alone == among["Based"].marker == MARKER_OF["based"]
    strangers = looks(
        points("based", "my_mixer", "a_mixer", "zz")
    )  # nobody's name takes a known one's marker
    assert strangers["Based"].marker == alone and len({look.marker for look in strangers.values()}) == 4


def test_every_marked_mixer_is_one_of_the_zoo_and_has_one_marker_that_there_is() -> None:
    assert set(MARKER_OF) <= {path.stem for path in CONF.glob("*.yaml")}
    assert set(MARKER_OF.values()) <= set(MARKERS)


def test_series_of_one_family_have_hues_and_of_two_the_families_colours() -> None:
    one = looks(points(*(f"m{i}" for i in range(10))))
    assert len({look.colour for look in one.values()}) == 10
    both = pd.concat([points("based", "gla"), points("mamba", family="ssm")])
    assert looks(both)["Based"].colour == looks(both)["Gla"].colour == looks(points("based"))["Based"].colour


NONE = pd.DataFrame({"slice": []})


def test_chance_is_one_of_the_rows_values() -> None:
    assert chance(NONE, ["seq_len=16,num_kv_pairs=2", "seq_len=64,num_kv_pairs=8"]) == (1 / 2 + 1 / 8) / 2
    assert np.isnan(chance(NONE, ["length=8"])) and np.isnan(chance(NONE, [*EIGHT, "length=8"]))


@pytest.mark.parametrize(("accuracy", "on"), [(0.125, False), (0.144, False), (0.146, True), (0.01, False)])
def test_a_point_at_chance_is_on_no_frontier(accuracy: float, on: bool) -> None:
    rows = means(study.table([study.record("small", accuracy, state=1), study.record("large", 0.9, state=9)]))
    assert rows["chance"].tolist() == [1 / 8] * 2
    assert rows.set_index("mixer")["on_frontier"].to_dict() == {"small": on, "large": True}
    assert frontier(rows.assign(chance=float("nan"))).all()


def test_seeds_that_differ_by_more_than_three_tenths_are_apart() -> None:
    assert apart(written(np.array([0.2, 0.5, 0.4]))) == []
    assert apart(written(np.array([0.2, 0.51, 0.4]))) == [0.2, 0.51, 0.4]


def marks(figure: Figure, x: float) -> list[tuple[float, bool]]:
    """(accuracy, hollow) of every mark at this x."""
    found = [c for ax in figure.axes for c in ax.collections if len(c.get_offsets()) == 1]
    return sorted(
        (round(float(c.get_offsets()[0][1]), 4), bool(np.allclose(c.get_facecolor()[0][:3], 1)))
        for c in found
        if float(c.get_offsets()[0][0]) == x
    )


@pytest.mark.parametrize("name", ["frontier", "based_fig2", "se_attn_ablations", "loads", "curves"])
def test_seeds_apart_and_what_is_not_causal_are_drawn_alike_in_every_picture(
    tmp_path: Path, name: str
) -> None:
    seeds = {8: (0.2, 0.9), 16: (0.4, 0.5)}
    records = [
        study.record("based", score, seed=seed, state=dim, feature_dim=dim) | {"causal": dim == 8}
        for dim, scores in seeds.items()
        for seed, score in enumerate(scores)
    ]
    picture = gallery.draw(name, gallery.Study(study.write(tmp_path / "two", records)), SCREEN)
    at = {"loads": (8, 8), "curves": (100, 100)}.get(name, (8, 16))
    first, second = (marks(picture.figure, x) for x in at)
    assert {(0.2, False), (0.9, False)} <= set(first) and (0.55, False) not in first
    assert (0.45, True) in second and (0.4, True) not in second
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert "each seed, where they differ by > 0.3" in legend and "not causal or not decodable" in legend
    assert "chance, 1/n: one of the row's n values" in legend
    lines = [line for ax in picture.figure.axes for line in ax.lines]
    level = [
        line
        for line in lines
        if line.get_linewidth() == draw.CHANCE["linewidth"] and line.get_color() == "#222222"
    ]
    assert level and set(np.ravel(level[0].get_ydata())) == {1 / 8}


def test_curves_begin_at_step_0(tmp_path: Path) -> None:
    home = study.write(tmp_path / "one", [study.record("based", 0.5)])
    ax = gallery.draw("curves", gallery.Study(home), SCREEN).figure.axes[0]
    assert ax.get_xlim()[0] == 0 and ax.get_xticks()[0] == 0


def test_a_heat_map_has_no_empty_cell(tmp_path: Path) -> None:
    """One load a cell: on a grid of lengths by pairs most places would be empty."""
    records = [
        study.record("based", 0.5, d_model=width, slices=[(8 * pairs, pairs)])
        for pairs in (2, 4, 8)
        for width in (32, 64)
    ]
    figure = gallery.draw("heat_map", gallery.Study(study.write(tmp_path / "r", records)), SCREEN).figure
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["50"] * 6 + ["50", "25", "12"]  # two widths, and chance
    assert figure.axes[0].get_xlabel() == "slice: seq_len above num_kv_pairs"


@pytest.mark.parametrize(
    "name", ["based_fig2", "based_fig3", "based_fig8", "zoology_fig2", "se_attn_ablations"]
)
def test_a_figure_of_print_refuses_other_tasks(tmp_path: Path, name: str) -> None:
    home = study.write(tmp_path / "r", [study.record("based", 0.5, task="copying")])
    with pytest.raises(ValueError, match=f"^{name} stands beside .* of task 'copying'") as refused:
        gallery.draw(name, gallery.Study(home), SCREEN)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
def test_captions_fit_whatever_they_say(style, tmp_path: Path) -> None:
    long = study.record("based", 0.5, task="W" * 60) | {"label": "M" * 70}
    figure = gallery.draw("frontier", gallery.Study(study.write(tmp_path / "r", [long])), style).figure
    for text in figure.texts:
        assert text.get_window_extent().x1 <= figure.bbox.x1, style.name
