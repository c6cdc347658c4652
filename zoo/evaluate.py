"""Run a new evaluation on trained cells: `python -m zoo.evaluate RUNS evaluation=NAME`."""

import os
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from zipfile import Path as ZipPath

import yaml
from hydra.errors import HydraException

from zoo.common.checks import one_line, reason
from zoo.common.foreign import visible
from zoo.common.table_text import TERMINAL, add_forms, as_text, of_frame
from zoo.common.terminal import FAILED, INTERRUPTED, OK, USAGE, command, command_parser, say
from zoo.config.cell import Cell
from zoo.config.paths import yamls_of
from zoo.config.targets import make
from zoo.config.words import first_line
from zoo.launch.question import Question, question
from zoo.results import evaluations, store
from zoo.results.atomic import DiskFull
from zoo.results.environment import machine
from zoo.results.home import WEIGHTS, is_cell, meant, opened, shown
from zoo.results.reading import INCOMPLETE, left_out
from zoo.results.source import other_source, targets, texts

HELP = """Ask trained cells something new, without training them again.

  python -m zoo.evaluate results/demo evaluation=scores \\
      'task.test=[{seq_len: 128, num_kv_pairs: 8, num_examples: 256}]'
  python -m zoo.evaluate results/demo/based-* evaluation=distance
  python -m zoo.evaluate results/demo evaluation=speed evaluation.seq_len=1024

evaluation=NAME        conf/evaluation/NAME.yaml: NAMES
evaluation.KEY=VALUE   a setting of it
hf=FOLDER              in place of RUNS: a Hugging Face causal language model (evaluation=forgetting_curve)
task=NAME              ask about conf/task/NAME.yaml, with the cell's seed; else: about its own task
task.KEY=VALUE         a setting of that task

RUNS are single runs, results folders, folders that hold such, or archives with weights, each of which is
unpacked into the folder of its name first.
The answers lie beside each record, in evaluations/; zoo.results.load_evaluations reads them.  What is there
is not asked again.  Cells that diverged or are not finished are passed over.
Exit code: 0; 1 when a cell could not be asked; 2 when the command cannot be run, and nothing was; 3 when a
record is damaged, and all others were asked; 130."""
HF = "hf="
WEIGHTLESS = "train them with keep_weights=true rerun=true, or name the runs that have weights"
MOST_ROWS = 60  # most rows of answers printed on a terminal


@dataclass(frozen=True)
class Inquiry:
    """A question to one cell.  task: settings; None: the cell's own task.  path: the file of the answer."""

    folder: Path
    record: dict[str, Any]
    cell: Cell
    task: dict[str, Any] | None
    head: dict[str, Any]
    path: Path


def main(argv: Sequence[str] | None = None) -> int:
    """Ask all cells; return 0, 1 if a cell could not be asked, 2 if the command is wrong, 3 if a record is
    damaged, or 130 if interrupted."""
    args = _parser().parse_intermixed_args(argv)
    models = [Path(word.removeprefix(HF)) for word in args.words if word.startswith(HF)]
    runs = [Path(word) for word in args.words if _is_path(word)]
    words = [word for word in args.words if not _is_path(word) and not word.startswith(HF)]
    try:
        asking = question(words, args.config_dir)
        if models:
            return _of_hugging_face(models, runs[0] if runs else Path("results"), asking)
        records, damaged = _records(runs)
        inquiries, lost = _inquiries(records, asking, [*args.trust, *_named(args.config_dir)])
        if note := other_source([(one.record, one.cell.config) for one in inquiries]):
            print(f"note: {note}; the answers are those of the code as it is now", file=sys.stderr)
        return _answer(inquiries, lost, asking, args.form) or (INCOMPLETE if damaged else OK)
    except HydraException as error:
        return say(first_line(error), USAGE)
    except (ValueError, yaml.YAMLError) as error:
        return say("\n".join(visible(line) for line in str(error).splitlines()), USAGE)
    except DiskFull as error:
        return say(str(error), FAILED)
    except KeyboardInterrupt:
        return say("interrupted; the same command goes on where this one stopped", INTERRUPTED)


