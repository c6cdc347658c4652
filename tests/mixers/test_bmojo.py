"""B'MOJO: the tokens it keeps, ties included, and the size of its state."""

import pytest
import torch

from tests.mixers.built import built, tokens
from zoo.mixers.base import Mixer
from zoo.mixers.bmojo import State
from zoo.mixers.eidetic import best, places
from zoo.mixers.state import StateSize

SMALL = {"d_model": 8, "num_heads": 2, "window": 3, "d_state": 4, "num_eidetic": 0}


def small(**settings: object) -> Mixer:
    return built("BMojo", **(SMALL | settings))


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
@pytest.mark.parametrize("field", State.selects)
def test_every_scalar_that_only_selects_changes_a_later_output(field: str):
    """A token whose scalar is made large is kept, or is predicted otherwise."""
    mixer, x, later = small(num_eidetic=2), tokens(30, 1, 8), tokens(40, 1, 8, seed=1)
    _, state = mixer.extend(x)
    assert state.eidetic is not None
    y = mixer.extend(later, state)[0]
    part = getattr(state.eidetic, field)
    for i in range(part.numel()):
        other = part.clone()
        other.view(-1)[i] += 100.0
        moved = state._replace(eidetic=state.eidetic._replace(**{field: other}))
        assert not torch.equal(mixer.extend(later, moved)[0], y), (field, i)


def test_state_counts():
    """SSM + 2 d_kv (3 W - 2), and for each token kept its key, its value and a number."""
    ssm = 16 * 4 + 16 * 3
    assert small(window=6).state_size(100).resident == ssm + 2 * 8 * (3 * 6 - 2)
    assert small(window=6).state_size(100).touched == ssm + 2 * 8 * (2 * 6 - 1)
    assert small(window=6, num_eidetic=5).state_size(100) == StateSize(
        None, ssm + 16 * (16 + 5) + 5 + 5 + 4 * 8, ssm + 16 * (11 + 5) + 5 + 5 + 4 * 8
    )
    assert small(window=6, num_kv_heads=1).state_size(100).resident == ssm + 2 * 4 * 16
