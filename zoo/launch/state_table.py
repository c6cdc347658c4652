"""Tabulate each mixer's state: its formula, its size at several lengths, and the count on live tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd
import torch
from rich.console import RenderableType
from rich.table import Table

from zoo.common.terminal import slim
from zoo.config.about import by_family
from zoo.config.cell import Cell
from zoo.mixers.state import StateSize, held
from zoo.model import SequenceModel, build_model, outline

LONGEST_MEASURED = 1024
LARGEST_MEASURED = 2**27  # parameters; with more, a token takes seconds on a CPU
COLUMNS = (
    *("mixer", "settings", "label", "family", "d_model", "formula", "seq_len"),
    *("paper", "resident", "measured", "touched", "bytes_bf16", "bytes_fp32"),
)


@dataclass(frozen=True)
class Entry:
    """The state of one layer of a mixer under one choice of settings.

    settings: what the command line changed.  formula: of `resident`, in seq_len and the mixer's settings.
    sizes: one for each length; None where the mixer refuses that length.  measured: scalars in the tensors of
    a state after that many tokens; None beyond LONGEST_MEASURED or LARGEST_MEASURED, and for a mixer that
    cannot decode.
    """

    mixer: str
    settings: str
    label: str
    family: str
    d_model: int
    formula: str
    seq_lens: tuple[int, ...]
    sizes: tuple[StateSize | None, ...]
    measured: tuple[int | None, ...]


def entry(cell: Cell, settings: str, seq_lens: Sequence[int]) -> Entry:
    """Make the entry of a cell's mixer, measured in float32 on the CPU in its layer of the cell's model."""
    about = cell.about
    model = outline(cell)
    if sum(tensor.numel() for tensor in model.parameters()) <= LARGEST_MEASURED:
        model = build_model(cell)
    model.eval()
    layer = cell.chosen_layer
    return Entry(
        mixer=cell.mixer,
        settings=settings,
        label=about["label"],
        family=about["family"],
        d_model=cell.d_model,
        formula=" ".join(about.get("state", "").split()),
        seq_lens=tuple(seq_lens),
        sizes=tuple(_size(model, layer, n) for n in seq_lens),
        measured=tuple(measured(model, layer, n) for n in seq_lens),
    )


def _size(model: SequenceModel, layer: int, seq_len: int) -> StateSize | None:
    try:
        return model.mixers[layer].state_size(seq_len)
    except ValueError:  # longer than it was built for
        return None


@torch.no_grad()
def measured(model: SequenceModel, layer: int, seq_len: int) -> int | None:
    """Return the scalars that the layer's mixer holds after `seq_len` tokens; None: not measured."""
    if seq_len > LONGEST_MEASURED or not model.exact_decode or model.embedding.is_meta:
        return None
    inputs = torch.arange(seq_len)[None] % len(model.embedding)
    try:
        return held(model.extend(inputs)[1].layers[layer].mixer)
    except ValueError:  # longer than it was built for
        return None


def as_csv(entries: Sequence[Entry]) -> str:
    """Write a tidy CSV: a row for each entry and length, with an empty field for a missing number."""
    rows = []
    for e in entries:
        for n, size, count in zip(e.seq_lens, e.sizes, e.measured, strict=True):
            sizes = (size.paper, size.resident) if size else (None, None)
            rest = (size.touched, size.bytes("bfloat16"), size.bytes("float32")) if size else (None,) * 3
            named = (e.mixer, e.settings, e.label, e.family, e.d_model, e.formula)
            rows.append((*named, n, *sizes, count, *rest))
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).to_csv(index=False, lineterminator="\n")


HEADINGS = ("tokens", "scalars", "measured", "published", "bytes bf16", "bytes fp32")
STAR = "* from the formula alone; at the other lengths the elements of a live state were counted (measured)"


