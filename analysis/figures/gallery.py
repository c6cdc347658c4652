"""List all pictures, and the pictures that belong to each sweep.

A picture is a module of analysis/figures with a function `figure(study, style) -> Picture`; its name is the
module's, and the first line of the module's docstring says what it shows.  A module with TASKS refuses cells
of all other tasks.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from zoo.common.terminal import say
from zoo.results.evaluations import load_evaluations, load_of_others
from zoo.results.store import Reading, curves, groups

from .. import figures, output
from ..drawing import page
from ..drawing.style import SCREEN, Style, rc
from ..records import readable
from ..records.readable import as_csv
from ..statistics import scored

RECALL = ("frontier", "heat_map")
# The pictures of a sweep, and of its toy form mini_NAME if mini_NAME has no line of its own.
PICTURES = {
    "demo": ("frontier", "heat_map", "curves"),
    "precision": ("curves",),
    "based_fig2": ("based_fig2", "frontier", "heat_map", "distance", "lr_profiles", "curves"),
    "based_fig2_cpu": ("based_fig2",),
    "based_fig3": ("based_fig3", "frontier", "curves"),
    "based_fig8": ("based_fig8", "frontier", "distance"),
    "zoology_fig2": ("zoology_fig2",),
    "se_attn_ablations": ("se_attn_ablations", "frontier", "distance"),
    # sweeps for our own questions
    "mini_se_attn_selection": ("variants",),
    **{
        f"mini_adapt{of}": ("variants",)
        for of in ("", "_recipes", "_shift", "_span", "_swap", "_learned", "_rivals")
    },
    "mini_adapt_text": ("ar_gap",),
    "state_scaling": ("state_scaling", "loads", "heat_map"),
    "atlas_capacity": ("state_scaling", "heat_map", "effective_state"),
    "atlas_capacity_longer": ("state_scaling", "heat_map"),
    "atlas_frontier": ("mixers", "frontier", "frontier_each", "rounded"),
    "atlas_block": ("heat_map", "plane", "effective_state"),
    "atlas_takeoff": ("takeoff",),  # cells end once they know enough: their accuracies say when they ended
    "zoology_update": ("frontier", "distance"),
    "mini_forgetting": ("forgetting_curve", "ar_gap"),
    "mini_forgetting_mqar": ("heat_map", "speed"),
    "extrapolation": ("extrapolation",),
    **dict.fromkeys(("mini_load_distance", "atlas_load_distance"), ("load_distance",)),
    "atlas_keys": ("outer_product", "heat_map"),
    "atlas_interference": ("interference", "heat_map"),
    "mini_state_bits": ("frontier", "state_bits", "effective_state"),
    "mini_state_bits_long": ("frontier", "state_bits"),
    **{f"mini_state_{of}": ("state_bits",) for of in ("codec", "threshold", "threshold_again", "bits_text")},
    "ruler_lite": ("ruler", "frontier"),
    "mini_ruler_lite": ("ruler",),  # nothing is learned: no frontier
    **dict.fromkeys(("mini_stack", "mini_brackets", "mini_mano"), ("frontier", "heat_map", "takeoff")),
    # all points have one state, or there are many tasks
    **dict.fromkeys(("atlas_heads", "atlas_lightning", "atlas_many_keys_longer"), ("heat_map",)),
    **dict.fromkeys(("mini_orthogonal", "mini_mad"), ("heat_map",)),
    **dict.fromkeys(("zoology_compositional", "zoology_continuous", "atlas_many_keys"), RECALL),
    **dict.fromkeys(("mini_palindrome", "mini_regbench", "mini_depo"), RECALL),
    **dict.fromkeys(("circuits", "copying", "jrt_disjoint", "mad", "state_tracking"), RECALL),
}
MINI = "mini_"
PART = {  # the other cells are intermediate, shorter, or read with full attention what these trained
    "based_fig2_cpu": "mixer not in ['hyena', 'h3'] or steps > 6000",
    **dict.fromkeys(("mini_adapt", "mini_adapt_text"), "lr == 0.003"),
    "mini_adapt_learned": "mixer.top_k == 16",
    "atlas_block/effective_state": "task == 'mqar'",  # this picture shows one task
    "atlas_capacity/effective_state": "seed == 0 and 1000 < state_mixer_paper < 1400",  # and this one size
}


@dataclass(frozen=True)
class Study:
    """The results of a sweep, in the tables that pictures need.

    home: a results folder or an archive of one.  where: a condition of `analysis.records.where` on the
    columns of `zoo.results.load`; cells for which it does not hold are left out.  "": all cells, or the PART
    of a study; if some cells started from others, the cells that started from none are left out.
    """

    home: Path
    where: str = ""

    @property
    def name(self) -> str:
        return self.home.stem if self.home.suffix == ".zip" else self.home.resolve().name

    @cached_property
    def all(self) -> readable.Readable:
        """Return every record of home that can be read, and a line for each of the others."""
        return readable.readable(self.home)

    @property
    def table(self) -> pd.DataFrame:
        """Return the table of `zoo.results.load` for the records that can be read, each cell once."""
        return self._read[0]

    @property
    def unread(self) -> list[str]:
        """Return a line for each record that cannot be read, and for cells that are there twice."""
        return self._read[1]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        readable_records, lost = curves(Reading(self.home))
        self.unread.extend(lost)
        return readable_records

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Return the table of `zoo.results.load_groups` for the records that can be read."""
        return groups(self.all.records)

    def evaluations(self, name: str) -> pd.DataFrame:
        """Return the trained cells' answers to an evaluation."""
        return load_evaluations(self.home, name)

    def of_others(self, name: str) -> pd.DataFrame:
        """Return the answers to an evaluation of models that are no cells."""
        return load_of_others(self.home, name)

    @cached_property
    def layers(self) -> dict[str, str]:
        """Return, by run_id, the classes of a cell's layers, in words."""
        return {record["run_id"]: ", ".join(record.get("layers", [])) for record in self.all.records}

    @cached_property
    def _read(self) -> tuple[pd.DataFrame, list[str]]:
        part = self.all.table
        if not self.where and "start" in part:
            part = part.loc[part["start"].notna()]
        table, twice = readable.once(readable.filtered(part, self.where or PART.get(self.name, "")))
        return table, self.all.wrong + self.all.notes + twice


