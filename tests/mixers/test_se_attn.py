"""SE-Attn against its definition, written out with loops, and the facts that follow from it."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from zoo.kernels import span_retrieval as spans
from zoo.mixers.se_attn import SEAttn, State

D, LENGTH = 16, 37
CAUSAL = ("token", "first", "prefix", "prev", "random", "none")
SELECTIONS = (*CAUSAL, "chunk")
SHAPES = {
    "one head": {},
    "shared": {"num_heads": 2, "position": "rope", "bias": True},
    "gqa": {"num_heads": 4, "num_kv_heads": 2, "retrieval": "per_group"},
}
each_selection = pytest.mark.parametrize("selection", SELECTIONS)
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def make(selection: str = "token", chunk_size: Any = 8, **changes: Any) -> SEAttn:
    torch.manual_seed(1)
    settings = {"num_heads": 1, "block_size": 4, "top_k": 2} | changes
    return SEAttn(D, selection=selection, chunk_size=chunk_size, **settings).double()


def tokens(length: int = LENGTH, batch: int = 2, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, D, dtype=torch.float64, generator=rng)


def turned(x: Tensor) -> Tensor:
    """RoPE by complex numbers: channel i and i + C/2 of the token at t turn by t * 10000**(-2i/C)."""
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None, None] * rate
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], dim=-1)


def heads_of(mixer: SEAttn, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[T H C] queries, keys and values of one sequence, keys and values repeated to every query head."""
    heads, groups = mixer.qkv.num_heads, mixer.qkv.num_kv_heads
    parts = mixer.qkv.proj(row).split([D, groups * D // heads, groups * D // heads], dim=-1)
    q, k, v = (part.reshape(len(row), -1, D // heads) for part in parts)
    if mixer.qkv.position == "rope":
        q, k = turned(q), turned(k)
    group = [h * groups // heads for h in range(heads)]
    return q, k[:, group], v[:, group]


def summary(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """c of one block and head ([S C] each): attention inside it, averaged."""
    outputs = [(k @ one / math.sqrt(len(one))).softmax(0) @ v for one in q]
    return sum(outputs) / len(outputs)


def scoring_query(selection: str, q: Tensor, t: int, starts: list[int], i: int) -> Tensor:
    start, end = starts[i], [*starts, len(q)][i + 1]
    if selection == "token":
        return q[t]
    if selection == "first":
        return q[start]
    if selection == "prefix":
        return sum(q[s] for s in range(start, t + 1))
    if selection == "chunk":
        return sum(q[s] for s in range(start, end))
    return sum((q[s] for s in range(starts[i - 1], start)), torch.zeros_like(q[0])) if i else 0 * q[0]


def by_definition(mixer: SEAttn, x: Tensor, starts: list[int]) -> Tensor:
    """Spec: scores over the admissible blocks, the best of them by (score, lowest id), one softmax."""
    size, heads, sets = mixer.block_size, mixer.qkv.num_heads, mixer.index_sets
    drawn = spans.random_scores(mixer.retrieval_seed, sets, torch.arange(99), 99)[0]
    rows = []
    for row in x:
        q, k, v = heads_of(mixer, row)
        blocks = [slice(j * size, (j + 1) * size) for j in range(len(row) // size)]
        c = [torch.stack([summary(q[b, h], k[b, h], v[b, h]) for h in range(heads)]).detach() for b in blocks]
        out = torch.zeros_like(q)
        for t in range(len(row)):
            i = max(i for i, start in enumerate(starts) if start <= t)
            admissible = [j for j, block in enumerate(blocks) if block.stop <= starts[i]]
            for h in range(heads):
                one_set = h * sets // heads
                sharing = [g for g in range(heads) if g * sets // heads == one_set]
                if mixer.selection == "random":
                    score = {j: drawn[one_set, i, j].item() for j in admissible}
                else:
                    u = scoring_query(mixer.selection, q.detach(), t, starts, i)
                    score = {j: sum((u[g] @ c[j][g]).item() for g in sharing) for j in admissible}
                best = sorted(admissible, key=lambda j: (-score[j], j))[: mixer.top_k]
                best = [] if mixer.selection == "none" else best
                seen = [s for j in best for s in range(j * size, (j + 1) * size)]
                seen += range(starts[i], t + 1)
                weights = (k[seen, h] @ q[t, h] / math.sqrt(D // heads)).softmax(0)
                out[t, h] = weights @ v[seen, h]
        rows.append(mixer.out_proj(out.flatten(1)))
    return torch.stack(rows)


def full_attention(mixer: SEAttn, x: Tensor) -> Tensor:
    q, k, v = (torch.stack(p).transpose(1, 2) for p in zip(*(heads_of(mixer, row) for row in x), strict=True))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixer.out_proj(y.transpose(1, 2).flatten(2))


def gradients(mixer: SEAttn, x: Tensor, y: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(y.sin().sum(), [x, *mixer.parameters()]))


def assert_same_function(mixer: SEAttn, x: Tensor, y: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(gradients(mixer, x, y), gradients(mixer, x, expected), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)


@each_shape
@each_selection
def test_outputs_and_gradients_follow_the_definition(selection: str, shape: dict[str, Any]):
    mixer, x = make(selection, **shape), tokens().requires_grad_()
    assert_same_function(mixer, x, mixer(x), by_definition(mixer, x, [*range(0, LENGTH, 8)]))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_chunks_of_several_sizes_follow_the_definition(selection: str):
    sizes = {"chunk_sampling": "per_chunk", "eval_chunk_size": 8, "num_heads": 2}
    mixer, x = make(selection, [4, 8, 12], **sizes).train(), tokens().requires_grad_()
    y = mixer(x)
    chunks = spans.drawn_chunks([4, 8, 12], True, 0, mixer.passes, LENGTH, x.device)
    assert len(set(chunks.starts.diff().tolist())) > 1
    assert_same_function(mixer, x, y, by_definition(mixer, x, chunks.starts.tolist()))


@each_shape
@pytest.mark.parametrize("selection", [s for s in SELECTIONS if s != "none"])
def test_retrieving_every_block_is_full_attention(selection: str, shape: dict[str, Any]):
    mixer, x = make(selection, top_k=99, **shape), tokens().requires_grad_()
    assert_same_function(mixer, x, mixer(x), full_attention(mixer, x))


@each_selection
@pytest.mark.parametrize("length", [1, 31, 32])
def test_a_chunk_as_long_as_the_sequence_is_full_attention(selection: str, length: int):
    mixer, x = make(selection, 32, num_heads=2), tokens(length)
    torch.testing.assert_close(mixer(x), full_attention(mixer, x), rtol=1e-10, atol=1e-12)


@each_selection
def test_retrieving_nothing_is_attention_inside_the_chunk_and_keeps_no_more(selection: str):
    nothing, no_memory, x = make(selection, top_k=0), make("none"), tokens()
    assert torch.equal(nothing(x), no_memory(x))
    assert nothing.causal
    assert all(nothing.state_size(n) == no_memory.state_size(n) for n in range(30))


def test_with_chunks_of_one_token_four_selections_are_one():
    x = tokens()
    token, *others = (make(s, 1, block_size=1)(x) for s in ("token", "first", "prefix", "chunk"))
    assert not torch.allclose(token, make("prev", 1, block_size=1)(x))
    for other in others:
        torch.testing.assert_close(other, token, rtol=1e-10, atol=1e-12)


def test_at_the_first_token_of_a_chunk_three_selections_are_one():
    x = tokens()
    token, first, prefix = (make(s, top_k=1)(x) for s in ("token", "first", "prefix"))
    torch.testing.assert_close(token[:, ::8], first[:, ::8], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(token[:, ::8], prefix[:, ::8], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(token, first)
    assert not torch.allclose(token, prefix)


@torch.no_grad()
def leaks(mixer: SEAttn, trials: int = 20) -> int:
    """In how many trials new tokens after t change an output up to t."""
    found = 0
    for seed in range(trials):
        x, t = tokens(seed=seed), 17 + seed % 17
        other = torch.cat([x[:, :t], tokens(seed=seed + 100)[:, t:]], dim=1)
        found += not torch.allclose(mixer(x)[:, :t], mixer(other)[:, :t], rtol=1e-9, atol=1e-11)
    return found


@pytest.mark.parametrize("shape", [{}, {"num_heads": 4, "num_kv_heads": 2, "retrieval": "per_group"}])
@pytest.mark.parametrize("selection", CAUSAL)
def test_a_causal_selection_leaks_nothing(selection: str, shape: dict[str, Any]):
    mixer = make(selection, **shape)
    assert leaks(mixer) == 0
    assert mixer.causal
    assert mixer.exact_decode


def test_the_papers_selection_leaks_the_future_and_says_so():
    mixer = make("chunk")
    assert leaks(mixer) > 5
    assert not mixer.causal
    assert not mixer.exact_decode


@each_selection
@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 9, 17])
def test_the_first_chunk_and_short_sequences_are_finite(selection: str, length: int):
    mixer, x = make(selection).train(), tokens(length).requires_grad_()
    y = mixer(x)
    assert all(part.isfinite().all() for part in [y, *gradients(mixer, x, y)])


@each_selection
def test_attention_weights_sum_to_one(selection: str):
    mixer = make(selection, num_heads=2, bias=True)
    with torch.no_grad():
        mixer.qkv.proj.weight[2 * D :].zero_()
        mixer.qkv.proj.bias[2 * D :].fill_(1.0)
        mixer.out_proj.weight.copy_(torch.eye(D))
        mixer.out_proj.bias.zero_()
    torch.testing.assert_close(mixer(tokens()), torch.ones(2, LENGTH, D, dtype=torch.float64))


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
    chosen = spans.chosen_blocks(scores, torch.tensor([0, 12, 320]), 4, 3)[0, 0]
    assert [row.nonzero().flatten().tolist() for row in chosen] == [[], [0, 1, 2], [1, 3, 5]]


@pytest.mark.parametrize("selection", ["token", "first", "prefix", "prev", "chunk"])
def test_no_gradient_passes_the_choice(selection: str):
    mixer = make(selection)
    _, state = mixer.extend(tokens().requires_grad_())
    for field in State.selects:
        part = getattr(state, field)
        assert part is None or not part.requires_grad, field
    assert state.k is not None
    assert state.k.requires_grad


def test_blocks_are_scored_in_the_precision_of_the_input_and_never_below_float32():
    for dtype, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        _, state = make().to(dtype).extend(tokens().to(dtype))
        assert state.summaries is not None
        assert state.summaries.dtype == expected
    with torch.autocast("cpu", torch.bfloat16):
        _, state = make().float().extend(tokens().float())
    assert state.summaries is not None
    exact = make().float().extend(tokens().float())[1].summaries
    torch.testing.assert_close(state.summaries, exact, rtol=0.1, atol=0.02)  # the projections are rounded
    assert (state.summaries.bfloat16() != state.summaries).any(), "the summaries themselves are rounded"


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
        assert frozen == (0 if state.blocks is None else state.blocks[0].numel())
    assert mixer.state_size(0).resident == mixer.state_size(0).touched == 0


@torch.no_grad()
def dead(mixer: SEAttn, state: State, field: str) -> Tensor:
    """Which scalars of a field, changed alone, change no output on any of many continuations."""

    def repeated(part: Any, times: int) -> Any:
        return part[:1].expand(times, *part.shape[1:]) if isinstance(part, Tensor) else part

    part = getattr(state, field)[0]
    left = torch.arange(part.numel())
    for seed in range(200):
        x = tokens(40, batch=1, seed=seed + 9)
        plain, _ = mixer.extend(x, State(*(repeated(p, 1) for p in state)))
        change = F.one_hot(left, part.numel()).double().unflatten(1, part.shape) * (-20, 3, 20, -3)[seed % 4]
        changed = State(*(repeated(p, len(left)) for p in state))._replace(**{field: part + change})
        y, _ = mixer.extend(x.expand(len(left), -1, -1), changed)
        left = left[(y - plain).abs().amax((1, 2)) < 1e-9]
        if not len(left):
            break
    return left


@pytest.mark.parametrize("shape", [{}, {"num_heads": 4, "num_kv_heads": 2, "retrieval": "per_group"}])
@pytest.mark.parametrize("selection", ["token", "first", "prefix", "prev"])
def test_every_scalar_that_only_selects_changes_a_later_output(selection: str, shape: dict[str, Any]):
    mixer = make(selection, top_k=1, **shape)
    _, state = mixer.extend(tokens(LENGTH + 2))
    for field in State.selects:
        if getattr(state, field) is not None:
            assert not len(dead(mixer, state, field)), field
    assert (state.query_sum is not None) == (selection in ("prefix", "prev"))


@pytest.mark.parametrize("selection", ["first", "prev"])
def test_the_frozen_choice_is_followed(selection: str):
    mixer, x = make(selection, top_k=1), tokens()
    _, state = mixer.extend(x[:, :36])
    assert state.blocks is not None
    y, _ = mixer.extend(x[:, 36:], state)
    others = [mixer.extend(x[:, 36:], state._replace(blocks=(state.blocks + j) % 8))[0] for j in range(1, 8)]
    assert not any(torch.allclose(y, other) for other in others)


def test_random_blocks_are_a_uniform_draw_of_seed_and_chunk():
    def draw(seed: int) -> Tensor:
        scores = spans.random_scores(seed, 2, torch.arange(4000), 16)
        return spans.chosen_blocks(scores, torch.full((4000,), 36), 4, 3)[0]

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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chunk_size": 10}, r"chunk_size \(=10\) must be a positive multiple of block_size \(=4\)"),
        ({"chunk_size": [8, 10]}, r"chunk_size \(=10\) must be a positive multiple of block_size \(=4\)"),
        ({"eval_chunk_size": 6}, r"eval_chunk_size \(=6\) must be a positive multiple of block_size \(=4\)"),
        ({"eval_chunk_size": 0}, r"eval_chunk_size \(=0\)"),
        ({"block_size": 0}, r"block_size \(=0\)"),
        ({"chunk_size": []}, r"number of sizes in chunk_size \(=0\) must be at least 1"),
        ({"chunk_size": [4, 8]}, "set chunk_sampling to per_forward or per_chunk"),
        ({"chunk_size": [4, 8], "chunk_sampling": "per_chunk"}, "eval_chunk_size"),
        ({"num_heads": 3}, r"d_model \(=16\) must be a positive multiple of num_heads \(=3\)"),
        (
            {"num_heads": 4, "num_kv_heads": 3},
            r"num_heads \(=4\) must be a positive multiple of num_kv_heads",
        ),
        ({"selection": "best"}, "selection .* must be one of token, first"),
        ({"retrieval": "per_head"}, "retrieval .* must be one of shared, per_group"),
        ({"position": "alibi"}, "position .* must be one of none, rope"),
        ({"chunk_sampling": "often"}, "chunk_sampling .* must be one of fixed"),
        ({"top_k": -1}, r"top_k \(=-1\) must be at least 0"),
    ],
)
def test_errors_name_the_rule_the_value_and_the_fix(changes: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        make(**changes)
