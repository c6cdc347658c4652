"""Time a layer over a whole sequence, or the decoding of single tokens, with the cell's initial weights.

The alternatives are the definitions of the ops (`kernels=reference`), the forms of Triton and of packages
that run here, and torch's own softmax attention over the same sequences with the same number of heads.  Only
torch's products are counted, so the floor of a form in Triton or in a package is mostly a floor of bytes.
"""

import sys
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from zoo.bench.counting import flops
from zoo.bench.flex import flex
from zoo.bench.machine import Floor, Machine
from zoo.bench.rows import Row, compared, timed
from zoo.bench.timing import in_turn, peak_bytes
from zoo.common.checks import one_line
from zoo.config.cell import Cell
from zoo.kernels.choice import REFERENCE, check_served, contradiction, kernels, lacking
from zoo.model import SequenceModel, build_model
from zoo.training.process import now

BATCH = 8  # sequences at once
TOKENS = 16  # decoded in one repeat
MOST_S = 2.0  # seconds that one sequence may take
FROM_STATE, AGAIN = "from the state", "whole again"


@dataclass(frozen=True)
class Place:
    """The device that a layer runs on, and the precision of its products."""

    kind: str
    mixed: bool

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of the layer's products."""
        return torch.bfloat16 if self.mixed else torch.float32

    def autocast(self) -> torch.autocast:
        """Return a context that makes products in this precision."""
        return torch.autocast(self.kind, torch.bfloat16, enabled=self.mixed)


def prefill(cell: Cell, machine: Machine, seq_len: int, rounds: int) -> list[Row]:
    """Time the chosen mixer's forward pass, without gradients, over BATCH sequences."""
    place = Place(machine.kind, cell.trainer.layers == "bf16-mixed")
    mixer = build_model(cell).mixers[cell.chosen_layer].to(machine.kind).eval()
    width = cell.d_model
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, seq_len, width, generator=rng).to(machine.kind)
    forward = partial(_called, place, mixer)
    runs: dict[str, Callable[[], object]] = {
        name: partial(forward, name, x) for name in _kernels(place, lambda: mixer(x[:1]))
    }
    runs |= _softmax_attention(x.to(place.dtype), cell.mixer_settings.get("num_heads", 1))
    with torch.no_grad():
        times = in_turn(runs, machine, rounds)
        counts = {name: flops(run) for name, run in runs.items()}
        peaks = {name: peak_bytes(run, machine) for name, run in runs.items()}
    moved = 4 * (2 * x.numel() + sum(p.numel() for p in mixer.parameters()))
    floors = {n: max(machine.products(counts[n], place.dtype), machine.moved(moved)) for n in runs}
    measured = timed(times, BATCH * seq_len, floors.__getitem__, peaks)
    sizes = f"d_model={width} seq_len={seq_len} batch={BATCH}"
    against = REFERENCE if REFERENCE in runs else "auto"
    return compared("prefill", cell.mixer, sizes, "tokens", measured, against, machine)


def decode(cell: Cell, machine: Machine, seq_len: int, rounds: int) -> list[Row]:
    """Time TOKENS decoding steps after seq_len tokens, against running the whole sequence for each step."""
    place = Place(machine.kind, cell.trainer.layers == "bf16-mixed")
    model = build_model(cell).to(machine.kind).eval()
    if not model.exact_decode:
        raise ValueError(f"mixer={cell.mixer} has no exact decoding: nothing to time.")
    tokens = torch.zeros(BATCH, seq_len + TOKENS, dtype=torch.long, device=machine.kind)
    with torch.no_grad():
        with place.autocast():
            _, state = model.extend(tokens[:, :seq_len])
        runs: dict[str, Callable[[], object]] = {
            f"{FROM_STATE}, {name}": partial(_called, place, partial(_steps, model), name, tokens, state)
            for name in _kernels(place, lambda: _steps(model, tokens, state))
        }
        runs[AGAIN] = partial(_called, place, model, "auto", tokens)  # one run stands for each step
        times = in_turn(runs, machine, rounds)
    times[AGAIN] = [TOKENS * t for t in times[AGAIN]]
    touched = sum(mixer.state_size(seq_len).touched for mixer in model.mixers)
    weights = sum(p.numel() for p in model.blocks.parameters())
    floor = machine.moved(4 * TOKENS * (2 * BATCH * touched + weights))
    measured = timed(times, BATCH * TOKENS, lambda name: Floor() if name == AGAIN else floor)
    sizes = f"d_model={cell.d_model} seq_len={seq_len} batch={BATCH}"
    return compared("decode", cell.mixer, sizes, "tokens", measured, AGAIN, machine)


def _kernels(place: Place, run: Callable[[], object]) -> list[str]:
    """Return the choices of `kernels=` that can be timed here, and fast enough, for the ops in `run`."""
    return [choice for choice in ("auto", "triton", "package", REFERENCE) if _can(choice, place, run)]


def _can(choice: str, place: Place, run: Callable[[], object]) -> bool:
    if contradiction(choice, "gpu" if place.kind == "cuda" else "cpu") or lacking(choice):
        return False
    try:
        with torch.no_grad(), place.autocast():
            check_served(choice, run)
            with kernels(choice):
                seconds = timeit.timeit(run, timer=lambda: now(place.kind, 1), number=1)
    except (ValueError, RuntimeError) as error:  # a tensor that no memory holds is a RuntimeError on a CPU
        print(f"not timed: kernels={choice}: {one_line(error)[:200]}", file=sys.stderr)
        return False
    if seconds > MOST_S and choice != "auto":
        print(f"not timed: kernels={choice}: one sequence takes {seconds:.1f} s", file=sys.stderr)
        return False
    return True


def _called(place: Place, function: Callable[..., object], choice: str, *inputs: Any) -> object:
    with place.autocast(), kernels(choice):
        return function(*inputs)


def _softmax_attention(x: torch.Tensor, num_heads: int) -> dict[str, Callable[[], object]]:
    """Return torch's softmax attention, without projections."""
    heads = x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous()
    runs: dict[str, Callable[[], object]] = {
        "softmax, SDPA": lambda: F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    }
    if x.is_cuda:
        runs["softmax, FlexAttention"] = lambda: flex(heads, heads, heads)
    return runs


def _steps(model: SequenceModel, tokens: torch.Tensor, state: object) -> None:
    for t in range(tokens.shape[1] - TOKENS, tokens.shape[1]):
        _, state = model.extend(tokens[:, t : t + 1], state)  # pyright: ignore[reportArgumentType]
