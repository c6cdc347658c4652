"""The whole step as a CUDA graph: pytest -m gpu."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.kernels.agreement import ON_A_GPU, QUIET
from tests.population.together import fresh
from tests.training.test_resuming import cut_off
from tests.training.tiny import assert_same, checkpoint, tiny
from zoo.training.step import Stepper
from zoo.training.train import train

pytestmark = [*ON_A_GPU, QUIET]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"trainer__precision": "32-true"},
    "bf16-mixed": {},
    "bf16-head": {"trainer__precision": "bf16-head", "optim__grad_clip": None},
    "dropout": {"block__embed_dropout": 0.2},  # which draws from the step's seed, replayed or not
    "a short last batch": {"task__data": "fixed", "task__order": "shuffled"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_replayed_cell_is_the_eager_one(tmp_path: Path, name: str):
    for form in ("eager", "graph"):
        cell = tiny(trainer="gpu", trainer__step=form, **SETTINGS[name])
        assert train(cell, fresh(tmp_path / form))["step_form"] == form
    assert_same(tmp_path / "eager", tmp_path / "graph")


def test_a_killed_cell_goes_on_in_a_graph(tmp_path: Path):
    cell = tiny(trainer="gpu", trainer__step="graph")
    train(cell, fresh(tmp_path / "undisturbed"))
    folder = fresh(tmp_path / "killed")
    cut_off(cell, folder)
    train(cell, folder)
    assert_same(tmp_path / "undisturbed", folder)


def test_auto_takes_a_graph_and_a_divergence_is_noticed_at_its_step(tmp_path: Path):
    cell = tiny(trainer="gpu", lr=1e38, optim__grad_clip=None, optim__warmup=0.0)
    outcome = train(cell, tmp_path)
    assert outcome["step_form"] == "graph"
    assert outcome["status"] == "diverged" and outcome["diverged_step"] == 2


def stepper(form: str, loss: Any) -> Stepper:
    torch.manual_seed(0)
    model = nn.Linear(64, 1, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return Stepper(form, model, optimizer, lambda x: loss(model, x), 1.0)


def waits(model: nn.Module, x: Tensor) -> Tensor:
    """Return a loss that depends on a number read back from the GPU."""
    return model(x).square().mean() * (2 if x.sum().item() > 0 else 1)


def test_a_step_that_waits_is_taken_eagerly_from_the_same_weights():
    auto, eager = stepper("auto", waits), stepper("eager", waits)
    for rate in (0.1, 0.01):
        batch = (torch.full((8, 64), rate, device="cuda"),)
        assert torch.equal(auto(batch, rate), eager(batch, rate))
    assert auto.form.startswith("eager (called a synchronizing CUDA operation (test_step_gpu.py:")
    torch.testing.assert_close(auto.model.state_dict(), eager.model.state_dict(), rtol=0, atol=0)


def test_graphs_of_several_shapes_share_weights_and_memory():
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    graph, eager = stepper("graph", loss), stepper("eager", loss)
    rng = torch.Generator("cuda").manual_seed(0)
    losses = []
    for k in range(12):
        batch = (torch.randn(8 + k % 3, 64, generator=rng, device="cuda"),)
        losses.append((graph(batch, 0.1 / (k + 1)), eager(batch, 0.1 / (k + 1))))
    assert all(torch.equal(a, b) for a, b in losses)
    assert graph.form == "graph"


@pytest.mark.slow
def test_a_compiled_step_is_replayed_too(tmp_path: Path):
    cell = tiny(trainer="gpu", trainer__step="compile", optim__max_epochs=1)
    assert train(cell, fresh(tmp_path / "compiled"))["step_form"] == "compile graph"
    train(tiny(trainer="gpu", optim__max_epochs=1), fresh(tmp_path / "plain"))
    plain, compiled = (checkpoint(tmp_path / name)["model"] for name in ("plain", "compiled"))
    torch.testing.assert_close(compiled, plain, rtol=1e-2, atol=1e-3)