def _parser() -> ArgumentParser:
    parser = command_parser("zoo.evaluate", HELP.replace("NAMES", ", ".join(yamls_of("evaluation"))))
    parser.add_argument("words", nargs="+", metavar="RUNS or KEY=VALUE", help="folders, runs, archives")
    add_forms(parser)
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="your evaluation/ and task/")
    trust = "import parts of it where a record names them; also what the yamls of --config-dir name"
    parser.add_argument("--trust", action="append", default=[], metavar="MODULE", help=trust)
    return parser


def _named(config_dir: Path | None) -> list[str]:
    """Return the modules that the yamls of --config-dir name, which are thereby trusted."""
    paths = config_dir.rglob("*.yaml") if config_dir else ()
    yamls = (yaml.safe_load(path.read_text()) for path in paths if path.is_file())
    return [name.rpartition(".")[0] for content in yamls for name in targets(content)]


def _is_path(word: str) -> bool:
    """Return whether the word is a path: a run's name may hold a "=", and then the path must exist."""
    return not word.startswith(HF) and ("=" not in word or os.path.exists(word))


def _of_hugging_face(models: Sequence[Path], results: Path, asking: Question) -> int:
    """Ask models in folders of Hugging Face files, and write tables to RESULTS/hf-NAME/evaluations."""
    from zoo.evaluation import huggingface
    from zoo.evaluation.base import Evaluation
    from zoo.evaluation.forgetting.evaluation import ForgettingCurve
    from zoo.evaluation.forgetting.length import in_words

    evaluation = make(asking.settings, Evaluation)
    if not isinstance(evaluation, ForgettingCurve):
        raise ValueError(f"evaluation={asking.name} asks zoo's cells; hf= takes evaluation=forgetting_curve.")
    for model in models:
        folder = results / f"{evaluations.OTHERS}{model.resolve().name}"
        settings = {"evaluation": asking.settings}
        files = [
            (at.name, at.stat().st_size, at.stat().st_mtime_ns) for at in sorted(model.glob("*.safetensors"))
        ]
        weights = f"{model.resolve()} {files}"  # to hash a large model's would take minutes
        path = evaluations.place(folder, asking.name, settings | texts(settings), weights)
        if path.exists():
            print(f"{shown(path)} is there already")
            continue
        store.check_writable(folder)
        _check_place(path.parent)
        table = evaluation.table_of(huggingface.load(model))
        head = {"evaluation": asking.name, "run_id": folder.name, "weights": "", "settings": settings}
        facts = {"machine": machine(), "made_from": evaluation.made_from_text()}
        evaluations.write(path, head | facts, table)
        print(f"{shown(path)}  {len(table)} rows\n{in_words(table)}")
    return OK


def _records(runs: Sequence[Path]) -> tuple[dict[Path, dict[str, Any]], list[str]]:
    """Return the records of the cells that can be asked, by folder, and a line for each damaged record.

    Cells that are left out are named on stderr.  ValueError, one line: no such folder, or no cell.
    """
    if not runs:
        raise ValueError("name the runs: a results folder, or folders in it.")
    folders = list(dict.fromkeys(folder for path in runs for folder in _cells(path)))
    records, damaged = {}, []
    for folder in folders:
        try:
            why = "is not finished"
            if store.is_done(folder):
                record = store.read(folder)
                if record["status"] == "ok":
                    records[folder] = record
                    continue
                why = "diverged"
            print(f"passed over: {shown(folder)} {why}", file=sys.stderr)
        except (ValueError, OSError) as error:
            damaged.append(visible(one_line(error)))
    if not records:
        nothing = f"{shown(runs[0])} holds no trained cell: run `python -m zoo.run` first."
        raise ValueError(damaged[0] if damaged else nothing)
    left_out(damaged)
    return records, damaged


