"""Share of seeds whose training has taken off, against training steps, and how many never take off."""

import pandas as pd

from ..drawing import page
from ..drawing.curves import DASHES
from ..drawing.style import Style, looks
from ..records import cells
from ..statistics.points import in_words
from ..statistics.takeoff import compared, share_off, soonest, takeoffs
from .gallery import Picture, Study

ABOUT = ["run_id", "point", "seed", "mixer", "family", "series", "d_model", "knobs", "lr"]
ABOUT += ["causal", "exact_decode"]
LIFT = 0.006  # of each line over the one before it


def figure(study: Study, style: Style) -> Picture:
    """Draw a staircase a point, at the rate that takes off soonest; the table compares every two of them."""
    table = cells.identify(study.table)
    rows = soonest(takeoffs(study.metrics, table).merge(table.drop_duplicates("run_id")[ABOUT], on="run_id"))
    widths = len(set(rows["d_model"])) > 1
    rows["name"] = [in_words(row, widths) for row in rows.to_dict("records")]
    if rows.empty:
        raise ValueError("No cell was validated while it trained: there is nothing that could take off.")
    sentences = [
        "Share of cells that have taken off, that is, were half way from chance to 1 on a validation slice "
        "(Kaplan-Meier; ticks: cells that ended before taking off), at the learning rate that is soonest. "
        f"Each line is drawn {LIFT:g} above the one before it, so that equal lines can be told apart.",
        *(
            f"{name}: {sum(group['off'].tolist())} of {len(group)} cells have taken off."
            for name, group in rows.groupby("name")
        ),
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {"log_rank": compared(rows, "name")})


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> page.Figure:
    made, (ax,), _ = page.multiples(1, style, most=1)
    style_of, handles = looks(rows), []
    start, end = min(rows["step"].tolist()) / 2, max(rows["step"].tolist())
    for number, (name, group) in enumerate(rows.groupby("name")):
        look = style_of[group["series"].tolist()[0]]
        lift = LIFT * number
        dash = DASHES[sum(handle.get_color() == look.colour for handle in handles) % len(DASHES)]
        steps, shares = share_off(group)
        xs, ys = [start, *steps, end], [lift, *(shares + lift), shares[-1] + lift]
        line = {"color": look.colour, "linewidth": 1.2, "linestyle": dash, "label": str(name)}
        handles += ax.step(xs, ys, where="post", **line)
        ended = group.loc[~group["off"], "step"]
        ax.plot(ended, [shares[-1] + lift] * len(ended), "|", color=look.colour, markersize=9)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(-0.03, 1.08)
    page.finish(made, handles, caption, style, x_label="Training step", y_label="Share that has taken off")
    return made
