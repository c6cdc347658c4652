"""What each mixer keeps: its formula, its size at several lengths, and the same counted on live tensors."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from zoo.cell import Cell
from zoo.model import SequenceModel, build_model
from zoo.state import StateSize

LONGEST_MEASURED = 1024
COLUMNS = (
    *("mixer", "settings", "label", "family", "formula", "seq_len"),
    *("paper", "resident", "measured", "touched", "bytes_bf16", "bytes_fp32"),
)


@dataclass(frozen=True)
class Entry:
    """One layer of a mixer under one of its settings.

    settings: what the command line changed.  formula: of `resident`, in seq_len and the mixer's settings.
    sizes: for each length, None where the mixer refuses it.  measured: scalars in the tensors of a state
    after so many tokens; None beyond LONGEST_MEASURED, and for a mixer that cannot decode.
    """

    mixer: str
    settings: str
    label: str
    family: str
    formula: str
    seq_lens: tuple[int, ...]
    sizes: tuple[StateSize | None, ...]
    measured: tuple[int | None, ...]


def entry(cell: Cell, settings: str, seq_lens: Sequence[int]) -> Entry:
    """Measured in float32 on the CPU, in the layer where it stands in the cell's model."""
    about = cell.config["mixer"]["about"]
    model = build_model(cell).eval()
    layer = chosen_layer(cell)
    return Entry(
        mixer=cell.mixer,
        settings=settings,
        label=about["label"],
        family=about["family"],
        formula=" ".join(about.get("state", "").split()),
        seq_lens=tuple(seq_lens),
        sizes=tuple(_size(model, layer, n) for n in seq_lens),
        measured=tuple(measured(model, layer, n) for n in seq_lens),
    )


def chosen_layer(cell: Cell) -> int:
    """The first layer that is the chosen mixer as its yaml has it, else the last."""
    chosen = {key: value for key, value in cell.config["mixer"].items() if key != "about"}
    layers = cell.config["model"]["layers"]
    return layers.index(chosen) if chosen in layers else len(layers) - 1


def _size(model: SequenceModel, layer: int, seq_len: int) -> StateSize | None:
    try:
        return model.mixers[layer].state_size(seq_len)
    except ValueError:  # longer than it was built for
        return None


@torch.no_grad()
def measured(model: SequenceModel, layer: int, seq_len: int) -> int | None:
    """Scalars that the layer's mixer holds after `seq_len` tokens."""
    if seq_len > LONGEST_MEASURED or not model.exact_decode:
        return None
    inputs = torch.arange(seq_len)[None] % len(model.embedding)
    return held(model.extend(inputs)[1].layers[layer].mixer)


def held(state: Any) -> int:
    """Scalars per sequence in a state: elements beyond the batch; a complex one counts two."""
    if isinstance(state, Tensor) and (state.is_floating_point() or state.is_complex()):
        return state[0].numel() * (2 if state.is_complex() else 1)
    return sum(map(held, state)) if isinstance(state, tuple) else 0


def as_csv(entries: Sequence[Entry]) -> str:
    """Tidy: one row for each entry and length; an empty field is what does not exist."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for e in entries:
        for n, size, count in zip(e.seq_lens, e.sizes, e.measured, strict=True):
            sizes = (size.paper, size.resident) if size else (None, None)
            rest = (size.touched, size.bytes("bfloat16"), size.bytes("float32")) if size else (None,) * 3
            writer.writerow((e.mixer, e.settings, e.label, e.family, e.formula, n, *sizes, count, *rest))
    return text.getvalue()


def header(seq_lens: Sequence[int], several: bool) -> list[str]:
    """For the rows of `row`."""
    sizes = ["paper", *(f"{n:,} tokens" for n in seq_lens), "measured", "bytes, bf16", "bytes, fp32"]
    return ["mixer", *["settings"] * several, "label", "family", *sizes]


def row(e: Entry, several: bool) -> list[str]:
    """One line; several numbers in one field, one for each length, only where they differ."""
    return [
        *(e.mixer, *[e.settings] * several, e.label, e.family),
        _together([None if size is None else size.paper for size in e.sizes]),
        *(_number(None if size is None else size.resident) for size in e.sizes),
        _together([count for count in e.measured if count is not None]),
        _together([None if size is None else size.bytes("bfloat16") for size in e.sizes]),
        _together([None if size is None else size.bytes("float32") for size in e.sizes]),
    ]


def _together(values: Sequence[int | None]) -> str:
    values = values[:1] if len(set(values)) == 1 else values
    return " / ".join(map(_number, values)) or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def as_markdown(entries: Sequence[Entry]) -> str:
    """With the formula as the last column."""
    several = any(e.settings for e in entries)
    names = header(entries[0].seq_lens, several)
    lines = [[*names, "formula"], ["---"] * (3 + several) + ["---:"] * (len(names) - 3 - several) + ["---"]]
    for e in entries:
        name, *fields = row(e, several)
        lines.append([f"`{name}`", *fields, f"`{e.formula}`" if e.formula else ""])
    return "".join("| " + " | ".join(fields) + " |\n" for fields in lines)


def as_tables(entries: Sequence[Entry]) -> tuple[Table, Table]:
    """The sizes, and below them the formulas, which need the width."""
    several = any(e.settings for e in entries)
    sizes = Table(title="state of one layer, in scalars per sequence", title_justify="left")
    for i, name in enumerate(header(entries[0].seq_lens, several)):
        sizes.add_column(name, justify="left" if i < 3 + several else "right", no_wrap=i == 0)
    formulas = Table(title="its formula, in the mixer's settings", title_justify="left")
    formulas.add_column("mixer", no_wrap=True)
    formulas.add_column("scalars after seq_len tokens")
    for e in entries:
        sizes.add_row(*row(e, several))
    for name, formula in dict.fromkeys((e.mixer, e.formula) for e in entries):
        formulas.add_row(name, formula)
    return sizes, formulas
