"""Colours and markers are distinct, for any colour vision; seeds apart and points at chance are marked."""

from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.drawing import curves, draw
from analysis.drawing.style import FAMILY_COLOURS, MARKER_OF, MARKERS, STYLES, looks
from analysis.records import cells
from analysis.statistics.frontier import frontier
from analysis.statistics.scored import means
from analysis.statistics.seeds import apart, written
from tests.analysis import fake, study
from tests.analysis.figure_checks import legend_texts, off_the_page

CONF = Path(__file__).parents[2] / "conf" / "mixer"


def points(*mixers: str, family: str = "linear", **settings: object) -> pd.DataFrame:
    return means(study.table([study.record(name, 0.5, family=family, **settings) for name in mixers]))


def test_a_mixer_keeps_its_marker_among_others() -> None:
    alone = looks(points("based"))["Based"].marker
    among = looks(points("all_poly", "based", "cosformer", "deltanet", "gla"))
    assert alone == among["Based"].marker == MARKER_OF["based"]
    strangers = looks(points("based", "my_mixer", "a_mixer", "zz"))  # none takes a known one's marker
    assert strangers["Based"].marker == alone and len({look.marker for look in strangers.values()}) == 4


def test_marked_mixers_and_their_markers_exist() -> None:
    assert set(MARKER_OF) <= {path.stem for path in CONF.glob("*.yaml")}
    assert set(MARKER_OF.values()) <= set(MARKERS)


def test_colours_are_of_series_in_one_family_and_else_of_families() -> None:
    one = looks(points(*(f"m{i}" for i in range(10))))
    assert len({look.colour for look in one.values()}) == 10
    both = pd.concat([points("based", "gla"), points("mamba", family="ssm")])
    assert looks(both)["Based"].colour == looks(both)["Gla"].colour == looks(points("based"))["Based"].colour


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
    """Return (accuracy, hollow) of every mark at this x."""
    single = [c for ax in figure.axes for c in ax.collections if len(c.get_offsets()) == 1]
    return sorted(
        (round(float(c.get_offsets()[0][1]), 4), bool(np.allclose(c.get_facecolor()[0][:3], 1)))
        for c in single
        if float(c.get_offsets()[0][0]) == x
    )


