"""python -m analysis.pareto: its picture shows what it should, the same each time, and nothing collides."""

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from analysis.drawing import figure, legend, page
from analysis.drawing.draw import FORBIDDEN, lines
from analysis.drawing.style import BACKGROUND, FAMILY_COLOURS, OTHER_COLOURS, STYLES, Style, looks
from analysis.drawing.ticks import in_bytes
from analysis.pareto import Pareto, pareto
from analysis.statistics.axes import AXES
from analysis.statistics.chance import MARGIN
from analysis.statistics.seeds import top
from tests.analysis import fake
from tests.analysis.figure_checks import colliding, legend_texts, off_the_page

BOUNDS = ("near", "whole", "none")


@pytest.fixture(scope="module")
def shown() -> Pareto:
    return pareto(fake.table())


@pytest.fixture(scope="module")
def picture(shown: Pareto) -> Figure:
    return one_panel(shown.points, list(shown.by_slice))


@pytest.fixture(scope="module")
def both(shown: Pareto) -> Figure:
    return shown.picture()


@pytest.fixture(scope="module")
def bounded(shown: Pareto) -> dict[str, Figure]:
    based = pareto(fake.table(), where="mixer == 'based'")
    return {bound: based.picture(bound=bound) for bound in BOUNDS}


def one_panel(points: pd.DataFrame, slices: list[str], *, axis: str = "resident") -> Figure:
    return figure.panels([figure.Panel(points, axis)], slices)


def test_the_axes_and_caption_name_unit_split_and_slices(picture: Figure) -> None:
    ax = picture.axes[0]
    assert ax.get_ylabel() == "Test accuracy, mean of 4 slices"
    caption = " ".join(picture.texts[0].get_text().split())
    assert "(seq_len, num_kv_pairs) = (32, 4), (64, 8), (64, 16), (128, 32)" in caption
    assert "128 tokens (scalars per sequence" in ax.get_xlabel()
    assert ax.get_xscale() == "log"


def test_the_caption_explains_how_the_numbers_were_made(shown: Pareto) -> None:
    text = figure.caption(shown.points)
    assert "Mean of 3 seeds with min to max over seeds" in text
    assert "best of 3 by mean validation accuracy" in text and "diverged seed counts as 0" in text
    alone = pareto(fake.table(seeds=1), where="lr == 0.003 and mixer == 'based'").points
    assert figure.caption(alone).endswith("One seed: no interval. One learning rate each, not tuned.")


def test_the_legend_explains_every_mark_that_occurs_and_no_other(picture: Figure) -> None:
    texts = " ".join(legend_texts(picture))
    marks = ["not causal", "decode step", "within the window", "best lr", "seeds diverged", "another lr"]
    assert "frontier" in texts and all(mark in texts for mark in marks)
    plain = pareto(fake.table(), where="mixer == 'based'")
    texts = " ".join(legend_texts(one_panel(plain.points, list(plain.by_slice))))
    assert "frontier" in texts and not any(mark in texts for mark in marks)


@pytest.mark.parametrize(("axis", "points"), [("resident", 17), ("paper", 15), ("touched", 17)])
def test_every_point_has_its_mark_and_those_apart_are_hollow(axis: str, points: int) -> None:
    shown, state = pareto(fake.table(), axis=axis), f"state_{axis}"
    picture = one_panel(shown.points, list(shown.by_slice), axis=axis)
    assert ("what one decode step reads" in " ".join(legend_texts(picture))) == (axis == "resident")
    alone = [c for c in picture.axes[0].collections if len(c.get_offsets()) == 1]
    at = {tuple(np.round(c.get_offsets()[0], 6)): c for c in reversed(alone)}  # the first drawn at a place
    known = shown.points.dropna(subset=[state])
    assert len(known) == points
    for row in known.to_dict("records"):
        mark = at[(round(row[state], 6), round(top(row), 6))]
        hollow = np.allclose(mark.get_facecolor()[0], 1)
        assert hollow == (not row["causal"] or top(row) < row["chance"] + MARGIN)
    flags = {tuple(c.get_offsets()[0]) for c in alone if list(c.get_sizes()) == [9]}
    flagged = known.loc[known["lr_edge"] != ""].to_dict("records")
    assert flags == {(row[state], top(row)) for row in flagged} and flagged


