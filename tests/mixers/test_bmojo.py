"""B'MOJO: who sees what, and who is kept."""

import pytest
import torch
from torch import Tensor

from zoo.mixers import BMojo
from zoo.mixers.base import Mixer
from zoo.mixers.bmojo import State
from zoo.mixers.eidetic import best, places
from zoo.state import StateSize


def built(**settings: object) -> Mixer:
    torch.manual_seed(0)
    small = {"d_model": 8, "num_heads": 2, "window": 3, "d_state": 4, "num_eidetic": 0}
    return BMojo(**(small | settings)).double().eval()


def tokens(length: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(1, length, 8, dtype=torch.float64, generator=rng)


@torch.no_grad()
def test_fading_tokens_are_those_of_one_window_before_the_window():
    """Token 20 with window 3 reads tokens 18 .. 20, and Mamba at 15 .. 17: its output there alone matters."""
    mixer, x = built(), tokens(21)
    y, ssm_forward = mixer(x)[:, 20], mixer.ssm.extend
    reached = []
    for t in range(21):

        def without_one(x: Tensor, state: object, at: int = t) -> tuple[Tensor, object]:
            faded, state = ssm_forward(x, state)
            return torch.cat([faded[:, :at], 1 + faded[:, at : at + 1], faded[:, at + 1 :]], dim=1), state

        mixer.ssm.extend = without_one
        if not torch.equal(mixer(x)[:, 20], y):
            reached.append(t)
    assert reached == [15, 16, 17]


@torch.no_grad()
def test_tokens_in_the_window_are_read_exactly():
    mixer, x = built(), tokens(21)
    mixer.ssm.extend = lambda x, state: (torch.zeros_like(x), None)
    y = mixer(x)[:, 20]
    moved = [t for t in range(21) if not torch.equal(mixer(x.index_fill(1, torch.tensor(t), 0))[:, 20], y)]
    assert moved == [18, 19, 20]


def test_the_best_so_far_are_those_that_a_buffer_would_hold():
    scores = torch.tensor([[3.0, 1, 3, 5, 0, 3, 9, 3], [1, 1, 1, 1, 1, 1, 1, 2]])
    open_to = torch.ones(8, 8, dtype=torch.bool).tril()
    chosen = best(scores, open_to, most=3)
    for row, chose in zip(scores.tolist(), chosen, strict=True):
        buffer: list[int] = []
        for t, score in enumerate(row):
            smallest = min(buffer, key=lambda j: (row[j], -j)) if len(buffer) == 3 else None
            if smallest is None or score > row[smallest]:
                buffer = sorted({*buffer, t} - {smallest})
            assert chose[t].nonzero().flatten().tolist() == buffer
            assert places(chose[t : t + 1], len(buffer))[0].tolist() == buffer


@torch.no_grad()
def test_a_surprise_is_kept_and_repetition_is_not():
    """Tokens that repeat are predicted by the mean of those before; the odd ones out stay."""
    mixer, x = built(num_eidetic=2), torch.ones(1, 60, 8, dtype=torch.float64)
    x[:, 20], x[:, 35] = -4.0, 6.0
    _, state = mixer.extend(x)
    assert state.eidetic is not None
    k, v = mixer.qkv(x[:, [20, 35]])[1:]
    torch.testing.assert_close(state.eidetic.tokens, torch.stack([k, v], dim=1))


@torch.no_grad()
@pytest.mark.parametrize("field", State.selects)
def test_what_only_decides_who_is_kept_changes_a_later_output(field: str):
    """Each scalar of it: made large, the token it belongs to is kept, or is predicted otherwise."""
    mixer, x, later = built(num_eidetic=2), tokens(30), tokens(40, seed=1)
    _, state = mixer.extend(x)
    assert state.eidetic is not None
    y = mixer.extend(later, state)[0]
    part = getattr(state.eidetic, field)
    for i in range(part.numel()):
        other = part.clone()
        other.view(-1)[i] += 100.0
        moved = state._replace(eidetic=state.eidetic._replace(**{field: other}))
        assert not torch.equal(mixer.extend(later, moved)[0], y), (field, i)


@torch.no_grad()
def test_without_a_window_to_spare_kept_tokens_make_it_full_attention():
    """With room for all and no fading token in the way, old tokens have their logits raised: that is all."""
    mixer, x = built(num_eidetic=100), tokens(40)
    mixer.ssm.extend = lambda x, state: (torch.zeros_like(x), None)
    mixer.fading_proj.weight.zero_()
    q, k, v = mixer.qkv(x)
    innovation, _ = mixer.memory.innovation(x, torch.zeros(1, 4, 8, dtype=torch.float64))
    age = torch.arange(40)[:, None] - torch.arange(40)
    weights = ((q @ k.mT) / 2).exp() * torch.where(age >= 3, 1 + innovation, 1.0) * (age >= 0)
    nothing = ((age >= 3) & (age < 6)).sum(1)  # fading keys and values of zero: each adds one to the sum
    y = (weights @ v) / (weights.sum(-1) + nothing)[..., None]
    torch.testing.assert_close(mixer(x), mixer.out_proj(y.transpose(1, 2).flatten(2)))


def test_state_counts():
    """SSM + 2 d_kv (3 W - 2), and for each token kept its key, its value and a number."""
    ssm = 16 * 4 + 16 * 3
    assert built(window=6).state_size(100).resident == ssm + 2 * 8 * (3 * 6 - 2)
    assert built(window=6).state_size(100).touched == ssm + 2 * 8 * (2 * 6 - 1)
    assert built(window=6, num_eidetic=5).state_size(100) == StateSize(
        None,
        ssm + 16 * (16 + 5) + 5 + 5 + 4 * 8,
        ssm + 16 * (11 + 5) + 5 + 5 + 4 * 8,
    )
    assert built(window=6, num_kv_heads=1).state_size(100).resident == ssm + 2 * 4 * 16
