"""SE-Attn: no retrieval, the size of its state, and the chunks that it draws."""

from typing import Any

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from tests.definitions.se_attn import definition
from tests.mixers.built import tokens
from tests.mixers.spans import LENGTH, D, each_selection, each_shape, make
from zoo.kernels.span_retrieval.chunks import drawn_chunks
from zoo.mixers.se_attn import SEAttn


@each_selection
def test_chunks_of_several_sizes_follow_the_definition(selection: str):
    sizes = {"chunk_sampling": "per_chunk", "eval_chunk_size": 8, "num_heads": 2}
    mixer, x = make(selection, [4, 8, 12], **sizes).train(), tokens().requires_grad_()
    y = mixer(x)
    chunks = drawn_chunks([4, 8, 12], True, 0, mixer.chunks.passes, LENGTH, x.device)
    assert len(set(chunks.starts.diff().tolist())) > 1
    expected = definition(mixer, x, chunks.starts.tolist())
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-12)
    gradients = [torch.autograd.grad(z.sin().sum(), [x, *mixer.parameters()]) for z in (y, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


@each_selection
def test_retrieving_nothing_is_attention_inside_the_chunk_and_keeps_no_more(selection: str):
    nothing, no_memory, x = make(selection, top_k=0), make("none"), tokens()
    assert torch.equal(nothing(x), no_memory(x))
    assert nothing.causal
    assert all(nothing.state_size(n) == no_memory.state_size(n) for n in range(30))


@each_shape
@each_selection
def test_the_sizes_are_the_published_formulas(selection: str, shape: dict[str, Any]):
    mixer = make(selection, **shape)
    heads = shape.get("num_heads", 1)
    d_kv = D // heads * shape.get("num_kv_heads", heads)
    sets = shape.get("num_kv_heads", heads) if shape.get("retrieval") == "per_group" else 1
    for n in range(1, 30):
        r, k_eff = n % 8, min(2, n // 8 * 2)
        resident, touched, frozen = 2 * n * d_kv, 2 * d_kv * (r + 4 * k_eff), 0
        if selection == "none":
            resident = touched = 2 * d_kv * r
        elif selection != "random":
            resident += D * (n // 4 + n % 4) + D * (selection in ("prefix", "prev"))
            touched += D * (n // 4) // (1 if selection in ("token", "prefix") else 8)
        if selection in ("first", "prev") and r:
            frozen = k_eff * sets
        size = mixer.state_size(n)
        assert (size.paper, size.resident, size.touched, size.aux_ints) == (None, resident, touched, frozen)
        _, state = mixer.extend(tokens(n))
        assert frozen == (0 if state.memory.blocks is None else state.memory.blocks[0].numel())
    assert mixer.state_size(0).resident == mixer.state_size(0).touched == 0


def sizes_drawn(mixer: SEAttn, passes: int) -> list[int]:
    """Return the length of the first chunk of each training pass, read off the gradient."""
    lengths = []
    for _ in range(passes):
        x = tokens(12, batch=1).requires_grad_()
        grads = torch.stack([torch.autograd.grad(row.sum(), x, retain_graph=True)[0] for row in mixer(x)[0]])
        sees_first = (grads[:, 0, 0] != 0).any(-1)
        lengths.append(int(sees_first.sum()))
    return lengths


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
    assert state.k.shape[2] == 11 % 8, "decoding must use eval_chunk_size in training mode, too"


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
