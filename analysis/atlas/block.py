"""Write how mixers do over the tasks of a complete block: scores, ranks, steps, and tests of them."""

from collections.abc import Iterator

import pandas as pd

from ..figures.gallery import Study
from ..figures.plane import by_kind
from ..records import cells
from ..statistics import ranks, scored
from ..statistics.paired import LEVEL
from ..statistics.takeoff import takeoffs
from . import asked
from .markdown import head, in_words, row

ALL = "attention"  # it keeps everything, so it takes no part in ranks
TESTED = 11  # mixers of fixed state in the block: with fewer the study still runs, and is not judged
OF_BLOCK = """\
Does recall say what else a memory can do? [Findings](findings.md#ten-tasks-at-one-size-atlas_block), and
[recall against tracking](figures/atlas_block/plane.png). A score is the mean of test slices and seeds, at the
better of two learning rates. The state is the largest of all tasks. Ranks are among mixers of fixed state."""

OF_STEPS = """
**How soon it is learned.** Training steps until half the cells have taken off, that is, have come half way
from chance to 1 on a validation slice; of {count} cells each, at both learning rates. In brackets is how many
have by the end, where that is not all; a dash: fewer than half."""


def block(study: Study) -> Iterator[str]:
    """Yield the lines on how mixers rank over the tasks of a complete block, and which tasks rank alike."""
    everything = scored.means(study.table)
    points = ranks.complete(everything)
    scores = ranks.block(points)
    scores = scores.reindex(columns=sorted(scores, key=by_kind))
    rivals = scores.drop(index=points.loc[points["mixer"] == ALL, "series"].unique())
    order = ranks.mean_ranks(rivals)
    rows = points.sort_values("state_resident").to_dict("records")
    words = {(point["series"], point["task"]): in_words(point, 2) for point in rows}
    states = {point["series"]: f"{point['state_resident']:,.0f}" for point in rows}  # the last is the largest
    chance = {point["task"]: f"{point['chance']:.2f}" for point in rows}
    yield f"\n## {len(scores.columns)} tasks, one size\n\n{OF_BLOCK}\n"
    yield from head(["mixer", "state", *scores.columns, "mean rank"])
    names = [*scores.index.difference(rivals.index), *order.index]
    for name in names:
        rank = f"{order[name]:.2f}" if name in order.index else ""
        yield row([str(name), states[name], *(words[name, task] for task in scores), rank])
    yield row(["chance", "", *(chance[task] for task in scores), ""])
    yield from _learned(study, names, [*scores])
    yield from asked.lost(study, order.index, [*scores])
    yield from asked.used(study, order.index, scores)
    yield from asked.held(study, order.index)
    yield from asked.longer(study, order.index, [*scores])
    unfinished = sorted({*everything["series"]} - {*points["series"]})
    if unfinished:
        yield f"\nBegun, and not in the table: {', '.join(unfinished)}."
    if len(rivals) < TESTED:
        yield "\nThe other mixers of `sweeps/atlas_block.yaml` are still to be trained; tests wait for them."
        return
    yield from _tests(scores, rivals)


def _learned(study: Study, names: list[str], tasks: list[str]) -> Iterator[str]:
    """Yield the lines on the steps after which half the cells of each mixer have taken off, for each task."""
    table = cells.named(study.table)
    frames = [takeoffs(study.metrics, rows).assign(task=task) for task, rows in table.groupby("task")]
    about = table.drop_duplicates("run_id")[["run_id", "series"]]
    groups = pd.concat(frames).merge(about, on="run_id").groupby(["series", "task"])
    steps = {key: _half_off(group) for key, group in groups}
    yield f"{OF_STEPS.format(count=groups.size().max())}\n"
    yield from head(["mixer", *tasks])
    for name in names:
        yield row([str(name), *(steps.get((name, task), "") for task in tasks)])


def _half_off(group: pd.DataFrame) -> str:
    """Return in words when half of these cells had taken off, and how many have, where it is not all."""
    steps = sorted(group.loc[group["off"], "step"])
    half = f"{steps[(len(group) - 1) // 2]:,}" if 2 * len(steps) >= len(group) else "-"
    return half if len(steps) in (0, len(group)) else f"{half} ({len(steps)})"


def _tests(scores: pd.DataFrame, rivals: pd.DataFrame) -> Iterator[str]:
    """Yield the lines on whether the rivals differ over the tasks, and which tasks rank all mixers alike."""
    chi, p = ranks.friedman(rivals)
    pairs = ranks.pairs(rivals).to_dict("records")
    apart = [f"{pair['a']} and {pair['b']}" for pair in pairs if pair["p_holm"] <= LEVEL]
    yield f"""\nFriedman's chi squared is {chi:.1f},
p {p:.2g}. Of {len(pairs)} pairs, these differ by Wilcoxon's signed-rank test with Holm's correction:
{", ".join(apart) or "none"}.

Spearman's rank correlation between two tasks over all mixers, with a 95 % bootstrap interval over mixers:
"""
    yield from head(["", *scores.columns[1:]])
    for task, rows in ranks.between_tasks(scores).groupby("a", sort=False):
        alike = [
            f"{row['rho']:.2f} ({row['low']:.2f} to {row['high']:.2f})" for row in rows.to_dict("records")
        ]
        yield row([str(task), *[""] * (len(scores.columns) - 1 - len(alike)), *alike])
