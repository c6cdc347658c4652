"""Write the page of the atlas: what each mixer recalls at each state size, and other facts about it.

    python -m analysis.atlas docs/results > docs/atlas.md

The folder holds archives: atlas_frontier.zip, whose cells make the page, and optionally atlas_block.zip and
atlas_interference.zip.  A mixer that is in none of the archives is not on the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from zoo.common.terminal import command, command_parser, say
from zoo.config.about import about
from zoo.config.paths import CONF
from zoo.results.reading import left_out

from .figures.effective_state import ABOVE
from .figures.gallery import Study
from .figures.interference import ANOTHER, LATEST, OLDEST, shares_of
from .figures.plane import by_kind
from .figures.rounded import FORMATS, KNOWN, MIDDLE, RECURRENT, rounded
from .pareto import pareto
from .records.cells import slices, slices_in_words
from .state_bits.answers import EXACT
from .statistics import ranks, scored
from .statistics.chance import at_chance
from .statistics.paired import LEVEL
from .statistics.seeds import apart

ALL = "attention"  # it keeps everything, so it takes no part in ranks
MORE = {"used": "used"} | FORMATS  # columns of a card, if there are answers for them
SIZES = (500, 1600, 5000)  # approximate state sizes in scalars
TESTED = 11  # mixers of fixed state in the block: with fewer the study still runs, and is not judged
NEAR = 1.3  # a point counts to a size if the larger of the two is at most this many times the smaller
HEAD = """# The atlas: what each memory can do

This page compares {count} mixers of the zoo at equal state size. All are trained alike on one task: recall of
unrelated key-value pairs (MQAR) at toy scale, on rows of 2 to 16 pairs, tested on up to 64. Every mixer
follows the same short convolution of three taps. There are {points} points and {cells} cells;
`sweeps/atlas_frontier.yaml` gives the settings and what was expected.

