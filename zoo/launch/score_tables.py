"""Show the scores of cells: in a table for a sweep, a table for one cell, or a line."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from zoo.common.terminal import fit, print_whole, slim
from zoo.results.record import APART

WORDS = 44  # characters of a mixer's settings in a line of a table
MOST_ROWS = 200  # of a sweep's table; nobody reads ten thousand, and printing them takes a while
ELSEWHERE = ("optim.", "task.", "model.", "block", "loss", "trainer.precision")  # words beside the mixer's
SORTED_BY = ("mixer", "d_model", "state_resident", "lr", "seed")

Record = dict[str, Any]
Slice = tuple[tuple[str, Any], ...]  # the items of its dict
Apart = frozenset[tuple[str, str, str]]  # mixer, setting, value


def print_results(screen: Console, records: Sequence[Record]) -> None:
    """Print a table for each task, and another for its cells that start from other cells.  A table that is
    wider than the screen is split by slices."""
    tasks: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        tasks[record.get("task"), record.get("start") is None].append(record)
    for (task, _), rows in tasks.items():
        slices, name = _slices(rows), f"task={task}" if len({task for task, _ in tasks}) > 1 else ""
        wide, size = [result_table(rows, name=name)], len(slices)
        parts = [result_table(rows, narrow=True, name=name)]
        while size > 1 and not (fit(screen, wide) or fit(screen, parts)):
            size = -(-size // 2)
            cuts = [slices[i : i + size] for i in range(0, len(slices), size)]
            wide = parts = [result_table(rows, True, name, cut) for cut in cuts]
        for layouts in zip(wide, parts, strict=True):
            print_whole(screen, *layouts)


def result_table(
    records: Iterable[Record], narrow: bool = False, name: str = "", only: Sequence[Slice] | None = None
) -> Table:
    """Make a table of accuracies: a row per point and learning rate, a column per test slice.

    Several seeds are averaged.  Rows beyond MOST_ROWS are left out.  d_model and lr move to the title where
    all rows share them.  narrow: each row in two lines.  name: goes into the title.  only: these slices, with
    headings over several lines, and only the records that have one of them.
    """
    groups: dict[Any, list[Record]] = defaultdict(list)
    chosen = [record for record in records if only is None or not set(only).isdisjoint(_slices([record]))]
    for record in sorted(chosen, key=lambda r: tuple(r[key] for key in SORTED_BY)):
        groups[record["point"], record["lr"]].append(record)
    rows, more = list(groups.values())[:MOST_ROWS], len(groups) - MOST_ROWS
    several = any(len(group) > 1 for group in rows)
    gap, apart = "\n" if narrow else " ", _apart(rows)
    columns = {
        "mixer": lambda g: f"{g[0]['mixer']}{gap}{named(g[0], apart)}".strip(),
        "d_model": lambda g: str(g[0]["d_model"]),
        "state": lambda g: str(g[0]["state_resident"]),
        "lr": lambda g: f"{g[0]['lr']:g}",
        "seeds" if several else "seed": _seeds if several else lambda g: str(g[0]["seed"]),
    }
    texts = {name: [text(group) for group in rows] for name, text in columns.items()}
    same = [name for name in ("d_model", "lr") if len(set(texts[name])) == 1]
    slices = only or _slices(record for group in rows for record in group)
    all_share = [name] * bool(name) + [f"{column}={texts[column][0]}" for column in same]
    table = slim(_title(all_share, slices, several))
    shown = [column for column in columns if column not in same]
    for column in (*shown, *(_values(s).replace("/", "\n") if only else _values(s) for s in slices)):
        left = column == "mixer"
        table.add_column(
            column, justify="left" if left else "right", no_wrap=not left, max_width=WORDS * left or None
        )
    for i, group in enumerate(rows):
        table.add_row(*(texts[column][i] for column in shown), *(_score(group, s, gap) for s in slices))
    chances = [_chance(chosen, slice_) for slice_ in slices]
    if any(chances):
        table.add_row("chance", *[""] * (len(shown) - 1), *chances, style="dim")
    if more > 0:
        table.caption = f"and {more} more: python -m zoo collect writes them all"
    return table


def slice_table(record: Record) -> Table:
    """Make the table of one cell: every slice of every split, with its counts."""
    entries = record["slices"]
    keys = list(dict.fromkeys(key for entry in entries for key in entry["slice"]))
    bounded = any(entry["coverage"] < 1 for entry in entries)
    table = slim("accuracy by slice")
    known = any(entry.get("chance") is not None for entry in entries)
    columns = ["accuracy", *["chance"] * known, "loss", "answers", "rows", *["coverage"] * bounded]
    for column in ["split", *keys, *columns]:
        table.add_column(column, justify="left" if column == "split" else "right", no_wrap=True)
    for entry in entries:
        which = (str(entry["slice"].get(key, "")) for key in keys)
        loss = "-" if entry["loss"] is None else f"{entry['loss']:.3f}"
        scores = percent(entry["accuracy"]), *[percent(entry.get("chance"))] * known
        counts = loss, str(entry["answers"]), str(entry["rows"])
        table.add_row(entry["split"], *which, *scores, *counts, *[percent(entry["coverage"])] * bounded)
    return table


def percent(value: float | None) -> str:
    """Write a share as a percentage with one digit; "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}%"


