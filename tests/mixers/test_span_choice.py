"""The blocks that SE-Attn retrieves: ties, precision, frozen and random choices, dropped blocks."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from tests.mixers.built import tokens
from tests.mixers.spans import LENGTH, D, make
from zoo.kernels.span_retrieval.scores import random_scores
from zoo.kernels.span_retrieval.selection import admissible_blocks, best_blocks
from zoo.mixers.se_attn import SEAttn, State


@pytest.mark.parametrize("selection", ["token", "first", "prefix", "prev"])
def test_ties_go_to_the_lowest_blocks_in_both_paths(selection: str):
    mixer, x = make(selection), tokens().requires_grad_()
    with torch.no_grad():
        mixer.qkv.proj.weight[:D].zero_()  # no query: every score is 0
    y, state = mixer(x), None
    (grad,) = torch.autograd.grad(y[:, 33].sum(), x)
    assert (grad != 0).any(-1)[0].nonzero().flatten().tolist() == [*range(8), 32, 33]
    for t in range(LENGTH):
        step, state = mixer.extend(x[:, t : t + 1], state)
        torch.testing.assert_close(step, y[:, t : t + 1], rtol=1e-10, atol=1e-12)


def test_equal_scores_choose_the_lowest_of_many():
    scores = torch.tensor([1.0, 2.0] * 40).expand(1, 1, 3, 80)
    admissible = admissible_blocks(torch.tensor([0, 12, 320]), 4, 0, 80)
    chosen = best_blocks(scores, admissible, 3)[0, 0]
    assert [row.nonzero().flatten().tolist() for row in chosen] == [[], [0, 1, 2], [1, 3, 5]]


@pytest.mark.parametrize("selection", ["token", "first", "prefix", "prev", "chunk"])
def test_no_gradient_passes_the_choice(selection: str):
    mixer = make(selection)
    _, state = mixer.extend(tokens().requires_grad_())
    for field in State.selects:
        part = getattr(state.memory, field)
        assert part is None or not part.requires_grad, field
    assert state.k.requires_grad


def test_blocks_are_scored_in_the_precision_of_the_input_and_never_below_float32():
    for dtype, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        _, state = make().to(dtype).extend(tokens().to(dtype))
        assert state.memory.summaries.dtype == expected
    with torch.autocast("cpu", torch.bfloat16):
        summaries = make().float().extend(tokens().float())[1].memory.summaries
    exact = make().float().extend(tokens().float())[1].memory.summaries
    torch.testing.assert_close(summaries, exact, rtol=0.1, atol=0.02)  # the projections are rounded
    assert (summaries.bfloat16() != summaries).any(), "the summaries themselves are rounded"


@torch.no_grad()
def dead(mixer: SEAttn, state: State, field: str) -> Tensor:
    """Return the scalars of a field that, changed alone, change no output of many continuations."""
    part = getattr(state.memory, field)[0]
    left = torch.arange(part.numel())
    for seed in range(200):
        x = tokens(40, batch=1, seed=seed + 9)
        plain, _ = mixer.extend(x, repeated(state, 1))
        change = F.one_hot(left, part.numel()).double().unflatten(1, part.shape) * (-20, 3, 20, -3)[seed % 4]
        changed = repeated(state, len(left))
        changed = changed._replace(memory=changed.memory._replace(**{field: part + change}))
        y, _ = mixer.extend(x.expand(len(left), -1, -1), changed)
        left = left[(y - plain).abs().amax((1, 2)) < 1e-9]
        if not len(left):
            break
    return left


def repeated(state: State, times: int) -> State:
    return tree_map_only(Tensor, lambda part: part[:1].expand(times, *part.shape[1:]), state)


@pytest.mark.parametrize("shape", [{}, {"num_heads": 4, "num_kv_heads": 2, "retrieval": "per_group"}])
@pytest.mark.parametrize("selection", ["token", "first", "prefix", "prev"])
def test_every_scalar_that_only_selects_changes_a_later_output(selection: str, shape: dict[str, Any]):
    mixer = make(selection, top_k=1, **shape)
    _, state = mixer.extend(tokens(LENGTH + 2))
    for field in State.selects:
        if getattr(state.memory, field) is not None:
            assert not len(dead(mixer, state, field)), field
    assert (state.memory.query_sum is not None) == (selection in ("prefix", "prev"))


@pytest.mark.parametrize("selection", ["first", "prev"])
def test_the_frozen_choice_is_followed(selection: str):
    mixer, x = make(selection, top_k=1), tokens()
    _, state = mixer.extend(x[:, :36])
    memory = state.memory
    y, _ = mixer.extend(x[:, 36:], state)
    for j in range(1, 8):
        other = state._replace(memory=memory._replace(blocks=(memory.blocks + j) % 8))
        assert not torch.allclose(y, mixer.extend(x[:, 36:], other)[0])


def test_random_blocks_are_a_uniform_draw_of_seed_and_chunk():
    def draw(seed: int) -> Tensor:
        scores = random_scores(seed, 2, torch.arange(4000), 16)
        return best_blocks(scores, torch.arange(16) < 9, 3)[0]

    chosen = draw(seed=5)
    assert (chosen.sum(-1) == 3).all()
    assert chosen.double().mean(1)[:, :9].sub(1 / 3).abs().max() < 0.03
    pairs = chosen.double().transpose(1, 2) @ chosen.double() / 4000
    together = pairs[:, :9, :9][:, ~torch.eye(9, dtype=torch.bool)]
    assert (together - 3 / 9 * 2 / 8).abs().max() < 0.02
    assert torch.equal(chosen, draw(seed=5))
    assert not torch.equal(chosen, draw(seed=6))
    assert not torch.equal(chosen[0], chosen[1]), "both index sets draw the same"
    assert not torch.equal(make("random")(tokens()), make("random", retrieval_seed=1)(tokens()))


def test_a_bounded_memory_forgets_the_oldest_blocks():
    """Full at the chunk's end, with 3 blocks: a token reaches 12 tokens before its chunk and no more."""
    mixer, x = make(chunk_size=8, max_blocks=3, top_k=3), tokens(40)
    _, state = mixer.extend(x)
    assert state.k.shape[2] == 12
    with torch.no_grad():
        mixer.qkv.proj.weight[:D].zero_()
    far = torch.cat([tokens(20, seed=1), x[:, 20:]], dim=1)
    assert torch.equal(mixer(far)[:, 32:], mixer(x)[:, 32:])
    near = torch.cat([x[:, :20], tokens(1, seed=1), x[:, 21:]], dim=1)
    assert ((mixer(near) - mixer(x)).abs().amax((0, 2))[32:] > 0).all()