def test_diverged_seeds_are_counted_below_zero(picture: Figure) -> None:
    ax = picture.axes[0]
    below = [c.get_offsets()[0] for c in ax.collections if len(c.get_offsets()) and c.get_offsets()[0][1] < 0]
    assert sorted(x for x, _ in below) == [1152, 4864, 16600]
    assert [t.get_text() for t in ax.texts if "/3" in t.get_text()] == ["1/3"]


def test_labels_of_markers_do_not_collide(picture: Figure) -> None:
    ax = picture.axes[0]
    boxes = [t.get_window_extent() for t in ax.texts if isinstance(t, Annotation)]
    assert len(boxes) > 8
    assert not colliding(boxes)
    assert all(ax.bbox.expanded(1.02, 1.02).contains(*corner) for box in boxes for corner in box.get_points())


def test_a_label_without_room_is_left_out(shown: Pareto) -> None:
    windows = shown.points[shown.points["mixer"] == "sliding_window"]
    crowd = windows.assign(state_resident=[1000, 1010, 1020, 1030], accuracy=0.5, low=0.4, high=0.6)
    ax = one_panel(crowd, list(shown.by_slice)).axes[0]
    crowded = [t for t in ax.texts if t.get_text() in ("8", "16", "32", "64")]
    boxes = [t.get_window_extent() for t in crowded]
    assert len(boxes) > 0
    assert not colliding(boxes)
    centres = ax.transData.transform(crowd[["state_resident", "accuracy"]].to_numpy(float))
    assert not [box for box in boxes if any(box.contains(*centre) for centre in centres)]


@pytest.mark.parametrize("panels", [1, 4, 7])
def test_nothing_is_outside_the_page(shown: Pareto, panels: int) -> None:
    names = (list(shown.by_slice) * 2)[:panels]
    by_slice = {f"{name}{'' if i < 4 else i}": shown.by_slice[name] for i, name in enumerate(names)}
    several = replace(shown, loads=[replace(shown.loads[0], by_slice=by_slice)])
    picture = one_panel(shown.points, names) if panels == 1 else several.slices_picture()
    labels = [axis.label for ax in picture.axes for axis in (ax.xaxis, ax.yaxis)]
    assert not off_the_page([*picture.texts, *picture.legends[0].get_texts(), *labels], picture)


def test_the_page_grows_with_the_legend(shown: Pareto) -> None:
    rows = shown.points.head(1)
    many = pd.concat([rows.assign(series=f"Series {i}") for i in range(60)], ignore_index=True)
    picture = one_panel(many, list(shown.by_slice))
    legend, caption = picture.legends[0].get_window_extent(), picture.texts[0].get_window_extent()
    assert legend.y1 <= picture.bbox.y1 and legend.y0 >= caption.y1


def test_panels_of_slices_share_axes_and_markers(shown: Pareto) -> None:
    panels = shown.slices_picture().axes
    assert panels[0].get_title().replace("\u00a0", " ") == "seq_len, num_kv_pairs = 32, 4"
    assert len({ax.get_xlim() for ax in panels}) == len({ax.get_ylim() for ax in panels}) == 1


def test_lines_connect_one_knob_at_a_time(shown: Pareto) -> None:
    drawn = list(lines(shown.points, "state_resident"))
    widths = [(name, line["d_model"].tolist()) for name, line in drawn]
    assert ("Based", [32, 32]) in widths and ("Based", [64, 64, 64]) in widths
    assert ("Linear attention", [32, 64]) in widths
    assert all(line["state_resident"].is_monotonic_increasing for _, line in drawn)


def test_one_colour_a_family_one_marker_a_series(shown: Pareto) -> None:
    by_series = looks(shown.points)
    assert len({(look.colour, look.marker) for look in by_series.values()}) == len(by_series)
    assert len({*FAMILY_COLOURS.values(), *OTHER_COLOURS}) == len(FAMILY_COLOURS) + len(OTHER_COLOURS)
    assert by_series["Based"].colour == by_series["Linear attention"].colour == FAMILY_COLOURS["linear"]
    other = looks(shown.points.assign(family="memory"))
    assert other["Based"].colour not in FAMILY_COLOURS.values()


