"""Write a card of each mixer: what it keeps, its points by slice, and its answers in other studies."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
import yaml

from zoo.config.about import about
from zoo.config.paths import CONF

from ..figures.effective_state import ABOVE, of_all_layers
from ..figures.gallery import Study
from ..figures.interference import ANOTHER, LATEST, OLDEST, shares_of
from ..figures.load_distance import in_numbers, measured
from ..figures.plane import by_kind
from ..figures.rounded import FORMATS, rounded
from ..pareto import Pareto
from ..records.cells import slices
from ..statistics import ranks, scored
from ..statistics.takeoff import soonest
from .markdown import head, in_words, row, starred
from .take_off import ends

SPEEDS = Path(__file__).parents[2] / "benchmarks" / "tables" / "mixers" / "train.csv"


def cards(
    study: Study, shown: Pareto, used: Mapping[str, float], elsewhere: Sequence[Study | None]
) -> Iterator[str]:
    """Yield the lines of all cards.

    used: point -> scalars of its state that matter.  elsewhere: the studies of many tasks, of take-off,
    of overwritten keys and of load by distance; None: it is not there.
    """
    points, order = shown.points, slices(study.table, "test")
    known = {"used": {point: f"{scalars:,.0f}" for point, scalars in used.items()}} | _rounded(study)
    ways = zip((_tasks, _begins, _overwritten, _far), elsewhere, strict=True)
    others = [*(way(other) for way, other in ways if other), _speeds()]
    for mixer, group in points.sort_values("state_resident").groupby("mixer"):
        yield from _keeps(str(mixer), group["label"].iloc[0])
        yield from _scores(group, shown.by_slice, order, known)
        lines = [each[str(mixer)] for each in others if str(mixer) in each]
        yield "\n".join(["", *lines, ""]) if lines else ""


def _keeps(mixer: str, label: str) -> Iterator[str]:
    texts = about(mixer, yaml.safe_load((CONF / "mixer" / f"{mixer}.yaml").read_text()))
    formula = " ".join(str(texts.get("state", "")).split())
    yield f"### {label}\n"
    yield f"`mixer={mixer}`. {texts.get('paper', '')}. Keeps {texts.get('keeps', '')}: `{formula}` a layer.\n"


def _scores(
    points: pd.DataFrame,
    by_slice: Mapping[str, pd.DataFrame],
    order: list[str],
    known: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    """Yield a table of a mixer's points by slice, with those columns of `known` that have any of them."""
    more = [name for name in known if known[name].keys() & set(points["point"])]
    pairs = (f"{name.rpartition('=')[2]} pairs" for name in order)
    yield from head(["settings", "state", *pairs, "all", *(FORMATS.get(name, name) for name in more)])
    alone = [by_slice[name].set_index("point")["accuracy"] for name in order]
    for point in points.to_dict("records"):
        words = [str(point["series"]).removeprefix(str(point["label"])).strip(", "), point["knobs"]]
        settings = ", ".join(filter(None, words)) or "-"
        scores = [f"{accuracy[point['point']]:.2f}" for accuracy in alone]
        answers = [known[name].get(point["point"], "") for name in more]
        yield row([settings, f"{point['state_resident']:,.0f}", *scores, starred(point), *answers])


def _overwritten(study: Study) -> dict[str, str]:
    """Return mixer -> lines on what it answers for the keys that were overwritten most often."""
    _, rows = shares_of(study)
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


def _speeds() -> dict[str, str]:
    """Return mixer -> a line on the time of a training step, from the table in benchmarks/."""
    if not SPEEDS.exists():
        return {}
    rows = pd.read_csv(SPEEDS).query("mixer != 'attention'").to_dict("records")
    of = "attention's ([one core, 256 tokens, both layers](../benchmarks/tables/mixers/train.md))"
    return {row["mixer"]: f"- A training step takes {row['of_attention']:.2f} times {of}." for row in rows}


def _tasks(study: Study) -> dict[str, str]:
    """Return mixer -> a line on its scores in each task of a complete block."""
    points, lines = ranks.complete(scored.means(study.table)), dict[str, str]()
    for mixer, group in points.groupby("mixer"):
        rows = sorted(group.to_dict("records"), key=lambda point: by_kind(point["task"]))
        where = f"[{len(rows)} tasks](#{len(rows)}-tasks-one-size), set as in `sweeps/atlas_block.yaml`"
        scores = ", ".join(f"{point['task']} {in_words(point, 2)}" for point in rows)
        lines[str(mixer)] = f"- {where}: {scores}."
    return lines


def _begins(study: Study) -> dict[str, str]:
    """Return mixer -> a line on how soon its cells take off at the learning rate that is soonest."""
    lines = dict[str, str]()
    for mixer, group in soonest(ends(study)).groupby("mixer"):
        low, mean, high = (f"{group['step'].agg(of):,.0f}" for of in ("min", "mean", "max"))
        steps = f"[Takes off](#how-soon-each-memory-begins) after {mean} steps in the mean ({low} to {high})"
        seeds = f"{sum(group['off'].tolist())} of {len(group)} seeds"
        lines[str(mixer)] = f"- {steps}, {seeds}, at lr {group['lr'].iloc[0]:g}, the soonest."
    return lines


def _far(study: Study) -> dict[str, str]:
    """Return mixer -> a line on how many pairs it holds, and how far back, trained on long rows."""
    rows, limits = measured(study)
    title = "[Trained on rows of up to 512 tokens](figures/atlas_load_distance/load_distance.png)"
    return {
        row["mixer"]: f"- {title}, it {', '.join(in_numbers(row, rows.loc[rows['point'] == row['point']]))}."
        for row in limits.to_dict("records")
    }


def _rounded(study: Study) -> dict[str, dict[str, str]]:
    """Return format -> point -> the point's accuracy with its state rounded to the format."""
    try:
        rows = rounded(study).set_index("point")
    except ValueError:  # there are no answers
        return {}
    return {
        name: {str(point): f"{accuracy:.2f}" for point, accuracy in rows[name].items()}
        for name in FORMATS
        if name in rows
    }


def used_scalars(study: Study) -> dict[str, float]:
    """Return point -> the used scalars of its state in all layers, the mean over slices, cuts and cells."""
    try:
        whole = of_all_layers(study, {"used": ABOVE})
    except ValueError:  # there are no answers
        return {}
    return {str(point): float(part["used"].to_numpy(float).mean()) for point, part in whole.groupby("point")}
