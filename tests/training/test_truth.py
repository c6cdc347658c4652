"""A mixer whose claims are wrong ends a cell before it trains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.training.tiny import tiny
from zoo.kernels.choice import kernels
from zoo.launch.grouping import Group
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.launch.run_population import run_population
from zoo.mixers.base import Mixer
from zoo.mixers.state import StateSize
from zoo.model import SequenceModel, build_model
from zoo.results.store import error
from zoo.training import truth
from zoo.training.build import build
from zoo.training.truth import check_run


class Lying(Mixer[tuple[Tensor, ...]]):
    """A state of the last three inputs, claimed to be `extra` larger; outputs read `ahead` tokens ahead.

    more: inputs that it keeps without a claim, of more than 40.
    """

    def __init__(self, extra: int = 0, ahead: int = 0, weight: float = 0.1, more: int = 0) -> None:
        super().__init__()
        self.extra, self.ahead, self.weight, self.more = extra, ahead, weight, more

    def extend(self, x: Tensor, state: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        past = x if state is None else torch.cat((*state, x), 1)
        later = F.pad(x, (0, 0, 0, self.ahead))[:, self.ahead :]
        return x + self.weight * later * (self.ahead > 0), (past[:, -3 - self.more * (past.shape[1] > 40) :],)

    def state_size(self, seq_len: int) -> StateSize:
        size = min(seq_len, 3) * 16 + (self.extra if seq_len > 20 else 0)
        return StateSize(None, size, size)


class Whole(Mixer[Any]):
    """A mixer without memory, whose `forward` is any function, and whose `extend` returns its inputs."""

    def __init__(self, whole: Callable[[Tensor], Tensor], state: object = (), size: object = 0) -> None:
        super().__init__()
        self.whole, self.state, self.size = whole, state, size

    def forward(self, x: Tensor) -> Tensor:
        return self.whole(x)

    def extend(self, x: Tensor, state: object = None) -> tuple[Tensor, object]:
        return x, self.state

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(None, self.size, 0) if isinstance(self.size, int | float) else self.size  # pyright: ignore


def means_of_chunks(x: Tensor) -> Tensor:
    return x + x.unflatten(1, (-1, 4)).mean(2, keepdim=True).expand(-1, -1, 4, -1).flatten(1, 2)


ALONE = Whole(Tensor.clone)
ALONE.extend = lambda x, state=None: x  # pyright: ignore
FAULTS: dict[str, Mixer] = {
    r" says causal=True, and its outputs change when later": Whole(means_of_chunks),
    r" once more, .* must draw nothing, and never mix": Whole(lambda x: x + torch.rand_like(x)),
    r" once more, beside other rows: in evaluation it must": Whole(lambda x: x + x.mean(0, keepdim=True)),
    r" gives other outputs by `extend`, on 5 tokens and the rest, than by `forward` on all 8: ": Whole(
        lambda x: 2 * x
    ),
    r"^Whole.extend must return \(outputs, state\), and returned a Tensor": ALONE,
    r"^a state must be a NamedTuple of tensors, and has a dict in it": Whole(Tensor.clone, state={}),
    r"^StateSize.resident \(=0.5\) must be an integer: divide by //, ": Whole(Tensor.clone, size=0.5),
    r"^state_size must return a StateSize, and returned '7'": Whole(Tensor.clone, size="7"),
    r" holds 80 scalars after 64 tokens, and its state_size says 48": Lying(more=2),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_faulty_mixer_is_refused(message: str):
    truth.check_model(model_with(Whole(Tensor.clone)), 8, 64)
    with pytest.raises(ValueError, match=message):
        truth.check_model(model_with(FAULTS[message]), 8, 64)


def model_with(mixer: Mixer, layer: int = 1) -> SequenceModel:
    model = build_model(tiny())
    model.blocks[layer].mixer = mixer  # pyright: ignore
    return model


@pytest.mark.parametrize("extra", [1, -1])
def test_a_wrong_state_size_is_refused(extra: int):
    truth.check_model(model_with(Lying()), 8, 64)
    truth.check_model(model_with(Lying(extra)), 8, 20)  # right up to 20 tokens
    with pytest.raises(ValueError) as wrong:
        truth.check_model(model_with(Lying(extra)), 8, 64)
    message = "Lying (layer 1) holds 48 scalars after 22 tokens, and its state_size says "
    assert str(wrong.value) == f"{message}{48 + extra}: mend state_size(22).resident."


@pytest.mark.parametrize(("ahead", "weight"), [(1, 1.0), (1, 0.02), (2, 0.1)])
def test_a_mixer_that_reads_the_future_is_refused(ahead: int, weight: float):
    lying = Lying(ahead=ahead, weight=weight)
    with pytest.raises(ValueError, match=r"^Lying \(layer 0\) says causal=True, .* set causal=False on it"):
        truth.check_model(model_with(lying, layer=0), 8, 16)
    lying.causal = lying.exact_decode = False
    truth.check_model(model_with(lying, layer=0), 8, 16)


def test_the_checks_change_nothing():
    """They change neither weights and modes of the model, nor the generator, nor the record of kernels."""
    model, before = build_model(tiny(block="zoology")), torch.get_rng_state()  # it has dropout
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    with kernels("auto") as choice:
        truth.check_model(model, 8, 64)
    assert choice.ran == {} and torch.equal(torch.get_rng_state(), before)
    assert all(part.training for part in model.modules())
    torch.testing.assert_close(dict(model.state_dict()), weights, rtol=0, atol=0)


def test_a_wrong_state_size_fails_the_cell_before_training(cwd: Path, monkeypatch: pytest.MonkeyPatch):
    cell = tiny()
    kind = type(build_model(cell).mixers[-1])
    monkeypatch.setattr(kind, "state_size", lambda self, seq_len: StateSize(None, 7, 7))
    with pytest.raises(CellFailed, match=rf"^ValueError: {kind.__name__} .* state_size says 7: mend"):
        run_cell(cell, Mock())
    assert {path.name for path in cell.folder.iterdir()} == {"config.yaml", "env.json", "error.txt"}
    assert "state_size says 7: mend" in error(cell.folder)
    failure = run_population(Group((cell, tiny(seed=1))), Mock())
    assert failure and "state_size says 7: mend" in failure.why
    run = build(cell, cwd)
    run.position.step = 1  # a cell that has begun is not checked again
    check_run(run)