def test_the_scalars_that_are_read_have_a_panel_with_a_frontier(both: Figure) -> None:
    resident, read = both.axes
    assert "Resident" in resident.get_xlabel() and "read by one decode step" in read.get_xlabel()
    stairs = [next(x for x in ax.lines if x.get_drawstyle() == "steps-post") for ax in (resident, read)]
    assert 2300 in np.asarray(stairs[1].get_xdata()) and 2300 not in np.asarray(stairs[0].get_xdata())
    assert all(load.touched is None for load in pareto(fake.table(), where="mixer == 'based'").loads)


def test_bounds_are_drawn_in_the_picture_and_named_beyond_it(bounded: dict[str, Figure]) -> None:
    texts = {bound: " ".join(" ".join(legend_texts(each)).split()) for bound, each in bounded.items()}
    beyond = r"no model scores 0\.99 below 4\.6 / 9\.3 / 1\d\d scalars of 32 / 16 / 1 bits"
    assert re.search(rf"{beyond} \(left of the picture\)", texts["near"])
    assert "bits a scalar" not in texts["near"] and "heuristic" in texts["near"]
    assert "no model: 32 bits a scalar" in texts["whole"] and "left of the picture" not in texts["whole"]
    assert "no model" not in texts["none"] and "heuristic" not in texts["none"]
    left = {bound: each.axes[0].get_xlim()[0] for bound, each in bounded.items()}
    assert left["whole"] < 4.6 < left["near"] < left["none"] < 960
    assert np.log(10073 / 1103) / np.log(10073 * 1.45 / left["near"]) > 0.45


def test_the_shaded_region_is_above_the_bound_alone(shown: Pareto, bounded: dict[str, Figure]) -> None:
    bound = shown.loads[0].bound("resident")
    assert bound is not None
    (region,) = filled(bounded["whole"].axes[0], FORBIDDEN)
    corners = region.get_paths()[0].vertices
    curve = bound.loc[bound["bound"] == "no model: 32 bits a scalar"]
    possible = np.interp(corners[:, 0], curve["state"], curve["accuracy"])
    assert (corners[:, 1] >= possible - 1e-9).all() and corners[:, 1].max() == 1
    assert not filled(bounded["none"].axes[0], FORBIDDEN)
    assert shown.loads[0].bound("touched") is None and shown.loads[0].bound("paper") is None


def filled(ax: Axes, colour: str) -> list:
    faces = [(c, c.get_facecolor()) for c in ax.collections]
    return [c for c, face in faces if len(face) and np.allclose(face[0, :3], to_rgb(colour), atol=1e-3)]


def test_the_frontier_has_a_band_and_each_point_its_share(shown: Pareto, both: Figure) -> None:
    rows = shown.points
    assert rows.loc[rows["on_frontier"], "frontier_share"].min() > 0.4
    assert rows.loc[~rows["causal"], "frontier_share"].isna().all()
    known = rows.dropna(subset=["frontier_low"])
    assert len(known) == 15 and (known["frontier_low"] <= known["frontier_high"]).all()
    on = rows.loc[rows["on_frontier"]]
    assert ((on["frontier_low"] <= on["accuracy"]) & (on["accuracy"] <= on["frontier_high"])).all()
    assert "95 % of frontiers, seeds drawn again" in legend_texts(both)
    alone = pareto(fake.table(seeds=1)).points
    assert alone["frontier_share"].isna().all() and alone["frontier_low"].isna().all()
    marks = [str(handle.get_label()) for handle in legend.mark_handles(alone, AXES["resident"], 40)]
    assert marks and not [text for text in marks if "drawn again" in text]


def test_many_series_are_named_by_family_with_a_panel_for_each_series() -> None:
    table = fake.table(seeds=1).query("lr == 0.003")
    twice = [
        table.assign(**{c: table[c] + f" {i}" for c in ("label", "mixer", "point", "run_id")}) for i in (0, 1)
    ]
    shown = pareto(pd.concat(twice, ignore_index=True), of=["seq_len=64,num_kv_pairs=8"])
    pictures = shown.pictures()
    assert set(pictures) == {"", "mixers"}
    texts = legend_texts(pictures[""])
    assert "linear (4)" in texts and "Based 1" not in " ".join(texts)
    named = [text.get_text() for text in pictures[""].axes[0].texts]
    assert any(name.startswith("Based") for name in named)
    panels = pictures["mixers"].axes
    assert len(panels) == shown.points["series"].nunique() == 16
    (mine,) = [ax for ax in panels if ax.get_title() == "Hyena 1"]
    strong = [c for c in mine.collections if len(c.get_offsets()) == 1 and c.get_zorder() >= 3.8]
    assert len(strong) == 1
    (pale,) = filled(mine, BACKGROUND)
    finished = shown.points["diverged"] < shown.points["seeds"]
    assert len(pale.get_offsets()) == finished.sum() - 1


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
def test_each_style_keeps_to_its_page_and_its_size_of_type(shown: Pareto, style: Style) -> None:
    picture = shown.picture(style)
    width = picture.get_figwidth()
    assert width == style.width if style.below else width > style.width
    texts = [text for text in picture.findobj(Text) if text.get_text() and text.get_visible()]
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.x1 <= picture.bbox.x1 + 1, text.get_text()
    if style.below:
        assert 6 <= min(t.get_fontsize() for t in texts) <= max(t.get_fontsize() for t in texts) <= 8
    file = page.content(picture, style, "pdf")
    assert b"/FontFile2" in file and b"/Type3" not in file