def lines(e: Entry) -> Iterator[tuple[str, ...]]:
    """Yield the texts under HEADINGS, a line for each size with all lengths that have it: a state that does
    not grow has one line.  A length that was not measured has a star."""
    known = zip(e.seq_lens, e.sizes, e.measured, strict=True)
    for size, group in groupby(known, key=lambda length: length[1]):
        counts = {n: count for n, _, count in group}
        tokens = " / ".join(f"{n:,}{'*' if count is None else ''}" for n, count in counts.items())
        measured = dict.fromkeys(_number(count) for count in counts.values() if count is not None)
        sizes = (size.paper, size.bytes("bfloat16"), size.bytes("float32")) if size else (None,) * 3
        scalars = _number(size and size.resident)
        yield tokens, scalars, " / ".join(measured) or "-", *map(_number, sizes)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def as_markdown(entries: Sequence[Entry], command: str) -> str:
    """Write the entries as a document, docs/state.md.  command: the command that writes it."""
    widths = ", ".join(dict.fromkeys(str(e.d_model) for e in entries))
    text = HEAD.format(command=command, widths=widths)
    for title, group in by_family(entries, lambda e: e.family).items():
        rows = [("mixer", *HEADINGS, "formula"), ("---", "---", *["---:"] * (len(HEADINGS) - 1), "---")]
        rows += [row for e in group for row in _rows(e)]
        text += f"\n## {title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return text


def _rows(e: Entry) -> Iterator[tuple[str, ...]]:
    """Yield the rows of an entry; only the first holds its name and formula."""
    name, formula = f"{e.label} `{' '.join(filter(None, (e.mixer, e.settings)))}`", f"`{e.formula}`"
    for line in lines(e):
        yield name, *line, formula if e.formula else ""
        name = formula = ""


def as_tables(entries: Sequence[Entry]) -> list[RenderableType]:
    """Make a table for each family, then a table of formulas, which need the whole width."""
    parts = [_family_table(*group) for group in by_family(entries, lambda e: e.family).items()]
    return ["state of one layer, in scalars per sequence", *parts, STAR, _formulas(entries)]


def _family_table(title: str, entries: Sequence[Entry]) -> Table:
    table = slim(title)
    table.add_column("mixer, settings" if any(e.settings for e in entries) else "mixer", overflow="fold")
    for heading in HEADINGS:
        words = heading == "tokens"
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words)
    for e in entries:
        name = f"{e.mixer} {e.settings}"
        for line in lines(e):
            table.add_row(name, *line)
            name = ""
    return table


def _formulas(entries: Sequence[Entry]) -> Table:
    """Make the table of formulas, each once with the mixers that have it."""
    table = slim("formulas, in seq_len and the mixers' own settings and parts")
    table.add_column("mixers", max_width=50)
    table.add_column("scalars after seq_len tokens")
    for formula in dict.fromkeys(e.formula for e in entries if e.formula):
        names = dict.fromkeys(e.mixer for e in entries if e.formula == formula)
        table.add_row(", ".join(names), formula)
    return table


HEAD = """# State

Written by `{command}`.

What one layer keeps between two tokens, in scalars per sequence; d_model is {widths}.  [mixers.md](mixers.md)
says it in words, [numbers.md](numbers.md) how it is counted.  A line stands for all lengths of one size.

- tokens: how many have been read.  With a star the size is from the formula alone: the sequence is too long
  to run here, or the mixer cannot decode.
- scalars: `state_size(tokens).resident`, which is what the formula says in `seq_len`, the mixer's settings
  and its parts (`qkv.head_dim` is an attribute; `popcount(n)` counts the binary digits of n that are 1,
  `below(s, n)` the numbers of s below n).
- measured: elements counted in the tensors of the state that the mixer returned after so many tokens.  While
  it decodes, a cache that grows in place has room for as many again at most, which is in no count.
- published: the count on the axis of the published figures, where there is one.
- bytes: of the scalars, all in bfloat16 or all in float32.

A mixer with an open block or chunk keeps most of it between two multiples: `--seq-lens 63,1000` shows it.
Log-linear Mamba-2 keeps least at these lengths, powers of two (20,960 after 1,023 tokens); `state_resident`
of a record is the most that was kept at any point.  Hyena refuses what is longer than its `max_len`.
"""