def based_of_sizes(scores: dict[int, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Return records of Based.  scores: size of state and of features -> the accuracy of each seed."""
    sizes = [study.seeds("based", seeds, state=dim, feature_dim=dim) for dim, seeds in scores.items()]
    return [*chain(*sizes)]


@pytest.mark.parametrize("name", ["frontier", "based_fig2", "se_attn_ablations", "loads", "curves"])
def test_every_picture_draws_seeds_apart_and_marks_what_is_not_causal(tmp_path: Path, name: str) -> None:
    seeds = {8: (0.2, 0.9), 16: (0.4, 0.5)}
    records = [cell | {"causal": cell["state_resident"] == 8} for cell in based_of_sizes(seeds)]
    picture = study.drawn(name, tmp_path / "two", records)
    at = {"loads": (8, 8), "curves": (100, 100)}.get(name, (8, 16))
    first, second = (marks(picture.figure, x) for x in at)
    assert {(0.2, False), (0.9, False)} <= set(first) and (0.55, False) not in first
    assert (0.45, True) in second and (0.4, True) not in second
    legend = legend_texts(picture.figure)
    assert "each seed, where they differ by > 0.3" in legend
    assert any(text.startswith("not causal or not decodable") for text in legend)
    assert "chance, 1/n: one of the row's n values" in legend
    lines = [line for ax in picture.figure.axes for line in ax.lines if line.get_color() == "#222222"]
    level = next(line for line in lines if line.get_linewidth() == draw.CHANCE["linewidth"])
    assert set(np.ravel(level.get_ydata())) == {1 / 8}


def test_a_mean_or_a_seed_at_chance_is_hollow(tmp_path: Path) -> None:
    """Chance is 1/8 here, and .02 above it counts as at chance."""
    records = based_of_sizes({8: (0.1, 0.9), 16: (0.13, 0.15), 32: (0.5, 0.6)})
    picture = study.drawn("frontier", tmp_path / "r", records)
    assert {(0.1, True), (0.9, False)} <= set(marks(picture.figure, 8))
    assert (0.14, True) in marks(picture.figure, 16) and (0.55, False) in marks(picture.figure, 32)
    assert "no better than chance" in legend_texts(picture.figure)
    plain = study.drawn("frontier", tmp_path / "p", records[-2:])
    assert not any("no better" in text for text in legend_texts(plain.figure))


def test_curves_begin_at_step_0(tmp_path: Path) -> None:
    ax = study.drawn("curves", tmp_path / "one", [study.record("based", 0.5)]).figure.axes[0]
    assert ax.get_xlim()[0] == 0 and ax.get_xticks()[0] == 0


def test_a_heat_map_of_one_load_a_cell_has_no_empty_place(tmp_path: Path) -> None:
    """One load a cell: on a grid of lengths by pairs most places would be empty."""
    sizes = product((2, 4, 8), (32, 64))
    records = [study.record("based", 0.5, d_model=width, slices=[(8 * n, n)]) for n, width in sizes]
    ax = study.drawn("heat_map", tmp_path / "r", records).figure.axes[0]
    shown = [text.get_text() for text in ax.texts]
    assert shown == ["50"] * 6 + ["50", "25", "12"]  # two widths, and chance
    assert ax.get_xlabel() == "slice: seq_len above num_kv_pairs"


@pytest.mark.parametrize(
    "name", ["based_fig2", "based_fig3", "based_fig8", "zoology_fig2", "se_attn_ablations"]
)
def test_a_published_figure_refuses_other_tasks(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} stands beside .* of task 'copying'") as refused:
        study.drawn(name, tmp_path / "r", [study.record("based", 0.5, task="copying")])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
def test_long_captions_fit_on_the_page(style, tmp_path: Path) -> None:
    long = study.record("based", 0.5, task="W" * 60) | {"label": "M" * 70}
    figure = study.drawn("frontier", tmp_path / "r", [long], style).figure
    assert not off_the_page(figure.texts, figure)


DEUTERANOPIA = [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]  # Machado et al. 2009
PROTANOPIA = [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "deutan", "protan"])
def test_families_differ_for_any_colour_vision(sight: list[list[float]]) -> None:
    colours = [lab(np.asarray(sight) @ linear(colour)) for colour in FAMILY_COLOURS.values()]
    assert min(np.linalg.norm(a - b) for a, b in combinations(colours, 2)) > 20


def test_families_differ_in_grey() -> None:
    lightness = sorted(lab(linear(colour))[0] for colour in FAMILY_COLOURS.values())
    assert min(np.diff(lightness)) > 7 and lightness[-1] < 72


def linear(colour: str) -> np.ndarray:
    rgb = np.asarray(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* of linear sRGB, D65."""
    xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    f = np.cbrt(np.clip(xyz @ np.clip(rgb, 0, 1) / xyz.sum(axis=1), 1e-6, None))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def metrics(run_ids: list[str]) -> pd.DataFrame:
    rows = [
        (run_id, step, split, slice_, metric, step / 10 + place / 100)
        for run_id, step, split, metric in product(run_ids, (1, 2), ("train", "valid"), ("accuracy", "loss"))
        for place, slice_ in enumerate(("seq_len=8", "seq_len=16"))
    ]
    return pd.DataFrame(rows, columns=["run_id", "step", "split", "slice", "metric", "value"])


def test_a_curve_is_the_mean_over_slices() -> None:
    curve = curves.learning_curves(metrics(["a"]))
    assert curve.round(6).to_numpy().tolist() == [["a", 1, 0.105], ["a", 2, 0.205]]


def test_each_cell_has_a_line_of_another_colour_marker_or_dash() -> None:
    runs = cells.identify(fake.table()).query("lr == 0.003 and seed == 1").drop_duplicates("point").head(9)
    ax = curves.picture(curves.learning_curves(metrics(runs["run_id"].tolist())), runs).axes[0]
    assert len(ax.lines) == 9
    assert len({(line.get_color(), line.get_marker(), str(line._dash_pattern)) for line in ax.lines}) == 9
    assert ax.get_xlabel() and "mean of its slices" in ax.get_ylabel()
