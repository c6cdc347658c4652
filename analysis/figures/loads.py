"""Recall against the load (such as pairs): a panel a mixer, a line a setting, darker with more state."""

from ..drawing.by_series import Axis, draw
from ..drawing.figure import caption
from ..drawing.style import Style
from ..records import cells
from ..statistics import scored
from .gallery import Picture, Study


def figure(study: Study, style: Style) -> Picture:
    """Draw each slice by itself, for cells tested on several loads or for cells trained on one load each."""
    rows = scored.alone(study.table)
    axis = cells.load_axis(study.table)
    slices = rows.drop_duplicates("slice").sort_values(axis).to_dict("records")
    if len({row[axis] for row in slices}) < len(slices):
        raise ValueError(f"A {axis} was asked for at several lengths, which no line can show: heat_map can.")
    lengths = ", ".join(f"({row[axis]}, {row['seq_len']})" for row in slices)
    what = "Pairs" if axis == cells.PAIRS else cells.axis_in_words(axis)
    sentences = [f"({what}, tokens): {lengths}. {caption(rows)} Darker: more state."]
    base = 2 if slices[0][axis] > 0 else None
    drawn = draw(rows, Axis(axis, cells.axis_in_words(axis), base), "Test accuracy", sentences[0], style)
    return Picture(drawn, rows, sentences, {})
