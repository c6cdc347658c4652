"""Linear attention in chunks, and the properties of its feature maps."""

from copy import deepcopy

import pytest
import torch

from tests.mixers.built import LINEAR, built
from tests.registry import cases, compose
from zoo.config.paths import CONF
from zoo.kernels.linear_attention import chunked as linear_attention_chunked
from zoo.kernels.taylor_scan import chunked as taylor_scan_chunked
from zoo.mixers import linear_attention as module
from zoo.mixers.cases import Case, build, settings
from zoo.mixers.feature_maps import Hedgehog, Performer
from zoo.model import build_model

F64 = torch.float64


@pytest.mark.parametrize("decay", ["none", "per_head"])
@pytest.mark.parametrize("name", LINEAR)
def test_chunks_equal_the_matrix(monkeypatch, name: str, decay: str):
    """Gradients agree at lengths on both sides of a chunk's end."""
    for chunked in (module, taylor_scan_chunked, linear_attention_chunked):
        monkeypatch.setattr(chunked, "CHUNK", 8)
    mixer = built(name, 8, num_heads=2, feature_dim=3, output_norm=True, decay=decay)
    for length in (7, 8, 9, 29):
        x = torch.randn(2, length, 8, dtype=F64, requires_grad=True)
        short = torch.autograd.grad(mixer(x).square().sum(), x)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MATRIX_UP_TO", 0)
            patch.setattr(module, "ON_A_CPU", 0)
            torch.testing.assert_close(torch.autograd.grad(mixer(x).square().sum(), x), short)


def test_favor_estimates_the_exponential():
    """zoology's rows are a thousandth as long as they should be: its estimate knows nothing of q . k."""
    q, k = (0.6 * torch.randn(2, 300, 16, dtype=F64)).unbind()
    phi = Performer(16, num_features=4096, seed=0).double()
    estimate, exact = (phi(q) * phi(k)).sum(-1), ((q * k).sum(-1) / 4).exp()
    assert (estimate / exact).mean() == pytest.approx(1, abs=0.05)
    assert torch.corrcoef(torch.stack([estimate, exact]))[0, 1] > 0.75


def test_favor_is_unbiased_over_seeds():
    q, k = torch.tensor([0.9, -0.5, 0.3, 0.2], dtype=F64), torch.tensor([0.7, 0.1, -0.4, 0.8], dtype=F64)
    maps = [Performer(4, 6, seed=seed).double() for seed in range(2000)]
    estimates = torch.stack([(phi(q[None]) * phi(k[None])).sum() for phi in maps])
    exact = ((q @ k) / 2).exp()
    assert abs(estimates.mean() - exact) < 4 * estimates.std() / len(maps) ** 0.5


def test_favor_rows_are_orthogonal_in_blocks_and_as_long_as_gaussians():
    rows = Performer(16, num_features=1600, seed=0).projection.T.double()
    gram = rows[16:32] @ rows[16:32].T
    assert (gram - gram.diagonal().diag()).abs().max() < 1e-5
    assert rows.square().sum(-1).mean() == pytest.approx(16, rel=0.05)
    assert rows.square().sum(-1).var() == pytest.approx(32, rel=0.3)


def test_favor_of_keys_along_its_rows_stays_finite():
    """Their features are exp(|w|^2 / 2) each: of 200 channels more than float32 holds."""
    mixer = built("Performer", 200, feature_dim=200, feature_map={"num_features": 200}).float()
    aligned = (mixer.map.projection.T * 200**0.25)[None, None].requires_grad_()
    mixer._heads = lambda x: (aligned, aligned, torch.ones(1, 1, 200, 200))
    y = mixer(torch.zeros(1, 200, 200))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert aligned.grad is not None and aligned.grad.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("case", [case for case in cases(CONF) if "feature_map" in settings(case)], ids=str)
def test_only_weights_of_one_sign_are_divided_by_their_sum(case: Case):
    """zoology divides q . k by its own sum, which passes through zero."""
    mixer = build(case)
    q, k = mixer._learned(*torch.randn(2, 1, 1, 30, mixer.feature_dim, dtype=F64))
    assert mixer.eps is None or (mixer.map.weights(q, k) >= 0).all()


def test_all_poly_keeps_its_own_initial_values_in_a_model():
    """The reference writes N(0, 0.02^2) over every linear layer of a finished model."""
    cell = compose(
        ["mixer=all_poly", "d_model=64", "mixer.feature_dim=64", "mixer.feature_map.num_features=64"]
    )
    forms = build_model(cell).mixers[1].map
    for rows in (forms.squared, forms.squares):
        assert rows.std().item() == pytest.approx(1 / 8, rel=0.05)


def test_hedgehog_starts_as_two_softmaxes_of_its_input():
    x, phi = torch.randn(20, 5), Hedgehog(5)
    y = phi(phi.learned(x))
    torch.testing.assert_close(y[:, :5], x.softmax(-1))
    torch.testing.assert_close(y[:, 5:], (-x).softmax(-1))


@pytest.mark.parametrize(("name", "extra"), [("Hedgehog", 12), ("ReBased", 6), ("Based", 0)])
def test_tie_qk_shares_the_maps_parameters_of_queries_and_keys(name: str, extra: int):
    sizes = {}
    for tie in (True, False):
        mixer = built(name, 8, num_heads=2, feature_dim=3, tie_qk=tie)
        sizes[tie] = sum(p.numel() for p in mixer.parameters())
        assert (mixer.key_map is None) == (tie or extra == 0)
    assert sizes[False] - sizes[True] == extra


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_favor_reads_and_learns_at_any_scale(scale: float):
    """Features as they are vanish far out in float32: with an absolute eps outputs and gradients are 0."""
    mixer = built("Performer", 8, num_heads=1, feature_dim=4, feature_map={"num_features": 16}).float()
    x = scale * torch.randn(1, 200, 8)
    exact = deepcopy(mixer).double()(x.double())
    y = mixer(x)
    y.square().mean().backward()
    torch.testing.assert_close(y.double(), exact, rtol=1e-3, atol=1e-3 * scale)
    assert (y != 0).any(-1).all() and mixer.proj.weight.grad.any()
