"""Layers and decoding: a sequence at once, or one token after many, with the cell's initial weights.

Alternatives are the definitions of the ops (`kernels=reference`), what of Triton and of other packages runs
here, and torch's own softmax attention over the same sequences with as many heads.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from zoo.bench.flops import flops
from zoo.bench.machine import Machine
from zoo.bench.rows import Floor, Row, Timed, compared
from zoo.bench.timing import in_turn
from zoo.cell import Cell
from zoo.kernels.choice import contradiction, kernels, lacking
from zoo.mixers.base import Mixer
from zoo.model import SequenceModel, build_model

BATCH = 8  # sequences at once
TOKENS = 16  # decoded in one repeat
ALTERNATIVE = {"prefill": "reference", "decode": "whole again"}


def prefill(cell: Cell, machine: Machine, seq_len: int, rounds: int) -> list[Row]:
    """The chosen mixer's forward pass, without gradients, over BATCH sequences."""
    mixer = build_model(cell).mixers[cell.chosen_layer].to(machine.kind).eval()
    width = cell.config["d_model"]
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, seq_len, width, generator=rng).to(machine.kind)
    runs = {name: _forward(mixer, x, name) for name in _kernels(machine.kind)}
    runs |= _torchs_own(x, cell.config["mixer"].get("num_heads", 1))
    with torch.no_grad():
        times = in_turn(runs, machine, rounds)
        counts = {name: flops(run) for name, run in runs.items()}
    moved = 4 * (2 * x.numel() + sum(p.numel() for p in mixer.parameters()))
    timed = [
        Timed(
            implementation=name,
            times=times[name],
            units=BATCH * seq_len,
            floor=larger(machine.products(counts[name], torch.float32), machine.moved(moved)),
        )
        for name in runs
    ]
    sizes = f"d_model={width} seq_len={seq_len} batch={BATCH}"
    return compared("prefill", cell.mixer, sizes, "tokens", timed, ALTERNATIVE["prefill"], machine)


def decode(cell: Cell, machine: Machine, seq_len: int, rounds: int) -> list[Row]:
    """TOKENS steps of one token through the model, after seq_len; or the whole sequence again for each."""
    model = build_model(cell).to(machine.kind).eval()
    if not model.exact_decode:
        raise ValueError(f"mixer={cell.mixer} has no exact decoding: nothing to time.")
    tokens = torch.zeros(BATCH, seq_len + TOKENS, dtype=torch.long, device=machine.kind)
    with torch.no_grad():
        _, state = model.extend(tokens[:, :seq_len])
        runs: dict[str, Callable[[], object]] = {"from the state": lambda: _steps(model, tokens, state)}
        runs["whole again"] = lambda: model(tokens)  # once: stands for each of the steps
        times = in_turn(runs, machine, rounds)
    times["whole again"] = [TOKENS * t for t in times["whole again"]]
    touched = sum(mixer.state_size(seq_len).touched for mixer in model.mixers)
    weights = sum(p.numel() for p in model.blocks.parameters())
    moved = 4 * TOKENS * (2 * BATCH * touched + weights)
    floors = {"from the state": larger(machine.moved(moved)), "whole again": Floor()}
    timed = [
        Timed(implementation=name, times=times[name], units=BATCH * TOKENS, floor=floors[name])
        for name in runs
    ]
    sizes = f"d_model={cell.config['d_model']} seq_len={seq_len} batch={BATCH}"
    return compared("decode", cell.mixer, sizes, "tokens", timed, ALTERNATIVE["decode"], machine)


def larger(*bounds: tuple[float, str]) -> Floor:
    """The bound that binds."""
    seconds, made_of = max(bounds)
    return Floor(seconds=seconds, made_of=made_of)


def _kernels(kind: str) -> Sequence[str]:
    """What of `kernels=` can run here."""
    accelerator = "gpu" if kind == "cuda" else "cpu"
    return [
        name
        for name in ("auto", "triton", "package", "reference")
        if contradiction(name, accelerator) is None and lacking(name) is None
    ]


def _forward(mixer: Mixer, x: torch.Tensor, asked: str) -> Callable[[], object]:
    def run() -> object:
        with kernels(asked):
            return mixer(x)

    return run


def _torchs_own(x: torch.Tensor, num_heads: int) -> dict[str, Callable[[], object]]:
    """Softmax attention without its projections."""
    heads = x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous()
    own: dict[str, Callable[[], object]] = {
        "softmax, SDPA": lambda: F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    }
    if x.is_cuda:  # on a CPU it materialises its scores unless it is compiled for each shape
        length = x.shape[1]
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=str(x.device))
        compiled = torch.compile(flex_attention)
        own["softmax, FlexAttention"] = lambda: compiled(heads, heads, heads, block_mask=mask)
    return own


def _steps(model: SequenceModel, tokens: torch.Tensor, state: object) -> None:
    for t in range(tokens.shape[1] - TOKENS, tokens.shape[1]):
        _, state = model.extend(tokens[:, t : t + 1], state)  # pyright: ignore[reportArgumentType]
