"""Recall against the number of pairs: a panel a mixer, a line a setting, darker with more state."""

from analysis.drawing.by_series import Axis, draw
from analysis.drawing.figure import caption
from analysis.drawing.style import Style
from analysis.figures.gallery import Picture, Study
from analysis.statistics import scored

AXIS = Axis("num_kv_pairs", "Key-value pairs")


def figure(study: Study, style: Style) -> Picture:
    """Each slice by itself, be it of one cell or of cells trained on one load each."""
    rows = scored.alone(study.table)
    keys = scored.slice_keys(study.table)
    if AXIS.column not in keys:
        raise ValueError(f"These slices have no {AXIS.column} (but {', '.join(keys)}): there is no load.")
    slices = rows.drop_duplicates("slice").sort_values(AXIS.column).to_dict("records")
    if len({row[AXIS.column] for row in slices}) < len(slices):
        raise ValueError(
            "A number of pairs was asked for at several lengths, and one line cannot show both: heat_map can."
        )
    pairs = ", ".join(f"({row[AXIS.column]}, {row['seq_len']})" for row in slices)
    says = [f"(Pairs, tokens): {pairs}. {caption(rows)} Darker: more state."]
    return Picture(draw(rows, AXIS, "Test accuracy", says[0], style), rows, says, {})
