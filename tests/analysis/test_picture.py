"""What is in the picture, read back from the figure; that it is the same each time; that nothing collides."""

import io
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from analysis import figure, page
from analysis.axes import in_bytes
from analysis.draw import lines
from analysis.pareto import Pareto, pareto
from analysis.style import FAMILY_COLOURS, OTHER_COLOURS, looks
from tests.analysis import fake


@pytest.fixture(scope="module")
def shown() -> Pareto:
    return pareto(fake.table())


@pytest.fixture(scope="module")
def picture(shown: Pareto) -> Figure:
    return figure.one_panel(shown.points, list(shown.by_slice))


def legend_texts(picture: Figure) -> list[str]:
    return [text.get_text() for text in picture.legends[0].get_texts()]


def test_axes_name_unit_split_and_slices(picture: Figure) -> None:
    ax = picture.axes[0]
    assert ax.get_ylabel() == "Test accuracy, mean of 4 slices"
    assert "(seq_len, num_kv_pairs) = (32, 4), (64, 8), (64, 16), (128, 32)" in " ".join(picture.texts[0].get_text().split())
    assert "128 tokens (scalars per sequence" in ax.get_xlabel()
    assert ax.get_xscale() == "log"


def test_the_caption_says_how_the_numbers_were_made(shown: Pareto) -> None:
    text = figure.caption(shown.points)
    assert "Mean of 3 seeds with bootstrap 95 %" in text
    assert "best of 3 by mean validation accuracy" in text and "diverged seed counts as 0" in text
    alone = pareto(fake.table(seeds=1), where="lr == 0.003 and mixer == 'based'").points
    assert figure.caption(alone).endswith("One seed: no interval. One learning rate each, not tuned.")


def test_the_legend_explains_every_mark_that_occurs_and_no_other(picture: Figure) -> None:
    texts = " ".join(legend_texts(picture))
    marks = [
        "frontier",
        "not causal",
        "decode step",
        "within the window",
        "best lr",
        "seeds diverged",
        "another lr",
    ]
    assert all(mark in texts for mark in marks)
    plain = pareto(fake.table(), where="mixer == 'based'")
    texts = " ".join(legend_texts(figure.one_panel(plain.points, list(plain.by_slice))))
    assert "frontier" in texts and not any(mark in texts for mark in marks[1:])


def test_every_point_has_its_mark_and_hollow_ones_are_apart(picture: Figure, shown: Pareto) -> None:
    ax = picture.axes[0]
    at = {tuple(np.round(c.get_offsets()[0], 6)): c for c in ax.collections if len(c.get_offsets()) == 1}
    for row in shown.points.to_dict("records"):
        mark = at[(round(row["state_resident"], 6), round(row["accuracy"], 6))]
        hollow = np.allclose(mark.get_facecolor()[0], 1)
        assert hollow == (not row["causal"])


def test_diverged_seeds_are_counted_below_zero(picture: Figure) -> None:
    ax = picture.axes[0]
    below = [c.get_offsets()[0] for c in ax.collections if len(c.get_offsets()) and c.get_offsets()[0][1] < 0]
    assert sorted(x for x, _ in below) == [1152, 4864, 16600]
    assert [t.get_text() for t in ax.texts if "/3" in t.get_text()] == ["1/3"]


def test_labels_beside_markers_do_not_collide(picture: Figure) -> None:
    ax = picture.axes[0]
    boxes = [t.get_window_extent() for t in ax.texts if isinstance(t, Annotation)]
    assert len(boxes) > 8
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert all(ax.bbox.expanded(1.02, 1.02).contains(*corner) for box in boxes for corner in box.get_points())


def test_a_label_without_room_is_left_out(shown: Pareto) -> None:
    windows = shown.points[shown.points["mixer"] == "sliding_window"]
    crowd = windows.assign(state_resident=[1000, 1010, 1020, 1030], accuracy=0.5, low=0.4, high=0.6)
    ax = figure.one_panel(crowd, list(shown.by_slice)).axes[0]
    crowded = [t for t in ax.texts if t.get_text() in ("8", "16", "32", "64")]
    boxes = [t.get_window_extent() for t in crowded]
    assert len(boxes) > 0
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    centres = ax.transData.transform(crowd[["state_resident", "accuracy"]].to_numpy(float))
    assert not [box for box in boxes if any(box.contains(*centre) for centre in centres)]


