"""Describe a cell before it runs: its stack, its memory, its size, and the most that it could score."""

from typing import Any

from zoo.config.cell import Cell
from zoo.mixers.state import peak
from zoo.model import SequenceModel, outline
from zoo.tasks.build import task_of
from zoo.tasks.coverage import coverage
from zoo.training.initial_weights import adapted, apart
from zoo.training.truth import check_task

POSITIONS = ("position", "rope_base", "rope_fraction")  # weights trained with others may be worth nothing


def describe(cell: Cell) -> dict[str, str]:
    """Return the description of a cell as label -> text, in the order of printing.  No weight is made."""
    model, task = outline(cell), task_of(cell)
    check_task(task, cell.task)  # before its rows are looked at
    seq_len = max(segment.seq_len for segment in task.segments("test"))
    size = peak(model.state_size, seq_len)
    paper = "not published" if size.paper is None else f"{size.paper:,}"
    layers = cell.layers
    return (
        {
            "cell": str(cell),
            "run id": cell.run_id,
            "layers": " -> ".join(map(_layer, layers)),
            "state": f"{size.resident:,} scalars resident, {size.touched:,} touched, paper {paper}; "
            f"all layers, at most in {seq_len} tokens",
            "parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        }
        | _precision(cell)
        | _start(cell)
        | _cut_off(layers, cell.chosen_layer)
        | _coverage(model, task)
    )


def _precision(cell: Cell) -> dict[str, str]:
    """Name a precision that is not the usual one, since another precision makes another cell."""
    precision, usual = cell.trainer.precision, "32-true"
    if precision == usual:
        return {}
    return {"precision": f"{precision}, of trainer={cell.choices['trainer']}; in {usual} it is another cell"}


def _start(cell: Cell) -> dict[str, str]:
    """Return whose weights the cell starts from, and which of them train."""
    rows = {"start": "; ".join([cell.start, *apart(cell, POSITIONS)[:1]])} if cell.start else {}
    if recipe := cell.adaptation:
        counts = adapted(cell)
        how = []
        if recipe.rank:
            how.append(f"rank {recipe.rank}, alpha {recipe.alpha:g} on {', '.join(recipe.targets)}")
        if recipe.train:
            how.append(f"whole: {', '.join(recipe.train)}")
        train = f"{counts.trained:,} parameters train ({counts.share:.2%} of the model's {counts.total:,})"
        rows["adaptation"] = "; ".join([train, *how])
    return rows


def _cut_off(layers: list[dict[str, Any]], chosen: int) -> dict[str, str]:
    """Note a stack that ends within its pattern of layers: on a convolution, say, with no mixer after it."""
    periods = range(1, len(layers) + 1)
    period = next(p for p in periods if all(x == layers[i % p] for i, x in enumerate(layers)))
    if len(layers) % period == 0 or layers[-1] == layers[chosen]:
        return {}
    whole = -(-len(layers) // period) * period
    last, end = _name(layers[-1]), _name(layers[period - 1])
    text = f"{len(layers)} layers end on {last}, within a pattern of {period}: n_layers={whole} ends on {end}"
    return {"note": text}


def _name(settings: dict[str, Any]) -> str:
    return settings["_target_"].rsplit(".", 1)[-1]


def _layer(settings: dict[str, Any]) -> str:
    inner = (f"{k}={v}" for k, v in settings.items() if k not in ("_target_", "d_model") and v is not None)
    return f"{_name(settings)}({', '.join(inner)})"


def _coverage(model: SequenceModel, task: Any) -> dict[str, str]:
    """Return the share of answers whose source the stack can see, where its view is bounded."""
    shares = coverage(task, "test", model.visible, examples=200)
    if shares is None or all(share == 1 for share in shares.values()):
        return {}
    return {"coverage": "  ".join(f"{name}: {share:.1%}" for name, share in shares.items())}
