"""No input makes a mixer overflow: large inputs, long sequences, both precisions."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from hydra.utils import instantiate

from tests.registry import cases
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, awake, settings

LONG, SHORT = 4096, 300  # tokens: of a yaml's own setting at the scales of LENGTHENED, of all else
SCALES, LENGTHENED = (1e-3, 1e-2, 0.1, 1, 10, 100, 1000), (1, 100)  # of the inputs
FEW = (1e-3, 1, 100, 1000)  # of these; the last of LENGTHENED among them
CASES = cases()
PRECISIONS = ("float32", "bfloat16")


def built(case: Case) -> Mixer:
    """In float32, as it trains, with room for LONG tokens where its length is limited."""
    torch.default_generator.manual_seed(0)
    return awake(instantiate(_roomy(settings(case)), _convert_="all"))


def _roomy(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    return {k: LONG if k == "max_len" and isinstance(v, int) else _roomy(v) for k, v in node.items()}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_are_finite(case: Case, precision: str):
    check_all(case, precision, FEW, LENGTHENED[-1:])


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_at_every_scale(case: Case, precision: str):
    check_all(case, precision, SCALES, LENGTHENED)


def check_all(case: Case, precision: str, scales: tuple[float, ...], lengthened: tuple[float, ...]) -> None:
    with torch.random.fork_rng():
        mixer = built(case)
    for scale in scales:
        own = case == replace(case, changes={})
        check_finite(mixer, scale, precision, LONG if own and scale in lengthened else SHORT)


def check_finite(mixer: Mixer, scale: float, precision: str, length: int) -> None:
    mixer.zero_grad()
    x = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(1)) * scale
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else nullcontext():
        y = mixer(x)
    assert y.isfinite().all(), f"outputs of inputs times {scale}"
    y.float().square().mean().backward()
    for name, tensor in [("input", x), *mixer.named_parameters()]:
        assert tensor.grad is None or tensor.grad.isfinite().all(), f"{name}, {scale}"
    assert x.grad is not None
