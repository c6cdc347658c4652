"""Finished cells as tables: one row for each cell, split and slice."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.results.reading import Reading
from zoo.results.store import curves, groups, records

KEYS = (
    "run_id", "point", "status", "mixer", "label", "family", "task", "d_model", "n_layers", "seed", "lr",
    "causal", "exact_decode", "parameters", "state_paper", "state_resident", "state_touched",
    "state_aux_ints", "state_mixer_paper", "state_mixer_resident", "state_seq_len", "steps", "diverged_step",
    "wall_seconds", "examples_per_second", "decode_tokens_per_second", "operations", "peak_memory_bytes",
    "accelerator", "precision",
)  # fmt: skip


MAY_BE_NAN = (
    *("state_paper", "state_mixer_paper", "diverged_step", "examples_per_second"),
    "decode_tokens_per_second",
    *("accuracy", "row_accuracy", "exact_rows", "loss"),
)


def load(results: Path) -> pd.DataFrame:
    """Every finished cell of a folder or archive, one row for each of its (cell, split, slice); tidy.

    run_id, status: which cell; "ok" or "diverged" (its loss was not finite; its accuracies are NaN).
    point: equal for cells that differ in nothing but seed and lr.
    mixer, label, family: stem of the mixer's yaml, its name and colour in pictures.
    task: stem of the task's yaml.  d_model, n_layers, seed, lr: as in the config.
    causal, exact_decode: False marks a mixer that sees the future, or whose decoding is not its training.
    parameters: of the whole model.
    state_paper, state_resident, state_touched, state_aux_ints: scalars per sequence, summed over layers,
        the most in state_seq_len tokens (`zoo.state.peak`); state_paper is NaN where none was published.
    state_mixer_paper, state_mixer_resident: the same for one layer of the chosen mixer.
    steps, diverged_step: training steps made; the step whose loss was not finite (else NaN).
    wall_seconds, examples_per_second, peak_memory_bytes, accelerator, precision: of training.
    operations: of the whole cell, counted from its shapes (`zoo.evaluation.flops`).
    decode_tokens_per_second: measured at the end (`zoo.evaluation.decode_speed`); NaN where diverged, not
        exact, or failed (the record's `decode_missing` says how).
    mixer.<key>: one column a setting of any mixer present, dotted as on the command line; NaN where a
        mixer has no such setting.  task.<key>: the same of the task, but for its segments.
    split: "valid" or "test".
    slice: "seq_len=64,num_kv_pairs=4", with one column for each of its keys.
    accuracy, loss: right answers over `answers` in `rows` examples; mean cross-entropy of an answer, in nats.
    row_accuracy, exact_rows: mean over rows of the part of a row that is right; rows that are all right.
    coverage: the part of the answers that the model can see at all (1.0 where nothing bounds it).

    A record that is damaged or foreign is left out with a warning, a line each.  ValueError, one line with
    the fix: no such folder, or nothing finished in it.
    """
    return table(records(results))


def table(found: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """What `load` returns, from records that were read already; at least one."""
    rows = [row for record in found for row in _rows(record)]
    frame = pd.DataFrame(rows)
    frame = frame.astype({column: float for column in MAY_BE_NAN})
    first = [*KEYS, "split", "slice"]
    return frame.reindex(columns=[*first, *(column for column in frame if column not in first)])


def _rows(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    settings = dict(flat("mixer", record["mixer_settings"])) | dict(flat("task", record["task_settings"]))
    cell = {key: record[key] for key in KEYS} | settings
    for entry in record["slices"]:
        yield cell | entry | {"slice": slice_name(entry["slice"])} | entry["slice"]


def slice_name(slice_: dict[str, int | str]) -> str:
    """As tables have it: "seq_len=64,num_kv_pairs=4"."""
    return ",".join(f"{key}={value}" for key, value in slice_.items())


def flat(path: str, settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted key -> scalar; a list becomes its JSON."""
    for key, value in settings.items():
        dotted = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from flat(dotted, value)
        elif not key.startswith("_"):
            yield dotted, json.dumps(value) if isinstance(value, list) else value


def load_metrics(results: Path) -> pd.DataFrame:
    """The curves of every finished cell: run_id, mixer, step, split, slice, metric, value.

    A cell whose curve is missing or damaged is left out with a warning.  The errors of `load`.
    """
    reading = Reading(results)
    found, lost = curves(reading)
    reading.warn(lost)
    return found


def load_groups(results: Path) -> pd.DataFrame:
    """The answers of every cell that did not diverge, told apart as their task does.

    run_id, split, slice; group: the name of a group of the task; value: a word or a number of it (of
    "distance": those that are read from more than value / 2 and at most `value` tokens back); answers,
    right: how many there are, and how many of these are right.  The errors of `load`.
    """
    return groups(records(results))
