"""Recall against state tracking: a mark a mixer, the means over the tasks of each kind."""

import pandas as pd
from matplotlib.figure import Figure

from ..drawing import draw, labels, legend, page
from ..drawing.style import Style, crowded, looks
from ..statistics import scored
from ..statistics.ranks import complete
from ..statistics.seeds import summary
from .gallery import Picture, Study

RECALL = ("mqar", "mqar_update", "mqar_compositional", "mqar_unseen", "noisy_ar", "fuzzy_ar")
TRACKING = ("cum_parity", "mod_count", "word_problem")
ABOUT = ["series", "mixer", "label", "family", "knobs", "d_model", "state_resident", "causal", "exact_decode"]


def by_kind(task: str) -> int:
    """Return a key that sorts tasks of recall first, and of tracking last."""
    return (task in TRACKING) - (task in RECALL)


def figure(study: Study, style: Style) -> Picture:
    """Draw each mixer that was trained on all of these tasks at its two means."""
    rows = sides(study.table)
    recall, tracking = (rows[name].iloc[0].split() for name in ("recall_tasks", "tracking_tasks"))
    sentences = [
        f"Means over tasks and {rows['seeds'].max()} seeds, with their intervals. Recall: "
        f"{', '.join(recall)}. Tracking: {', '.join(tracking)}; the dotted line is chance."
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def sides(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a mixer: the mean of its tracking tasks (accuracy) and of its recall tasks (recall),
    each with an interval.  ValueError: no mixer has been trained on tasks of both kinds.
    """
    means, seeds = complete(scored.means(table)), scored.of_seeds(table)
    kinds = {"recall": RECALL, "tracking": TRACKING}
    have = {kind: [task for task in tasks if task in set(means["task"])] for kind, tasks in kinds.items()}
    if not all(have.values()):
        raise ValueError(
            f"plane needs mixers trained on tasks of recall ({', '.join(RECALL)}) and of tracking "
            f"({', '.join(TRACKING)}): sweep=atlas_block."
        )
    return pd.DataFrame([_mixer(of_mixer, seeds, have) for _, of_mixer in means.groupby("series")])


def _mixer(means: pd.DataFrame, seeds: pd.DataFrame, have: dict[str, list[str]]) -> dict[str, object]:
    """Return the row of one mixer; its seeds are averaged over the tasks of each kind."""
    of_mixer = seeds.loc[seeds["series"] == means["series"].iloc[0]]
    recall, tracking = (
        summary(of_mixer.loc[of_mixer["task"].isin(tasks)].groupby("seed")["accuracy"].mean().to_numpy(float))
        for tasks in have.values()
    )
    chance = means.loc[means["task"].isin(have["tracking"]), "chance"].mean()
    return (
        dict(means.iloc[0][ABOUT])
        | {"recall": recall["accuracy"], "recall_low": recall["low"], "recall_high": recall["high"]}
        | tracking
        | {f"{kind}_tasks": " ".join(tasks) for kind, tasks in have.items()}
        | {"chance": chance, "run_ids": " ".join(means["run_ids"])}
    )


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    made, axes, _ = page.multiples(1, style, most=1)
    ax, of_series = axes[0], looks(rows)
    draw.chance(ax, rows, "recall")
    for row in rows.to_dict("records"):
        look, across = of_series[row["series"]], [row["recall_low"], row["recall_high"]]
        ax.plot(across, [row["accuracy"]] * 2, color=look.colour, linewidth=1.0)
        draw.mark(ax, row, look, "recall")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    handles = legend.series_handles(rows, style.letters)
    page.finish(made, handles, caption, style, x_label="Recall", y_label="Tracking", bold=legend.bold(rows))
    if crowded(rows):
        labels.place_names(ax, rows.assign(on_frontier=True, lr_edge="", coverage=1.0), of_series, "recall")
    return made
