"""Run by test_interpreted.py: Taylor linear attention with its state, in Triton's interpreter, in float32."""

import pytest
import torch

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.taylor_scan import taylor_scan, taylor_scan_reference
from zoo.kernels.taylor_scan import triton_launches as launch
from zoo.kernels.taylor_scan.features import num_features
from zoo.kernels.taylor_scan.triton import taylor_scan_triton, unfit

EPS = 0.5  # large, so that leaving it out is seen
Sizes = tuple[int, int, int, int, int]  # B, H, T, C, V


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one block of queries, so that few tokens are many chunks."""
    monkeypatch.setattr(launch, "CHUNK", 64)


def inputs_of(size: Sizes, started: bool, seed: int = 0) -> list:
    """q, k and v as a mixer hands them over, pieces of one projection; a state that such keys could leave."""
    batch, count, length, channels, width = size
    rng = torch.Generator().manual_seed(seed)
    whole = torch.randn(batch, length, count * (2 * channels + width), generator=rng)
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([channels, channels, width], -1)
    qkv = [part.detach().requires_grad_() for part in parts]
    if not started:
        return [*qkv, EPS, None, None]
    k, v = (torch.randn(batch, count, 30, n, generator=rng) for n in (channels, width))
    _, kv, z = taylor_scan_reference(k, k, v, EPS)
    return [*qkv, EPS, kv.requires_grad_(), z.requires_grad_()]


@pytest.mark.parametrize(
    ("size", "started"),
    [
        ((2, 1, 37, 3, 5), False),
        ((1, 1, 150, 5, 33), True),
        pytest.param((2, 1, 37, 3, 5), True, marks=pytest.mark.slow),
        pytest.param((1, 1, 150, 5, 33), False, marks=pytest.mark.slow),
        *(pytest.param((1, 1, 128, 16, 16), started, marks=pytest.mark.slow) for started in (False, True)),
    ],
    ids=str,
)
def test_outputs_states_and_gradients(size: Sizes, started: bool):
    as_near_as_torch(taylor_scan_triton, taylor_scan_reference, inputs_of(size, started))


def test_many_channels_and_columns():
    """More tiles of features than one, and columns in parts."""
    as_near_as_torch(taylor_scan_triton, taylor_scan_reference, inputs_of((1, 1, 66, 17, 33), True))


@pytest.mark.parametrize("started", [pytest.param(False, marks=pytest.mark.slow), True])
def test_spans_side_by_side(monkeypatch: pytest.MonkeyPatch, started: bool):
    """Few heads: what each span of chunks adds comes first, forward and from the end."""
    monkeypatch.setattr(launch, "PROGRAMS", 3)
    monkeypatch.setattr(launch, "SPAN", 2)
    assert launch.spans_of(1, 5) == 2
    as_near_as_torch(taylor_scan_triton, taylor_scan_reference, inputs_of((1, 1, 290, 2, 3), started))


@pytest.mark.parametrize("started", [False, True])
def test_one_token(started: bool):
    for size in ((2, 1, 1, 5, 6), (1, 1, 1, 3, 66)):
        as_near_as_torch(taylor_scan_triton, taylor_scan_reference, inputs_of(size, started))


@torch.no_grad()
@pytest.mark.parametrize("cut", [1, 64, 99])
def test_a_state_is_all_that_a_head_leaves(cut: int):
    """In two parts, the second token by token at its end."""
    q, k, v, *_ = inputs_of((1, 1, 100, 4, 6), False)
    y, kv, z = taylor_scan_triton(q, k, v, EPS)
    parts, state = [], (None, None)
    for lo, hi in ((0, cut), (cut, 99), (99, 100)):
        if lo < hi:
            y_n, *state = taylor_scan_triton(*(x[:, :, lo:hi] for x in (q, k, v)), EPS, *state)
            parts.append(y_n)
    torch.testing.assert_close([torch.cat(parts, 2), *state], [y, kv, z])


def test_a_state_alone_can_be_asked_for_its_gradients():
    """y takes no part in the loss, or z none."""
    q, k, v, eps, kv, z = inputs_of((1, 1, 70, 3, 4), True)
    for pick in (lambda out: out[1].square().sum(), lambda out: out[2].square().sum()):
        mine, true = (
            torch.autograd.grad(pick(scan(q, k, v, eps, kv, z)), [k, v, kv, z], materialize_grads=True)
            for scan in (taylor_scan_triton, taylor_scan_reference)
        )
        torch.testing.assert_close(mine, true, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("batch", "length", "in_dims"),
    [(2, 1, (0, 0, 0, None, 0, 0)), (1, 66, (0, None, 2, None, None, 0))],
)
def test_stacked_members_are_more_of_the_batch(batch: int, length: int, in_dims: tuple[int | None, ...]):
    members_as_alone(taylor_scan_triton, inputs_of((batch, 1, length, 2, 3), True), in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(taylor_scan_triton, inputs_of((1, 1, 20, 2, 3), True))


def test_a_mixer_runs_it_when_asked():
    """From a prompt, in one go and token by token, and a whole sequence through the matrix of weights."""
    from zoo.mixers import LinearAttention
    from zoo.mixers.feature_maps import Taylor2

    mixer = LinearAttention(d_model=12, num_heads=2, feature_dim=5, feature_map=Taylor2, eps=EPS)
    x = torch.randn(2, 37, 12)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :30])
        tail, state = mixer.extend(x[:, 30:36], state)
        last, _ = mixer.extend(x[:, 36:], state)
    assert choice.record() == {"taylor_attention": "triton", "taylor_scan": "triton"}
    torch.testing.assert_close(torch.cat([head, tail, last], 1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"q": torch.zeros(1, 1, 4, 33), "k": torch.zeros(1, 1, 4, 33)},
            r"feature_dim \(=33\) must be at most",
        ),
        ({"v": torch.zeros(1, 1, 4, 6).double()}, "float64"),
        ({"kv": torch.zeros(1, 1, 10, 6).double()}, "kv and z must be float32"),
        ({"k": torch.zeros(1, 1, 3, 3)}, "same B, H and T"),
        ({"z": None}, "kv and z come together"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(change: dict, says: str):
    q, k, v, eps, kv, z = inputs_of((1, 1, 4, 3, 6), True)
    inputs = {"q": q, "k": k, "v": v, "eps": eps, "kv": kv, "z": z} | change
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run taylor_scan: .*{says}"):
        taylor_scan(*inputs.values())


def test_short_of_nothing_else():
    assert unfit(*inputs_of((1, 1, 3, 32, 200), True)) is None
    assert num_features(32) == 561
