"""What was aimed at on a card, what has been measured, and whether that is enough.

Only rows at the sizes of the target count: a smaller run leaves a target as not measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.gpu.commands import Place, read_csv
from benchmarks.gpu.machine import footer
from benchmarks.gpu.parts import LONG, long_mixers
from zoo.bench.op_subject import Subject
from zoo.bench.op_subjects import subjects
from zoo.bench.span_subjects import WHOLE, WINDOW

Row = dict[str, str]
FIGURE_MINUTES = 30


@dataclass(frozen=True)
class Target:
    """measured: the number that is held against `bound`; None: not measured."""

    name: str
    bound: float
    unit: str
    measured: Callable[[Place], float | None]
    at_most: bool = False

    def row(self, place: Place) -> tuple[str, str, str, str]:
        found = self.measured(place) if place.device == "cuda" else None
        aim = f"{'at most' if self.at_most else 'at least'} {self.bound:g} {self.unit}"
        if found is None:
            return self.name, aim, "not measured", "no"
        met = found <= self.bound if self.at_most else found >= self.bound
        return self.name, aim, f"{found:.3g} {self.unit}", "yes" if met else "no"


def write_targets(place: Place) -> str:
    """targets.md, and its text."""
    lines = ["| target | aim | measured | met |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(target.row(place))} |" for target in TARGETS]
    text = "\n".join([*lines, "", footer(place, "targets")])
    place.out.mkdir(parents=True, exist_ok=True)
    (place.out / "targets.md").write_text(text + "\n")
    return text


# ops -------------------------------------------------------------------------------------------------------


def _subject(name: str) -> Subject:
    """At its real size."""
    return next(subject for subject in subjects(small=False) if subject.name == name)


def _forward(place: Place, subject: Subject) -> dict[str, Row]:
    """Implementation -> its row."""
    rows = read_csv(place.folder("ops") / subject.op / "ops.csv")
    found = [row for row in rows if row["mixer"] == subject.name and row["sizes"].endswith(" forward")]
    return {row["implementation"]: row for row in found if row["sizes"].startswith(subject.words + " ")}


def _seconds(rows: dict[str, Row], wanted: Callable[[str], bool]) -> float | None:
    """The fastest of those."""
    found = [float(row["seconds"]) for name, row in rows.items() if wanted(name)]
    return min(found, default=None)


def _ours(name: str) -> bool:
    return name == "triton" or name.endswith("no state: triton")


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def taylor_against_fla(place: Place) -> float | None:
    rows = _forward(place, _subject("taylor prefill"))
    return _over(_seconds(rows, lambda name: name.endswith("fla")), _seconds(rows, _ours))


def over_floor(name: str) -> Callable[[Place], float | None]:
    def measured(place: Place) -> float | None:
        rows = _forward(place, _subject(name))
        shares = [float(row["floor_share"]) for how, row in rows.items() if _ours(how)]
        return 1 / max(shares) if shares else None

    return measured


def attention_over_spans(place: Place) -> float | None:
    """Everything's best kernel over ours."""
    rows = _forward(place, _subject("se_attention"))
    return _over(_seconds(rows, lambda name: name.startswith(WHOLE)), _seconds(rows, _ours))


def spans_over_window(place: Place) -> float | None:
    rows = _forward(place, _subject("se_attention"))
    return _over(_seconds(rows, _ours), _seconds(rows, lambda name: name.startswith(WINDOW)))


# layers, populations, the figure ---------------------------------------------------------------------------


def _long(place: Place, mixer: str) -> float | None:
    """Seconds of the layer at LONG tokens, by its fastest kernels."""
    rows = read_csv(place.folder("layers") / f"long_{mixer}" / "prefill.csv")
    own = [row for row in rows if f"seq_len={LONG} " in row["sizes"] and row["mixer"] == mixer]
    own = [row for row in own if not row["implementation"].startswith("softmax")]
    return min((float(row["seconds"]) for row in own), default=None)


def layers_attention_over_spans(place: Place) -> float | None:
    whole, _, spans = (_long(place, mixer) for mixer in long_mixers())
    return _over(whole, spans)


def layers_spans_over_window(place: Place) -> float | None:
    _, window, spans = (_long(place, mixer) for mixer in long_mixers())
    return _over(spans, window)


def population_against_one(place: Place) -> float | None:
    """Of the mixer that gains least, its best population: member-steps a second over one cell's alone."""
    return min(_gains(place).values(), default=None)


def _gains(place: Place) -> dict[str, float]:
    """Mixer -> of its best population."""
    rows = read_csv(place.folder("steps") / "population.csv")
    alone = {row["mixer"]: _speed(row) for row in rows if row["implementation"] == row["alternative"]}
    others = [row for row in rows if row["implementation"].startswith("population of")]
    return {
        mixer: max(_speed(row) for row in others if row["mixer"] == mixer) / speed
        for mixer, speed in alone.items()
        if any(row["mixer"] == mixer for row in others)
    }


def _speed(row: Row) -> float:
    return float(row["units_per_second"])


def figure_minutes(place: Place) -> float | None:
    """Only where the whole figure was trained."""
    runs = [
        row for row in read_csv(place.out / "commands.csv") if (row["part"], row["name"]) == ("sweep", "run")
    ]
    whole = [float(row["seconds"]) / 60 for row in runs if row["note"] == "" and row["code"] == "0"]
    return median(whole) if whole and not place.small else None


TARGETS = [
    Target("taylor prefill, against fla's fused kernel", 2, "times as fast", taylor_against_fla),
    Target("taylor prefill", 2, "times its floor", over_floor("taylor prefill"), at_most=True),
    Target("taylor decode", 1.5, "times its floor", over_floor("taylor decode"), at_most=True),
    Target(
        "sliding-window decode",
        1.5,
        "times its floor",
        over_floor("window decode"),
        at_most=True,
    ),
    Target("SE-Attn at 65,536, blocks given, against attention", 5, "times as fast", attention_over_spans),
    Target("SE-Attn at 65,536, blocks given", 1.3, "times a window's time", spans_over_window, at_most=True),
    Target("SE-Attn's whole layer, against attention's", 5, "times as fast", layers_attention_over_spans),
    Target("SE-Attn's whole layer", 1.3, "times a window's time", layers_spans_over_window, at_most=True),
    Target("populations, against one cell at a time", 10, "times the cells an hour", population_against_one),
    Target("Figure 2 on one card", FIGURE_MINUTES, "minutes", figure_minutes, at_most=True),
]