def test_a_state_of_nothing_is_drawn_at_one(shown: Pareto) -> None:
    nothing = shown.points.assign(state_resident=0, state_touched=0)
    ax = one_panel(nothing, list(shown.by_slice)).axes[0]
    assert ax.get_xlim()[0] < 1 < ax.get_xlim()[1]


def test_csv_is_the_mean_and_each_slice_and_the_same_every_time(shown: Pareto) -> None:
    again = pareto(fake.table().sample(frac=1, random_state=2))
    assert shown.csv == again.csv
    rows = pd.read_csv(io.StringIO(shown.csv))
    assert rows["slice"].value_counts().to_dict() == dict.fromkeys(["mean of 4 slices", *shown.by_slice], 17)


def test_bytes_in_words() -> None:
    assert [in_bytes(n) for n in (512, 1024, 65536, 2**21)] == ["512 B", "1 KiB", "64 KiB", "2 MiB"]


def test_the_frontier_is_mirrored_where_more_is_better() -> None:
    table = fake.table()
    fast = {"mamba": 900.0, "based": 500.0, "sliding_window": 400.0}
    table["decode_tokens_per_second"] = table["mixer"].map(fast).where(table["causal"])
    shown = pareto(table, axis="throughput")
    on = shown.points.loc[shown.points["on_frontier"]]
    assert on[["mixer", "knobs"]].to_numpy().tolist() == [["based", "feature_dim=16"], ["mamba", "d_state=8"]]
    (stair,) = [line for line in shown.picture().axes[0].lines if line.get_drawstyle() == "steps-pre"]
    xs, ys = np.asarray(stair.get_xdata()), np.asarray(stair.get_ydata())
    assert xs[1:].tolist() == [500, 900] and xs[0] < 1e-3
    assert ys[0] == ys[1] > ys[2]
    assert ["6 points have no decode_tokens_per_second" in note for note in shown.notes] == [True]


@pytest.mark.parametrize(("axis", "times"), [("fp32", 4), ("bf16", 2)])
def test_bytes_are_the_resident_state_times_the_size_of_a_scalar(axis: str, times: int) -> None:
    shown = pareto(fake.table(), axis=axis)
    assert (shown.points[f"bytes_{axis}"] == times * shown.points["state_resident"]).all()
    assert "bytes per sequence" in shown.picture().axes[0].get_xlabel()


def test_every_axis_has_a_unit_and_numbers() -> None:
    table = fake.table().query("lr == 0.003 and mixer == 'based'")
    rows = pareto(table.assign(decode_tokens_per_second=3e4, operations=2e12)).points
    for name, axis in AXES.items():
        ax = one_panel(rows, ["seq_len=32,num_kv_pairs=4"], axis=name).axes[0]
        assert f"({axis.unit})" in ax.get_xlabel().replace("\n", " ")
        assert any(tick.get_text() for tick in ax.get_xticklabels()), name


def test_measured_quantities_are_the_median_of_the_seeds_that_finished() -> None:
    table = fake.table()
    table["wall_seconds"] = 10.0 + table["seed"] ** 3
    table.loc[(table["mixer"] == "mamba") & (table["status"] == "diverged"), "wall_seconds"] = 1.0
    rows = pareto(table, axis="seconds").points
    assert rows.loc[rows["mixer"] != "mamba", "wall_seconds"].eq(11).all()
    assert rows.loc[rows["knobs"] == "d_state=16", "wall_seconds"].tolist() == [14.5]  # seed 0 diverged