def summary(record: Record) -> str:
    """Return the accuracy of each test slice, with its coverage if below 1:
    "test seq_len/num_kv_pairs 32/4: 98.9%, 64/8: 87.3%"."""
    parts, keys = [], None
    for entry in _tests(record):
        named = _slice(entry)
        name = "" if _keys(named) == keys else f"{_keys(named)} "
        bounded = "" if entry["coverage"] == 1 else f" (coverage {percent(entry['coverage'])})"
        parts.append(f"{name}{_values(named)}: {percent(entry['accuracy'])}{bounded}")
        keys = _keys(named)
    return f"test {', '.join(parts)}"


def named(record: Record, apart: Apart = frozenset()) -> str:
    """Return the mixer's knob settings, and those that set it `apart` from others: "window=16"."""
    settings, knob = _settings(record), record.get("knob") or ()
    keys = [key for key in knob if settings.get(key) is not None]
    keys += [k for k in settings if k not in knob and (record["mixer"], k, str(settings[k])) in apart]
    return " ".join(f"{key}={settings[key]}" for key in keys)


def _apart(rows: Sequence[Sequence[Record]]) -> Apart:
    """Return the settings that at most half of a mixer's rows have and that all seeds of a row share."""
    of = Counter(row[0]["mixer"] for row in rows)
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        per_seed = [{key: str(value) for key, value in _settings(record).items()} for record in row]
        same = set.intersection(*(set(settings.items()) for settings in per_seed))
        counts.update((row[0]["mixer"], key, value) for key, value in same)
    return frozenset(what for what, times in counts.items() if 2 * times <= of[what[0]])


def _settings(record: Record) -> dict[str, Any]:
    """Return the settings of mixer, start and adaptation and the words of ELSEWHERE, without d_model."""
    adaptation, start = record.get("adaptation") or {}, record.get("start")
    recipe = {"adaptation": adaptation.get("recipe"), "rank": adaptation.get("rank")}
    recipe["start"] = start and start.rpartition("-")[0]
    words = (word.lstrip("+").partition("=")[::2] for word in record.get("overrides", ()))
    others = {key: value for key, value in words if key.startswith(ELSEWHERE)}
    recipe = {key: value for key, value in recipe.items() if value is not None}
    settings = record["mixer_settings"] | recipe | others
    return {key: value for key, value in settings.items() if key != "d_model" and not key.startswith("_")}


def _title(same: Sequence[str], slices: Sequence[Slice], several: bool) -> str:
    spread = f": mean over seeds ± standard deviation (range if > {APART:.0%} apart)" if several else ""
    every = f"\nall with: {' '.join(same)}" if same else ""
    keys = " or ".join(dict.fromkeys(map(_keys, slices)))
    return f"accuracy on the test split, by slice ({keys}){spread}{every}"


def _slices(records: Iterable[Record]) -> list[Slice]:
    """Return the slices of the records' tests, each once."""
    return list(dict.fromkeys(_slice(entry) for record in records for entry in _tests(record)))


def _tests(record: Record) -> list[dict[str, Any]]:
    return [entry for entry in record["slices"] if entry["split"] == "test"]


def _slice(entry: dict[str, Any]) -> Slice:
    return tuple(entry["slice"].items())


def _keys(slice_: Slice) -> str:
    return "/".join(key for key, _ in slice_)


def _values(slice_: Slice) -> str:
    return "/".join(str(value) for _, value in slice_)


def _seeds(group: Sequence[Record]) -> str:
    diverged = sum(record["status"] == "diverged" for record in group)
    return f"{len(group)}" + (f", {diverged} diverged" if diverged else "")


def _chance(records: Iterable[Record], slice_: Slice) -> str:
    """Return the accuracy of guessing at a slice; "" where no record has it, as older ones do not."""
    entries = (entry for record in records for entry in _tests(record) if _slice(entry) == slice_)
    known = [chance for entry in entries if (chance := entry.get("chance")) is not None]
    return " to ".join(dict.fromkeys(percent(of(known)) for of in (min, max))) if known else ""


def _score(group: Sequence[Record], slice_: Slice, gap: str) -> str:
    """Write the mean and spread over the seeds that did not diverge, or their range alone if it is wide."""
    sound = [record for record in group if record["status"] != "diverged"]
    entries = [entry for record in sound for entry in _tests(record) if _slice(entry) == slice_]
    scores = [entry["accuracy"] for entry in entries]
    if not scores:
        return "-" if sound else "diverged"
    if max(scores) - min(scores) > APART:
        return f"{percent(min(scores))}{gap}to {percent(max(scores))}"
    return percent(mean(scores)) + (f"{gap}±{100 * stdev(scores):.1f}" if len(scores) > 1 else "")