@pytest.mark.parametrize("panels", [1, 4, 7])
def test_nothing_is_outside_the_page(shown: Pareto, panels: int) -> None:
    names = (list(shown.by_slice) * 2)[:panels]
    by_slice = {f"{name}{'' if i < 4 else i}": shown.by_slice[name] for i, name in enumerate(names)}
    picture = figure.one_panel(shown.points, names) if panels == 1 else figure.small_multiples(by_slice)
    page = picture.bbox
    texts = [*picture.texts, *picture.legends[0].get_texts(), *(ax.yaxis.label for ax in picture.axes)]
    texts += [ax.xaxis.label for ax in picture.axes]
    for text in texts:
        box = text.get_window_extent()
        if text.get_text():
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1, text.get_text()


def test_the_page_grows_with_the_legend(shown: Pareto) -> None:
    rows = shown.points.head(1)
    many = pd.concat([rows.assign(series=f"Series {i}") for i in range(60)], ignore_index=True)
    picture = figure.one_panel(many, list(shown.by_slice))
    legend, caption = picture.legends[0].get_window_extent(), picture.texts[0].get_window_extent()
    assert legend.y1 <= picture.bbox.y1 and legend.y0 >= caption.y1


def test_small_multiples_share_axes_and_markers(shown: Pareto) -> None:
    panels = figure.small_multiples(shown.by_slice).axes
    assert panels[0].get_title() == "seq_len, num_kv_pairs = 32, 4"
    assert len({ax.get_xlim() for ax in panels}) == len({ax.get_ylim() for ax in panels}) == 1


def test_lines_connect_one_knob_at_a_time(shown: Pareto) -> None:
    found = [(name, line["d_model"].tolist()) for name, line in lines(shown.points, "state_resident")]
    assert ("Based", [32, 32]) in found and ("Based", [64, 64, 64]) in found
    assert ("Linear attention", [32, 64]) in found
    assert all(
        line["state_resident"].is_monotonic_increasing for _, line in lines(shown.points, "state_resident")
    )


def test_one_colour_a_family_one_marker_a_series(shown: Pareto) -> None:
    found = looks(shown.points)
    assert len({look.marker for look in found.values()}) == len(found)
    assert len({*FAMILY_COLOURS.values(), *OTHER_COLOURS}) == len(FAMILY_COLOURS) + len(OTHER_COLOURS)
    assert found["Based"].colour == found["Linear attention"].colour == FAMILY_COLOURS["linear"]
    other = looks(shown.points.assign(family="memory"))
    assert other["Based"].colour not in FAMILY_COLOURS.values()


@pytest.mark.parametrize("axis", ["paper", "touched"])
def test_the_other_counts_of_state(shown: Pareto, axis: str) -> None:
    other = pareto(fake.table(), axis=axis)
    picture = figure.one_panel(other.points, list(other.by_slice), axis=axis)
    assert "what one decode step reads" not in legend_texts(picture)
    marks = {
        tuple(np.round(c.get_offsets()[0], 6)) for c in picture.axes[0].collections if len(c.get_offsets())
    }
    known = other.points.dropna(subset=[f"state_{axis}"])
    assert len(known) == (15 if axis == "paper" else 17)
    for row in known.to_dict("records"):
        assert (round(row[f"state_{axis}"], 6), round(row["accuracy"], 6)) in marks


def test_a_state_of_nothing_is_drawn_at_one(shown: Pareto) -> None:
    nothing = shown.points.assign(state_resident=0, state_touched=0)
    ax = figure.one_panel(nothing, list(shown.by_slice)).axes[0]
    assert ax.get_xlim()[0] < 1 < ax.get_xlim()[1]


def test_the_same_points_give_the_same_bytes_and_no_setting_of_matplotlib_moves(shown: Pareto) -> None:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        before = dict(matplotlib.rcParams)
        first, second = (figure.one_panel(shown.points, list(shown.by_slice)) for _ in range(2))
        assert page.png(first) == page.png(second)
        assert page.pdf(first) == page.pdf(second)
        assert b"CreationDate" not in page.pdf(first)
        assert dict(matplotlib.rcParams) == before


def test_csv_is_the_mean_and_each_slice_and_the_same_every_time(shown: Pareto) -> None:
    again = pareto(fake.table().sample(frac=1, random_state=2))
    assert shown.csv == again.csv
    rows = pd.read_csv(io.StringIO(shown.csv))
    assert rows["slice"].value_counts().to_dict() == dict.fromkeys(["mean of 4 slices", *shown.by_slice], 17)


def test_bytes_in_words() -> None:
    assert [in_bytes(n) for n in (512, 1024, 65536, 2**21)] == ["512 B", "1 KiB", "64 KiB", "2 MiB"]