def _inquiries(
    records: dict[Path, dict[str, Any]], asking: Question, trusted: Sequence[str]
) -> tuple[list[Inquiry], list[str]]:
    """Return the question to each cell, without reading weights, and a line for each that cannot be asked.

    Cells without weights are named on stderr.  ValueError, one line: no cell can be asked, an answer that is
    there is damaged, or there is no place for answers.
    """
    from zoo.evaluation.trained import cell_of  # imports torch, which takes seconds

    kept = {at: r for at, r in records.items() if r.get("weights") is not None and (at / WEIGHTS).is_file()}
    if without := [at for at in records if at not in kept]:
        few = f"{len(without)} of {len(records)} runs have no weights, such as {shown(without[0])}"
        if not kept:
            raise ValueError(f"{few}: {WEIGHTLESS}.")
        print(f"passed over: {few}: {WEIGHTLESS}", file=sys.stderr)
    inquiries, lost = list[Inquiry](), list[str]()
    for folder, record in kept.items():
        try:
            cell = cell_of(folder, record, trusted)
            task = _task_of(folder, cell, asking)
        except ValueError as error:
            lost.append(str(error))
        else:
            inquiries.append(_one(folder, record, cell, task, asking))
    if not inquiries:
        raise ValueError(lost[0])
    return inquiries, lost


def _cells(path: Path) -> Iterator[Path]:
    """Return the folder itself if it is a cell's, else the cells' folders in it or in folders below it."""
    if is_cell(path):
        return iter([path])
    of = (_unpacked(home) if home.is_file() else store.folders(home) for home in meant([path]))
    return (folder for folders in of for folder in folders if is_cell(folder))


def _unpacked(archive: Path) -> list[Path]:
    """Unpack an archive beside it, but for finished cells that are there, and return its cells' folders."""
    file, home = opened(archive), archive.with_suffix("")
    assert isinstance(file, ZipPath)
    if not any((folder / WEIGHTS).is_file() for folder in file.iterdir()):
        raise ValueError(f"{shown(archive)} holds no weights: make it with `zoo archive --weights`.")
    cell_of = {name: home / name.partition("/")[0] for name in file.root.namelist()}
    missing = {folder for folder in cell_of.values() if not store.is_done(folder)}
    try:
        with TemporaryDirectory(dir=home.parent, prefix=f".{home.name}.") as part:
            file.root.extractall(part, [name for name, folder in cell_of.items() if folder in missing])
            home.mkdir(exist_ok=True)
            for folder in Path(part).iterdir():
                folder.rename(home / folder.name)  # a whole cell or nothing appears
    except OSError as error:
        raise ValueError(f"{shown(archive)} cannot be unpacked beside it ({error.strerror}).") from None
    print(f"{shown(archive)} is unpacked: the answers lie in {shown(home)}", file=sys.stderr)
    return sorted({*cell_of.values()})


def _task_of(folder: Path, cell: Cell, asking: Question) -> dict[str, Any] | None:
    try:
        task = asking.task_of(cell)
        if task is not None:
            _check_vocabulary(cell, task)
    except ValueError as error:
        raise ValueError(f"{shown(folder)}: {error}") from None
    return task


def _one(
    folder: Path, record: dict[str, Any], cell: Cell, task: dict[str, Any] | None, asking: Question
) -> Inquiry:
    settings = {"evaluation": asking.settings} | ({"task": task} if task else {})
    head = {
        "evaluation": asking.name,
        "run_id": record["run_id"],
        "weights": record["weights"],
        "settings": settings,
        "machine": machine(),
    }
    of = settings | texts({"evaluation": asking.settings, "task": task or cell.config["task"]})
    path = evaluations.place(folder, asking.name, of, record["weights"])
    _check_place(path.parent)
    if path.exists():
        evaluations.read(path.parent, path.name)  # a damaged answer is refused before the work
    return Inquiry(folder, record, cell, task, head, path)


def _check_place(answers: Path) -> None:
    """Raise ValueError if the answers cannot be written there, before any answer is worked out."""
    if answers.is_symlink() or (answers.exists() and not answers.is_dir()):
        raise ValueError(f"{shown(answers)} is a link or file: move it away, answers lie in a folder there.")
    try:
        TemporaryFile(dir=answers if answers.exists() else answers.parent).close()
    except OSError as error:
        raise ValueError(
            f"{shown(answers)} cannot be written ({error.strerror}): copy the run to a folder of your own."
        ) from None


