"""Steps a second of one cell, each way of taking them: `python -m benchmarks.gpu.step_forms [words]`.

    python -m benchmarks.gpu.step_forms --out DIR [--forms eager,graph,compile] mixer=based trainer=gpu

A step is forward, backward, clipping and update on one batch that lies on the device, over and over, each
form from the same weights, in turn, after what it compiles or records.  Words are those of zoo.run.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from zoo.bench.flops import flops
from zoo.bench.layers import larger
from zoo.bench.machine import Machine, measured
from zoo.bench.rows import Row, Timed, compared, markdown, write
from zoo.bench.timing import in_turn, peak_bytes
from zoo.checks import one_line
from zoo.config.cell import Cell
from zoo.config.compose import compose
from zoo.instantiate import task_of
from zoo.kernels.choice import kernels
from zoo.model import build_model
from zoo.tasks.base import Batch
from zoo.training.lightning_module import answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.step import Stepper

EAGER, PROGRAM = "eager", "benchmarks.gpu.step_forms"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where steps.csv and steps.md go")
    parser.add_argument("--forms", default="eager,graph,compile", help="of trainer.step, with commas")
    parser.add_argument(
        "--segments", choices=("all", "ends"), default="all", help="of the mixture; ends: first and last"
    )
    parser.add_argument("--rounds", type=int, default=5)
    given = list(sys.argv[1:] if argv is None else argv)
    args, words = parser.parse_known_args(given)
    cell = compose(words)
    trainer = cell.trainer
    machine = measured(trainer.device, trainer.threads, (torch.float32, torch.bfloat16))
    segments = range(len(task_of(cell).segments("train")))
    chosen = sorted({segments[0], segments[-1]}) if args.segments == "ends" else segments
    rows = [
        row
        for segment in chosen
        for row in measure(cell, machine, segment, args.forms.split(","), args.rounds)
    ]
    write(rows, args.out, given, PROGRAM)
    print(markdown(rows, given, PROGRAM))
    return 0


def measure(cell: Cell, machine: Machine, segment: int, forms: Sequence[str], rounds: int) -> list[Row]:
    """One segment of the training mixture.  The first form is the alternative."""
    optim = cell.optim
    trainer = cell.trainer
    task = task_of(cell)
    batch = task.sample("train", segment, range(optim.batch_size), machine.kind)
    mixed = trainer.layers == "bf16-mixed"
    made = dict(_that_step(cell, machine.kind, forms, batch, mixed))
    dtype = torch.bfloat16 if mixed else torch.float32
    floor = larger(machine.products(_products(cell, machine.kind, batch, mixed), dtype))
    times = in_turn(made, machine, rounds)
    timed = [
        Timed(
            implementation=name, times=times[name], units=1, floor=floor, peak_bytes=peak_bytes(run, machine)
        )
        for name, run in made.items()
    ]
    shape = task.segments("train")[segment].name.replace(",", " ")
    sizes = f"d_model={cell.d_model} {shape} batch={optim.batch_size} {trainer.precision}"
    return compared("steps", cell.mixer, sizes, "steps", timed, next(iter(made)), machine)


def _that_step(
    cell: Cell, kind: str, forms: Sequence[str], batch: Batch, mixed: bool
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Form -> its step; a form that cannot be had is said and left out."""
    for form in forms:
        stepper, run = step_of(cell, kind, form, batch, mixed)
        try:
            run()
        except Exception as error:
            said = one_line(error)[:200]
            print(f"not timed: {form}: {type(error).__name__}: {said}", file=sys.stderr)
            continue
        yield form if stepper.form == form else f"{form}: {stepper.form}", run


def step_of(
    cell: Cell, kind: str, form: str, batch: Batch, mixed: bool
) -> tuple[Stepper, Callable[[], object]]:
    """A fresh model's step, which trains; it knows its form once it has been called."""
    optim = cell.optim
    model = build_model(cell).to(kind)
    optimizer = make_optimizer(model, optim, cell.lr)
    loss = partial(_loss, model)
    stepper = Stepper(form, model, optimizer, loss, optim.grad_clip)

    def run() -> object:
        with torch.autocast(kind, torch.bfloat16, enabled=mixed), kernels(cell.kernels):
            return stepper(batch.tensors, 1e-4)

    return stepper, run


def _loss(model: torch.nn.Module, *batch: torch.Tensor) -> torch.Tensor:
    return answers_loss(model, Batch.of(*batch))  # pyright: ignore[reportArgumentType]


def _products(cell: Cell, kind: str, batch: Batch, mixed: bool) -> float:
    return flops(step_of(cell, kind, EAGER, batch, mixed)[1])


if __name__ == "__main__":
    sys.exit(main())
