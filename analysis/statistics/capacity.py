"""Measure how many pairs are recalled, and how that grows with the state.

The capacity of a mixer at one setting is the number of pairs at which its accuracy falls below RECALL, read
off between the tested loads on a straight line over log2 of the pairs.  The loads may be slices of one cell
or cells of their own (one load a run).  Where even the smallest load is missed, or the largest is still
recalled, the capacity lies outside the measured range: it is censored, and takes no part in a fit.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..records import cells
from . import learning_rate
from .frontier import decodable
from .uncertainty import RESAMPLES, Floats, at_chosen, resampled

RECALL = 0.9
STATES = 3  # distinct states that a fit needs: a line always fits two
OCTAVES = 1.0  # the span that a fit needs, in log2 of the state: close states differ for other reasons
RESIDENT = "state_resident"
UNIT = ["series", "d_model", "knobs"]


@dataclass(frozen=True)
class _Unit:
    """One mixer at one setting.  log_pairs [K] rises; accuracy [1 + draws, K], the first row as measured."""

    name: tuple
    log_pairs: Floats
    log_states: Floats
    accuracy: Floats
    seeds: int


def capacities(table: pd.DataFrame, recall: float = RECALL, of_state: str = RESIDENT) -> pd.DataFrame:
    """Return a row per mixer and setting: UNIT, state, pairs, low, high, censored, loads, seeds.

    pairs: units of the task's load axis, recalled at `recall`; NaN if censored is "below" (the smallest load
    is missed) or "above" (the largest is recalled), else "".  low, high: 95 %, seeds drawn again; 0 and inf
    where draws are censored, NaN with one seed.  state: scalars, at that many pairs; where censored, at the
    nearest load.  table: of `zoo.results.load`, whose column `of_state` counts the state; ValueError as
    `cells.load_axis`.
    """
    rows = []
    for unit in _units(table, of_state):
        crossings = crossing(unit.log_pairs, unit.accuracy, recall)
        low, high = np.nan, np.nan
        if unit.seeds > 1:
            low, high = 2.0 ** np.quantile(crossings[1:], [0.025, 0.975], method="nearest")
        rows.append(
            dict(zip(UNIT, unit.name, strict=True))
            | {"state": 2.0 ** _states(unit, crossings[0])}
            | {"pairs": 2.0 ** crossings[0] if np.isfinite(crossings[0]) else np.nan}
            | {"low": low, "high": high}
            | {"censored": {-np.inf: "below", np.inf: "above"}.get(float(crossings[0]), "")}
            | {"loads": len(unit.log_pairs), "seeds": unit.seeds}
        )
    columns = [*UNIT, "state", "pairs", "low", "high", "censored", "loads", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def fits(table: pd.DataFrame, recall: float = RECALL, of_state: str = RESIDENT) -> pd.DataFrame:
    """Return a row per series: the fit pairs = factor * state^exponent, by least squares in logarithms.

    of_state: the column of `zoo.results.load` that counts the state. exponent, low, high (95 %, seeds drawn
    again; NaN where no cell has two seeds), factor, states (that take part), censored (that do not), drawn
    (the share of draws with enough states for a fit). NaN with fewer than STATES distinct states, or states
    that span less than OCTAVES.
    """
    rows = []
    units = _units(table, of_state)
    for series in dict.fromkeys(unit.name[0] for unit in units):
        of = [unit for unit in units if unit.name[0] == series]
        pairs = np.stack([crossing(unit.log_pairs, unit.accuracy, recall) for unit in of], axis=1)
        states = np.stack([_states(unit, pairs[:, i]) for i, unit in enumerate(of)], axis=1)
        slopes, starts = lines(states, pairs)
        drawn = slopes[1:][np.isfinite(slopes[1:])]
        several = len(drawn) and max(unit.seeds for unit in of) > 1
        low, high = np.quantile(drawn, [0.025, 0.975]) if several else (np.nan, np.nan)
        used = np.isfinite(pairs[0]) & np.isfinite(states[0])
        rows.append(
            {"series": series, "exponent": slopes[0], "low": low, "high": high, "factor": 2.0 ** starts[0]}
            | {"states": len(set(states[0][used].tolist())), "censored": int((~used).sum())}
            | {"drawn": len(drawn) / RESAMPLES}
        )
    columns = ["series", "exponent", "low", "high", "factor", "states", "censored", "drawn"]
    return pd.DataFrame(rows, columns=columns)


def crossing(log_pairs: Floats, accuracy: Floats, recall: float) -> Floats:
    """Return log2 of the pairs where each row of accuracy [..., K] first falls below recall.

    -inf where the smallest load is already below it, inf where no load is.
    """
    missed = accuracy < recall
    place = missed.argmax(axis=-1)
    previous = np.maximum(place - 1, 0)
    before, after = (np.take_along_axis(accuracy, i[..., None], axis=-1)[..., 0] for i in (previous, place))
    fall = np.where(before > after, before - after, 1.0)
    left, right = log_pairs[previous], log_pairs[place]
    crossings = left + (right - left) * (before - recall) / fall
    crossings = np.where(missed[..., 0], -np.inf, crossings)
    return np.where(missed.any(axis=-1), crossings, np.inf)


def lines(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """Return (slope, start) of the least-squares line of each row of ys [R, N] over xs, without values that
    are not finite; NaN with fewer than STATES distinct xs, or xs that span less than OCTAVES.
    """
    used = np.isfinite(ys) & np.isfinite(xs)
    count = used.sum(axis=1)
    xs, ys = np.where(used, xs, 0.0), np.where(used, ys, 0.0)
    centre = [values.sum(axis=1) / np.maximum(count, 1) for values in (xs, ys)]
    dx, dy = (np.where(used, v - c[:, None], 0.0) for v, c in zip((xs, ys), centre, strict=True))
    ordered = np.sort(np.where(used, xs, np.nan), axis=1)  # nan last, and nan > 0 is False
    distinct = (np.diff(ordered, axis=1, prepend=-np.inf) > 0).sum(axis=1) >= STATES
    wide = np.where(used, xs, -np.inf).max(axis=1) - np.where(used, xs, np.inf).min(axis=1) >= OCTAVES
    enough = distinct & wide
    slope = np.where(enough, (dx * dy).sum(axis=1) / np.where(enough, (dx**2).sum(axis=1), 1.0), np.nan)
    return slope, centre[1] - slope * centre[0]


def _units(table: pd.DataFrame, of_state: str) -> list[_Unit]:
    axis = cells.load_axis(table)
    table = cells.named(table)
    table = table.loc[decodable(table)]
    units: dict[tuple, list] = defaultdict(list)
    for load in cells.loads(table).values():
        for name, *scores in _scored(load, axis, of_state):
            units[name].append(scores)
    return [_unit(name, scores) for name, scores in sorted(units.items())]


def _scored(load: pd.DataFrame, axis: str, of_state: str) -> Iterator[tuple]:
    """Yield (unit, pairs, state, accuracy [1 + draws], seeds) of each point and test slice of one load."""
    chosen = learning_rate.choose(load)
    slices = cells.slices(load, "test")
    pairs = dict(zip(load["slice"], load[axis].astype(float), strict=True))
    each = [at_chosen(load, chosen, "test", [x]).set_index(["point", "seed"])["accuracy"] for x in slices]
    wide = pd.concat(each, axis=1, keys=slices)
    about = {row["point"]: row for row in load.drop_duplicates("point").to_dict("records")}
    rng = np.random.default_rng(0)
    for point, scores in wide.groupby("point"):
        measured = scores.to_numpy(float)
        accuracy = np.vstack([measured.mean(axis=0), resampled(measured, rng)])
        unit = tuple(about[point][name] for name in UNIT)
        for i, name in enumerate(slices):
            yield unit, pairs[name], about[point][of_state], accuracy[:, i], len(scores)


def _unit(name: tuple, scores: list) -> _Unit:
    pairs = sorted({of[0] for of in scores})
    same = [[of for of in scores if of[0] == count] for count in pairs]
    return _Unit(
        name=name,
        log_pairs=np.log2(pairs),
        log_states=np.array([np.log2(np.mean([of[1] for of in group])) for group in same]),
        accuracy=np.stack([np.mean([of[2] for of in group], axis=0) for group in same], axis=1),
        seeds=max(of[3] for of in scores),
    )


def _states(unit: _Unit, log_pairs: Floats) -> Floats:
    at = np.clip(log_pairs, unit.log_pairs[0], unit.log_pairs[-1])
    return np.interp(at, unit.log_pairs, unit.log_states)