**Which memory for which need?** [Findings, in short](findings.md#in-short) answers by need. The order on this
page is for one need, and for a task with 79 keys. A memory with many key dimensions can keep 79 keys as
[a table](findings.md#a-table-of-few-keys-atlas_keys). With 1,023 keys the order is
[much the same](findings.md#the-atlas-with-1023-keys-atlas_many_keys).

![Accuracy of every mixer, one line each](figures/atlas_frontier/mixers.png)

[The same points against state size](figures/atlas_frontier/frontier.png), with the frontier and the upper
bound for any model.

How to read the tables:

- **Accuracy** is the {slices}, over {seeds} seeds, at the better of two learning rates. Where seeds differ by
  more than 0.3, each seed is given and no mean.
- **The number in brackets** is the state size: the scalars that the model keeps of 256 tokens.
- **A dash** means no better than a guess among the row's values; such a point is not on the frontier.
- **A star** means that no smaller state is better.
- **Used** (in the tables by mixer) is how many scalars of the state matter
  ([effective_state](evaluation.md#ask-it-something-new)).
- **8, 4 and 3 bits** are the accuracy with the state rounded after every token
  ([findings](findings.md#the-same-states-in-few-bits)).

`python -m analysis.atlas docs/results` makes this page from the archives in [results](results).
"""

OF_BLOCK = """\
Does recall say what else a memory can do? [Findings](findings.md#ten-tasks-at-one-size-atlas_block), and
[recall against tracking](figures/atlas_block/plane.png). A score is the mean of test slices and seeds, at the
better of two learning rates. The state is the largest of all tasks. Ranks are among mixers of fixed state."""

OF_BITS = """
**The same in 4 bits.** Accuracy lost with the state rounded after every token, one scale for each key channel
([how](bits.md)); of one cell each, on the slices where it has 0.5 or more in fp32 (blank: there is none)."""


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.atlas", __doc__)
    parser.add_argument("archives", type=Path, help="the folder of archives, docs/results")
    options = parser.parse_args(arguments)
    try:
        study = Study(options.archives / "atlas_frontier.zip")
        print("\n".join(page(study, options.archives)))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    return left_out(study.all.wrong, study.all.notes)


def page(study: Study, archives: Path) -> Iterator[str]:
    """Yield the lines of the page."""
    table, shown = study.table, pareto(study.table)
    order, points = slices(table, "test"), shown.points
    yield HEAD.format(
        count=points["mixer"].nunique(), points=len(points), cells=table["run_id"].nunique(),
        slices=slices_in_words(order), seeds=points["seeds"].max(),
    )  # fmt: skip
    yield "## Every memory at three sizes\n"
    yield markdown_row(["mixer", "family", *(f"about {size:,} scalars" for size in SIZES), "other sizes"])
    yield markdown_row(["---"] * (3 + len(SIZES)))
    for row in sorted(_at_sizes(points), key=lambda row: row["best"], reverse=True):
        yield markdown_row(row["fields"])
    yield from _block(archives)
    rounded_to, used, overwritten = _bits(study), _used(study), _overwritten(archives)
    yield from _use_and_recall(points, used)
    known = {
        str(point): rounded_to.get(point, {}) | ({"used": f"{used[point]:,.0f}"} if point in used else {})
        for point in points["point"]
    }
    yield "\n## Each memory\n"
    for mixer, group in points.sort_values("state_resident").groupby("mixer"):
        yield from _card(str(mixer), group, shown.by_slice, order, known, overwritten)


def _at_sizes(points: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for _, group in points.groupby("mixer"):
        rows = group.sort_values("state_resident").to_dict("records")
        fields = [rows[0]["label"], rows[0]["family"]]
        fields += [", ".join(_in_words(row) for row in rows if _size(row) == size) for size in SIZES]
        fields.append(", ".join(_in_words(row) for row in rows if _size(row) is None))
        middle = [row for row in rows if _size(row) == SIZES[1]] or rows
        yield {"best": max(row["accuracy"] for row in middle), "fields": fields}


def _size(row: Mapping[str, Any]) -> int | None:
    """Return the size of SIZES that a point counts to; None: it counts to none."""
    state = row["state_resident"]
    return next((size for size in SIZES if size / NEAR <= state <= size * NEAR), None)


def _in_words(row: Mapping[str, Any]) -> str:
    return f"{_score(row, 3)}{'*' if row['on_frontier'] else ''} ({row['state_resident']:,.0f})"


def _score(row: Mapping[str, Any], digits: int) -> str:
    """Return a point's accuracy in words: "-" at chance; each seed, and no mean, where they are apart."""
    if at_chance(row["accuracy"], row["chance"]):
        return "-"
    seeds = sorted(apart(row["seed_accuracies"]))
    return "/".join(f"{seed:.2f}" for seed in seeds) if seeds else f"{row['accuracy']:.{digits}f}"


def _card(
    mixer: str,
    points: pd.DataFrame,
    by_slice: Mapping[str, pd.DataFrame],
    order: list[str],
    known: Mapping[str, Mapping[str, str]],
    overwritten: Mapping[str, str],
) -> Iterator[str]:
    """Yield the lines on a mixer: what it keeps, its points by slice, and answers of other studies."""
    texts = about(mixer, yaml.safe_load((CONF / "mixer" / f"{mixer}.yaml").read_text()))
    label = points["label"].iloc[0]
    yield f"### {label}\n"
    formula = " ".join(str(texts.get("state", "")).split())
    yield f"`mixer={mixer}`. {texts.get('paper', '')}. Keeps {texts.get('keeps', '')}: `{formula}` a layer.\n"
    more = [name for name in MORE if any(name in known[point] for point in points["point"])]
    heads = (f"{name.rpartition('=')[2]} pairs" for name in order)
    yield from _table(["settings", "state", *heads, "all", *(MORE[name] for name in more)])
    alone = {name: by_slice[name].set_index("point")["accuracy"] for name in order}
    for row in points.to_dict("records"):
        scores = [f"{alone[name][row['point']]:.2f}" for name in order]
        words = [str(row["series"]).removeprefix(str(label)).strip(", "), row["knobs"]]
        settings = ", ".join(filter(None, words))
        yield markdown_row(
            [settings or "-", f"{row['state_resident']:,.0f}", *scores, _in_words(row).partition(" ")[0]]
            + [known[row["point"]].get(name, "") for name in more]
        )
    yield f"\n{overwritten.get(mixer, '')}\n"


def _block(archives: Path) -> Iterator[str]:
    """Yield the lines on how mixers rank over the tasks of a complete block, and which tasks rank alike."""
    home = archives / "atlas_block.zip"
    if not home.exists():
        return
    study = Study(home)
    everything = scored.means(study.table)
    points = ranks.complete(everything)
    scores = ranks.block(points)
    scores = scores.reindex(columns=sorted(scores, key=by_kind))
    rivals = scores.drop(index=points.loc[points["mixer"] == ALL, "series"].unique())
    order = ranks.mean_ranks(rivals)
    rows = points.sort_values("state_resident").to_dict("records")
    words = {(row["series"], row["task"]): _score(row, 2) for row in rows}
    states = {row["series"]: f"{row['state_resident']:,.0f}" for row in rows}  # the largest, which is last
    chance = {row["task"]: f"{row['chance']:.2f}" for row in rows}
    yield f"\n## {len(scores.columns)} tasks, one size\n\n{OF_BLOCK}\n"
    yield from _table(["mixer", "state", *scores.columns, "mean rank"])
    for name in [*scores.index.difference(rivals.index), *order.index]:
        rank = f"{order[name]:.1f}" if name in order.index else ""
        yield markdown_row([str(name), states[name], *(words[name, task] for task in scores), rank])
    yield markdown_row(["chance", "", *(chance[task] for task in scores), ""])
    yield from _lost(study, order, [*scores])
    unfinished = sorted({*everything["series"]} - {*points["series"]})
    if unfinished:
        yield f"\nBegun, and not in the table: {', '.join(unfinished)}."
    if len(rivals) < TESTED:
        yield "\nThe other mixers of `sweeps/atlas_block.yaml` are still to be trained; tests wait for them."
        return
    yield from _tests(scores, rivals)


def _lost(study: Study, order: pd.Series, tasks: list[str]) -> Iterator[str]:
    """Yield the lines on the accuracy that 4 bits cost each mixer of a block, of each task that it knows."""
    try:
        rows = rounded(study, least=KNOWN).dropna(subset="int4")
    except (ValueError, KeyError):  # there are no answers
        return
    rows = rows.merge(study.table[["point", "task"]].drop_duplicates(), on="point")
    rows["lost"] = rows[EXACT] - rows["int4"]
    lost = rows.pivot_table(index="series", columns="task", values="lost").reindex(order.index, columns=tasks)
    lost.loc["median"] = lost.median()
    yield f"{OF_BITS}\n"
    yield from _table(["mixer", *tasks])
    for name, losses in zip(lost.index, lost.to_numpy(float), strict=True):
        yield markdown_row([str(name), *("" if np.isnan(loss) else f"{loss:.2f}" for loss in losses)])


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
    yield from _table(["", *scores.columns[1:]])
    for task, rows in ranks.between_tasks(scores).groupby("a", sort=False):
        alike = [
            f"{row['rho']:.2f} ({row['low']:.2f} to {row['high']:.2f})" for row in rows.to_dict("records")
        ]
        yield markdown_row([str(task), *[""] * (len(scores.columns) - 1 - len(alike)), *alike])


def _table(head: Sequence[str]) -> Iterator[str]:
    """Yield the first two lines of a table, in which all columns but the first are numbers."""
    yield markdown_row([*head])
    yield markdown_row(["---", *["--:"] * (len(head) - 1)])


def _overwritten(archives: Path) -> dict[str, str]:
    """Return mixer -> lines on what it answers for the keys that were overwritten most often."""
    home = archives / "atlas_interference.zip"
    if not home.exists():
        return {}
    _, rows = shares_of(Study(home))
    most = rows.loc[rows["overwrites"] == rows["overwrites"].max()]
    times = most["overwrites"].iloc[0]
    lines: dict[str, str] = {}
    for series, group in most.groupby("series"):
        share = group.set_index("what")["accuracy"]
        line = (
            f"- {series}, asked for a key that was overwritten {times} times, answers with its "
            f"last value in {share[LATEST]:.2f} of cases, its first in {share[OLDEST]:.2f}, and a value of "
            f"another key in {share[ANOTHER]:.2f}."
        )
        mixer = group["mixer"].iloc[0]
        lines[mixer] = "\n".join(filter(None, [lines.get(mixer), line]))
    return lines


def _bits(study: Study) -> dict[str, dict[str, str]]:
    """Return point -> format -> the point's accuracy with its state rounded to the format."""
    try:
        rows = rounded(study).set_index("point")
    except ValueError:  # there are no answers
        return {}
    known = [name for name in FORMATS if name in rows]
    return {str(point): {name: f"{rows.at[point, name]:.2f}" for name in known} for point in rows.index}


def _used(study: Study) -> dict[str, float]:
    """Return point -> the used scalars of its state in all layers, the mean over its cells with answers."""
    try:
        given = study.evaluations("effective_state")
    except ValueError:  # there are no answers
        return {}
    cells = given.groupby("run_id", as_index=False).agg(used=(ABOVE, "sum"))
    joined = cells.merge(study.table.drop_duplicates("run_id")[["run_id", "point"]], on="run_id")
    return {
        str(point): float(np.mean(group["used"].to_numpy(float))) for point, group in joined.groupby("point")
    }


def _use_and_recall(points: pd.DataFrame, used: Mapping[str, float]) -> Iterator[str]:
    """Yield whether recurrent mixers of one state size recall more if they use more of their state."""
    answered = points["point"].isin(list(used)) & points["state_resident"].between(*MIDDLE)
    rows = points.loc[answered & points["family"].isin(RECURRENT)]
    if len(rows) < ranks.FEWEST:
        return
    of = [used[point] for point in rows["point"]]
    x, y = ([np.array([value]) for value in column] for column in (of, rows["accuracy"]))
    rho, low, high = ranks.rank_correlation(x, y)
    yield f"""
**Use and recall.** {len(rows)} recurrent mixers of about 1,600 scalars use {min(of):,.0f} to {max(of):,.0f}
scalars of their state ([effective_state](evaluation.md#ask-it-something-new)). Spearman's correlation with
accuracy is {rho:.2f} (95 % bootstrap over mixers: {low:.2f} to {high:.2f}).
"""


def markdown_row(fields: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(fields)} |"


if __name__ == "__main__":
    command(main)
