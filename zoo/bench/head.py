"""Time the loss over the vocabulary, forward and backward, for the answers of one training batch."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.bench.counting import flops
from zoo.bench.machine import Machine
from zoo.bench.rows import Floor, Row, compared, larger, timed
from zoo.bench.timing import in_turn
from zoo.config.cell import Cell
from zoo.kernels.linear_cross_entropy import linear_cross_entropy
from zoo.kernels.linear_cross_entropy.reference import linear_cross_entropy_reference
from zoo.tasks.build import task_of

EVERYWHERE = "all positions"


def head(cell: Cell, machine: Machine, segment: int, rounds: int) -> list[Row]:
    """Time the chunked head on the answers' states, against logits of the answers and of all positions."""
    task, width = task_of(cell), cell.d_model
    shape = task.segments("train")[segment]
    size = cell.optim.batch_size
    batch = task.sample("train", segment, range(size), machine.kind)
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(*batch.inputs.shape, width, generator=rng).to(machine.kind).requires_grad_()
    weight = (torch.randn(task.vocab_size, width, generator=rng) * 0.02).to(machine.kind).requires_grad_()
    runs = _runs(hidden, weight, batch.positions, batch.answers)
    times = in_turn(runs, machine, rounds)
    counts = {name: flops(run) for name, run in runs.items()}
    moved = 2 * weight.numel() * weight.element_size()

    def floor(name: str) -> Floor:
        dtype = torch.bfloat16 if name.endswith("bfloat16") else torch.float32
        return larger(machine.products(counts[name], dtype), machine.moved(moved))

    measured = timed(times, batch.answers.numel(), floor)
    sizes = f"d_model={width} vocab_size={task.vocab_size} {shape.name.replace(',', ' ')} batch={size}"
    return compared("head", "", sizes, "answers", measured, EVERYWHERE, machine)


def _runs(
    hidden: Tensor, weight: Tensor, positions: Tensor, answers: Tensor
) -> dict[str, Callable[[], None]]:
    def answered(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[], None]:
        def run() -> None:
            states = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[2]))
            loss(states.flatten(0, 1), weight, answers.flatten()).backward()
            hidden.grad = weight.grad = None

        return run

    def in_bfloat16(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return linear_cross_entropy(x, w, target)

    def everywhere() -> None:
        labels = torch.full(hidden.shape[:2], -100, device=hidden.device).scatter_(1, positions, answers)
        F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), labels.flatten()).backward()
        hidden.grad = weight.grad = None

    return {
        "chunked": answered(linear_cross_entropy),
        "chunked, bfloat16": answered(in_bfloat16),
        "logits of the answers": answered(linear_cross_entropy_reference),
        EVERYWHERE: everywhere,
    }