def _check_vocabulary(cell: Cell, task: dict[str, Any]) -> None:
    from zoo.tasks.build import task_of

    first, other = task_of(cell), task_of(cell.with_task(task))
    known, wanted = first.vocab_size, other.vocab_size
    if first.stacked != other.stacked or (first.stacked and wanted != known):
        name = task["_target_"].rpartition(".")[2]
        raise ValueError(f"task (={name}) must have inputs as the cell knows them.")
    if wanted > known:
        raise ValueError(f"task.vocab_size (={wanted}) must be at most {known}, the tokens that it knows.")


def _answer(inquiries: Sequence[Inquiry], lost: Sequence[str], asking: Question, form: str) -> int:
    """Name the lost cells, answer the others in order, with a line for each, and print the tables."""
    print("".join(f"failed: {line}\n" for line in lost), end="", file=sys.stderr, flush=True)
    done, failed = 0, Counter(lost)  # failed: why -> how many
    for one in inquiries:
        if one.path.exists():
            done += 1
            continue
        began = time.perf_counter()
        try:
            table, made_from = _table(one, asking)
        except DiskFull:
            raise
        except Exception as error:
            why = str(error) if isinstance(error, ValueError) else reason(error)
            why = visible(" ".join(why.split()))
            if why not in failed:  # said at once, and how many more at the end
                print(f"failed: {shown(one.folder)}: {why}", file=sys.stderr, flush=True)
            failed[why] += 1
            continue
        evaluations.write(one.path, one.head | {"made_from": made_from}, table)
        print(f"{shown(one.path)}  {len(table)} rows in {time.perf_counter() - began:.1f} s", flush=True)
    for why, count in failed.items():
        if count > 1:
            print(f"failed: {count - 1} more: {why}", file=sys.stderr)
    _print_tables(inquiries, asking.name, form)
    answered = len(inquiries) + len(lost) - done - failed.total()
    print(f"{asking.name}: {answered} answered, {done} were there already, {failed.total()} failed")
    return FAILED if failed else OK


def _print_tables(inquiries: Sequence[Inquiry], name: str, form: str) -> None:
    """Print the answers of all cells one after the other; too many for a terminal: print how to read them."""
    import pandas as pd

    tables: dict[str, pd.DataFrame] = {}
    for one in (one for one in inquiries if one.path.exists()):
        tables[one.record["run_id"]] = evaluations.read(one.path.parent, one.path.name)[1]
        if form == TERMINAL and sum(map(len, tables.values())) > MOST_ROWS:
            print(f"zoo.results.load_evaluations(RESULTS, {name!r}) reads all answers as one table")
            return
    if tables:
        table = pd.concat(tables, names=["run_id"]).reset_index(level=0)
        alone = table.drop(columns="run_id") if len(inquiries) == 1 else table
        text = alone.to_string(index=False) if form == TERMINAL else as_text(of_frame(alone), form)
        print("\n".join(map(visible, text.splitlines())))


def _table(one: Inquiry, asking: Question) -> tuple[Any, dict[str, str]]:
    """Return the answers, and the facts about the data of the question (`made_from`)."""
    import pandas as pd
    import torch

    from zoo.evaluation.base import Evaluation
    from zoo.evaluation.trained import build
    from zoo.tasks.build import task_of
    from zoo.training.process import surroundings

    evaluation = make(asking.settings, Evaluation)
    trained = build(one.folder, one.record, one.cell)
    if one.cell.trainer.accelerator == "gpu" and torch.cuda.is_available():
        trained.model.cuda()
    if one.task is not None:
        trained = replace(trained, task=task_of(one.cell.with_task(one.task)))
    with surroundings(one.cell.trainer.threads):
        table = evaluation.table(trained)
        if not isinstance(table, pd.DataFrame) or not len(table.columns) or {"run_id", "mixer"} & {*table}:
            raise ValueError("table() must return a DataFrame with columns, none of them run_id or mixer.")
        return table, dict(evaluation.made_from(trained))


if __name__ == "__main__":
    command(main)
