"""The chunk sizes that SE-Attn draws in training."""

from typing import Any

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from tests.mixers.spans import make, tokens
from zoo.mixers.se_attn import SEAttn


def sizes_drawn(mixer: SEAttn, passes: int) -> list[int]:
    """The first chunk's length of each of some training passes, read off the gradient."""
    found = []
    for _ in range(passes):
        x = tokens(12, batch=1).requires_grad_()
        grads = torch.stack([torch.autograd.grad(row.sum(), x, retain_graph=True)[0] for row in mixer(x)[0]])
        sees_first = (grads[:, 0, 0] != 0).any(-1)
        found.append(int(sees_first.sum()))
    return found


def test_chunk_sizes_are_drawn_in_training_alone_and_the_draws_survive_a_checkpoint():
    settings: dict[str, Any] = {"chunk_sampling": "per_forward", "eval_chunk_size": 8}
    mixer = make("none", [4, 8, 12], **settings)
    assert sizes_drawn(mixer.eval(), 4) == [8] * 4
    first = sizes_drawn(mixer.train(), 12)
    assert set(first) == {4, 8, 12}
    saved = mixer.state_dict()
    later = sizes_drawn(mixer, 12)
    resumed = make("none", [4, 8, 12], **settings).train()
    assert sizes_drawn(resumed, 12) == first, "the draws are not a function of the seed"
    resumed = make("none", [4, 8, 12], **settings).train()
    resumed.load_state_dict(saved)
    assert sizes_drawn(resumed, 12) == later != first
    assert sizes_drawn(make("none", [4, 8, 12], chunk_seed=1, **settings).train(), 12) != first
    _, state = mixer.extend(tokens(11))
    assert state.k is not None
    assert state.k.shape[2] == 11 % 8, "decoding must use eval_chunk_size in training mode, too"


def test_drawing_chunk_sizes_leaves_the_global_generators_alone():
    mixer = make("token", [4, 8], chunk_sampling="per_chunk", eval_chunk_size=8).train()
    before = torch.get_rng_state()
    mixer(tokens())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("sampling", ["per_forward", "per_chunk"])
def test_a_stacked_population_draws_the_chunks_that_its_members_draw_alone(sampling: str):
    settings = {"chunk_sampling": sampling, "eval_chunk_size": 8, "num_heads": 2}
    members = [make("prefix", [4, 8, 12], **settings).train() for _ in range(2)]
    torch.nn.init.orthogonal_(members[1].qkv.proj.weight)
    x = torch.stack([tokens(seed=1), tokens(seed=2)])
    weights, buffers = stack_module_state(members)
    stacked = make("prefix", [4, 8, 12], **settings).train()
    for _ in range(4):
        together = vmap(lambda w, b, x: functional_call(stacked, (w, b), (x,)))(weights, buffers, x)
        together.square().sum().backward()
        for i, member in enumerate(members):
            alone = member(x[i])
            alone.square().sum().backward()
            torch.testing.assert_close(together[i], alone, rtol=1e-10, atol=1e-12)
    for i, member in enumerate(members):
        torch.testing.assert_close(weights["qkv.proj.weight"].grad[i], member.qkv.proj.weight.grad)
