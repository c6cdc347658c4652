"""Write and read the evaluations of a trained cell: evaluations/NAME-HASH.csv beside its record.

The first line is a JSON comment (the question, the weights, the place), and a table follows.  HASH covers the
settings and the weights, so that answers of earlier weights are never taken for those of the present ones.
"""

import hashlib
import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired

import pandas as pd
from pydantic import with_config
from typing_extensions import TypedDict

from zoo.common.foreign import all_visible, visible
from zoo.config.settings import flat
from zoo.results.atomic import replacing
from zoo.results.checked import mistake
from zoo.results.home import Home, shown, text
from zoo.results.reading import Reading
from zoo.results.record import STRICT, MadeFrom, RunId

FOLDER = "evaluations"
NAME = r"[\w-]{1,60}"  # of an evaluation
SCHEMA = 1  # of the first line
OTHERS = "hf-"  # the beginning of the folder name of a model that is no cell
Settings = Mapping[str, Any]


@with_config(STRICT)
class Head(TypedDict):
    """The first line of the file.

    settings: `evaluation` and, where it is not the cell's own, `task`.
    made_from: what the questions hold that no setting says (`zoo.tasks.base.Task`).
    """

    schema: int
    evaluation: str
    run_id: RunId
    weights: str
    settings: dict[str, Any]
    made_from: NotRequired[MadeFrom]


def place(folder: Path, name: str, settings: Settings, weights: str) -> Path:
    """Return the path of this evaluation of these weights, whether the file exists or not."""
    key = json.dumps([settings, weights], sort_keys=True)
    return folder / FOLDER / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.csv"


def write(path: Path, head: Mapping[str, Any], table: pd.DataFrame) -> None:
    """Write an evaluation's table in one move.  DiskFull: it does not fit."""
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as file:
        file.write(f"# {json.dumps({'schema': SCHEMA} | dict(head))}\n")
        table.to_csv(file, index=False, lineterminator="\n")


def load_evaluations(results: str | Path, evaluation: str) -> pd.DataFrame:
    """Return the answers of all finished cells to one evaluation, tidy; join with `load` by run_id.

    Columns: run_id, mixer; evaluation.<key>, task.<key>: the settings of the question (task: only where it is
    not the cell's own); made_from.<key>: SHA-256 and versions of its text; then the columns of the evaluation
    (conf/evaluation/NAME.yaml names its class).
    A damaged file is left out with a warning, a file of earlier weights silently.
    ValueError, one line with the fix: no such folder, or no answers in it.
    """
    reading, wrong = Reading(results), []
    frames = []
    for folder, record in reading:
        for head, table in _tables(folder, evaluation, wrong):
            if (head["run_id"], head["weights"]) == (record["run_id"], record.get("weights")):
                settings = dict(flat("", head["settings"] | {"made_from": head.get("made_from", {})}))
                about = {"run_id": record["run_id"], "mixer": record["mixer"], **settings}
                frames.append(pd.DataFrame(about, table.index).join(table))
    reading.warn(wrong)
    if not frames:
        ask = f"python -m zoo.evaluate {shown(reading.results)} evaluation={visible(evaluation)}"
        raise ValueError(f"{shown(reading.results)} holds no answers to {visible(evaluation)}: run `{ask}`.")
    return pd.concat(frames, ignore_index=True)


def load_of_others(results: Path, evaluation: str) -> pd.DataFrame:
    """Return the answers of models that are no cells: run_id (the folder, hf-NAME) and the table's columns.

    Empty: there are none, or `results` is an archive.  A damaged file is left out with a warning.
    """
    frames, wrong = [pd.DataFrame()], []
    for folder in sorted(results.glob(f"{OTHERS}*")) if results.is_dir() else []:
        tables = _tables(folder, evaluation, wrong)
        frames += [table.assign(run_id=visible(folder.name)) for _, table in tables]
    for line in wrong:
        warnings.warn(f"left out: {line}", stacklevel=2)
    return pd.concat(frames, ignore_index=True)


def _tables(folder: Home, evaluation: str, wrong: list[str]) -> Iterator[tuple[Head, pd.DataFrame]]:
    """Yield the cell's answers to an evaluation; add a line to `wrong` for each file that is damaged."""
    for name in names(folder, evaluation):
        try:
            yield read(folder / FOLDER, name)
        except ValueError as error:
            wrong.append(str(error))


def names(folder: Home, evaluation: str | None = None) -> list[str]:
    """Return the file names of a cell's answers to one or all evaluations; none if the folder is a link."""
    form = re.compile(rf"{re.escape(evaluation) if evaluation else NAME}-[0-9a-f]{{12}}\.csv")
    evaluations = folder / FOLDER
    if not evaluations.is_dir() or (isinstance(evaluations, Path) and evaluations.is_symlink()):
        return []
    if isinstance(evaluations, Path):
        there = [path.name for path in evaluations.iterdir()]
    else:  # zipfile.Path.iterdir would make a path of each file of the archive, again for each cell
        at = evaluations.at
        there = [name.removeprefix(at) for name in evaluations.root.namelist() if name.startswith(at)]
    return sorted(filter(form.fullmatch, there))


def read(folder: Home, name: str) -> tuple[Head, pd.DataFrame]:
    """Read one table of an evaluation.  ValueError, one line: it is damaged or foreign."""
    where = shown(folder / name)
    first, _, rest = text(folder, name).partition("\n")
    try:
        head = all_visible(json.loads(first.removeprefix("# ")))
        table = pd.read_csv(io.StringIO(rest))
    except (ValueError, RecursionError) as error:
        raise ValueError(_damaged(where, visible(str(error))[:120])) from None
    if wrong := mistake(head, Head) or (f"its schema is not {SCHEMA}" if head["schema"] != SCHEMA else None):
        raise ValueError(_damaged(where, wrong))
    texts = table.select_dtypes(exclude=["number", "bool"])
    words = {name: texts[name].map(visible, na_action="ignore") for name in texts}
    return head, table.assign(**words).rename(columns=visible)


def _damaged(where: str, why: str) -> str:
    return f"{where} is no table of an evaluation ({why}): delete it, and ask again."