@dataclass(frozen=True)
class Picture:
    """A figure with its data.  rows: the numbers behind the figure.

    sentences: what the picture shows; the first sentence is the caption.  tables: more numbers, by the suffix
    of their file."""

    figure: Figure
    rows: pd.DataFrame
    sentences: list[str]
    tables: dict[str, pd.DataFrame]


def names() -> list[str]:
    """Return the names of all pictures, sorted."""
    here = __name__.rpartition(".")[2]
    modules = (module.name for module in pkgutil.iter_modules(figures.__path__))
    return sorted(name for name in modules if name[0] != "_" and name != here)


def find(name: str) -> ModuleType:
    """Return the module of a picture.  ValueError: there is none; the message names similar ones."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        guess = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}."
        raise ValueError(f"No picture {name!r}: {guess}")
    return importlib.import_module(f"{figures.__name__}.{name}")


def about(name: str) -> str:
    """Return one line on what a picture shows."""
    return (find(name).__doc__ or "").strip().splitlines()[0]


def pictures_of(sweep: str) -> tuple[str, ...]:
    """Return the pictures of a sweep or of its toy form.  ValueError: it has none."""
    known = PICTURES.get(sweep) or PICTURES.get(sweep.removeprefix(MINI))
    if known is None:
        near = difflib.get_close_matches(sweep.removeprefix(MINI), PICTURES, n=2) or list(PICTURES)
        raise ValueError(
            f"No picture belongs to a sweep {sweep!r} (the name of the folder or archive): "
            f"rename it to that of its sweep ({', '.join(near)}), or ask for pictures by name."
        )
    return known


def draw(name: str, study: Study, style: Style) -> Picture:
    """Make a picture.  ValueError, one line: these results cannot show it."""
    module = find(name)
    if not study.where and (part := PART.get(f"{study.name}/{name}")):
        study = replace(study, where=part)
    _check_task(name, module, study)
    with matplotlib.rc_context(rc(style)):
        picture = module.figure(study, style)
    return replace(picture, rows=with_run_ids(picture.rows, study))


def with_run_ids(rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the rows with a column run_ids, the cells behind each point, so that its records can be found.

    Rows that already name their cells stay as they are; models that are no cells get no run_ids.
    """
    keys = [key for key in (["point"], ["series", "d_model", "knobs"]) if set(key) <= set(rows)]
    if {"run_id", "run_ids"} & set(rows) or not keys:
        return rows
    try:
        known = scored.means(study.table)
    except ValueError:  # only models that are no cells
        return rows
    cells = known.groupby(keys[0], as_index=False)["run_ids"].agg(" ".join)
    return rows.merge(cells, on=keys[0], how="left")


def _check_task(name: str, module: ModuleType, study: Study) -> None:
    """Raise ValueError if the picture has a list of TASKS and the study has cells of another task."""
    known = getattr(module, "TASKS", None)
    others = sorted(set(study.table["task"]) - set(known)) if known else []
    if known and others:
        raise ValueError(
            f"{name} stands beside what is published on {', '.join(known)}, and these cells are of task "
            f"{' and '.join(map(repr, others))}: python -m analysis.figures frontier draws them."
        )


def write(picture: Picture, stem: Path, style: Style, *, print_too: bool = True) -> list[Path]:
    """Write stem.png, stem.pdf for print, stem.csv, stem_SUFFIX.csv for each further table, and stem.txt with
    the sentences; return the paths."""
    written = {ending: text.encode() for ending, text in texts(picture).items()}
    return page.save(picture.figure, stem, style, print_too=print_too) + [
        output.write(stem.with_name(stem.name + ending), content) for ending, content in written.items()
    ]


def command(make: Callable[[], Picture], stem: Path) -> int:
    """Write one picture and print its files' names, or print one line on the error; return the exit code."""
    try:
        paths = write(make(), stem, SCREEN, print_too=False)
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    for path in paths:
        print(f"wrote {path}")
    return 0


def texts(picture: Picture) -> dict[str, str]:
    """Return the text files by the end of their names: the numbers behind the picture, and its sentences."""
    tables = {"": picture.rows} | {f"_{name}": table for name, table in picture.tables.items()}
    return {f"{suffix}.csv": as_csv(table) for suffix, table in tables.items()} | {
        ".txt": "\n".join(picture.sentences) + "\n"
    }
