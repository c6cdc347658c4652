"""Laws every mixer obeys.  No mixer is named: a new conf/mixer/*.yaml is tested on arrival.

Where a mixer declares `causal=False` or `exact_decode=False`, the law must be seen to fail instead.
"""

import inspect
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from hydra.utils import get_class
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from tests.formula import evaluated
from tests.registry import WIDTH, Case, boundaries, build, cases, held, longest, mixer_yaml, settings
from zoo.config.paths import CONF
from zoo.mixers.base import Mixer

LENGTH = 37  # prime: divisible by no window, block or chunk
CHUNKS, LONG = (16, 32, 64, 128), 260
CASES = cases()
pytestmark = pytest.mark.parametrize("case", CASES, ids=str)


@cache
def mixer_of(case: Case) -> Mixer:
    return build(case)


def tokens(length: int, seed: int = 0, batch: int = 2) -> Tensor:
    rng = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randn(batch, length, WIDTH, dtype=torch.float64, generator=rng)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-10)


def splits_agree(mixer: Mixer, x: Tensor, cuts: list[int]) -> bool:
    whole = mixer(x)
    parts, state = [], None
    for lo, hi in zip([0, *cuts], [*cuts, x.shape[1]], strict=True):
        y, state = mixer.extend(x[:, lo:hi], state)
        parts.append(y)
    return same(torch.cat(parts, dim=1), whole)


@torch.no_grad()
def test_splitting_a_sequence_changes_nothing(case: Case):
    """Once, on both sides of every integer setting; often; and after every token."""
    mixer, x = mixer_of(case), tokens(LENGTH)
    ways = [[cut] for cut in boundaries(case) if cut < LENGTH]
    ways += [list(range(1, LENGTH)), [3, 4, 17, 30]]
    agree = [splits_agree(mixer, x, cuts) for cuts in ways]
    assert all(agree) == mixer.exact_decode, f"cuts that disagree: {agree.count(False)}"


@torch.no_grad()
def test_chunks_inside_a_computation_are_not_seen(case: Case):
    """At lengths and cuts on both sides of the lengths that kernels take their tokens in: powers of two."""
    mixer, length = mixer_of(case), min(LONG, longest(case))
    sides = [n + d for n in CHUNKS for d in (-1, 0, 1) if n + d < length]
    x = tokens(length, batch=1)
    whole = mixer(x)
    ways = [
        sides[::3],
        sides[2::3],
        sides,
    ]  # parts that end just before a chunk does, after it, and of one token
    assert all(splits_agree(mixer, x, cuts) for cuts in ways) or not mixer.exact_decode
    assert all(same(mixer(x[:, :n]), whole[:, :n]) for n in sides) or not mixer.causal


@torch.no_grad()
def test_reported_size_is_what_the_state_holds(case: Case):
    mixer = mixer_of(case)
    for length in boundaries(case):
        _, state = mixer.extend(tokens(length))
        size = mixer.state_size(length)
        assert held(state) == size.resident, f"after {length} tokens"
        _, stepped = mixer.extend(tokens(1), mixer.extend(tokens(length - 1))[1] if length > 1 else None)
        assert held(stepped) == size.resident, f"after {length} tokens, the last one alone"
        assert size.touched >= 0
        assert size.aux_ints >= 0


def test_every_scalar_of_the_state_reaches_a_later_output(case: Case):
    mixer = mixer_of(case)
    _, state = mixer.extend(tokens(LENGTH))
    paths, structure = tree_flatten_with_path(state)
    parts = [p.detach().requires_grad_() if is_real(p) else p for _, p in paths]
    live = [p for p in parts if is_real(p)]
    if not live:
        return  # no memory, nothing to show
    reached = [torch.zeros_like(p, dtype=torch.bool) for p in live]
    for seed in range(24):  # a reader that selects (top-k) reads different parts on different continuations
        y, _ = mixer.extend(tokens(40, seed=seed + 1), tree_unflatten(parts, structure))
        grads = torch.autograd.grad(y.square().sum(), live, allow_unused=True)
        for seen, grad in zip(reached, grads, strict=True):
            if grad is not None:
                seen |= grad != 0
        if all(seen.all() for seen in reached):
            return
    names = [path[-1].name for path, p in paths if is_real(p)]
    reached = {n: seen for n, seen in zip(names, reached, strict=True) if n not in selects(state)}
    dead = {n: int((~seen).sum()) for n, seen in reached.items() if not seen.all()}
    assert not dead, f"never reaches an output, so it is not memory: {dead}"


def selects(state: tuple) -> tuple[str, ...]:
    """Fields that act through a top-k only, which no gradient passes; their own tests show them alive."""
    return getattr(state, "selects", ())


def is_real(part: object) -> bool:
    return isinstance(part, Tensor) and part.is_floating_point() and part.numel() > 0


@torch.no_grad()
def test_the_past_does_not_move_when_the_future_does(case: Case):
    mixer = mixer_of(case)
    moved = []
    for seed in range(4):
        x = tokens(LENGTH, seed=seed)
        whole = mixer(x)
        for t in (1, 8, 15, 20, 33):
            other = torch.cat([x[:, :t], tokens(LENGTH, seed=seed + 50)[:, t:]], dim=1)
            moved.append(not same(mixer(other)[:, :t], whole[:, :t]))
    assert any(moved) == (not mixer.causal)


@torch.no_grad()
def test_a_prefix_gives_the_same_outputs_as_the_whole(case: Case):
    mixer, x = mixer_of(case), tokens(LENGTH)
    whole = mixer(x)
    agree = [same(mixer(x[:, :n]), whole[:, :n]) for n in boundaries(case) if n <= LENGTH]
    assert all(agree) or not mixer.causal


def test_an_output_depends_on_what_is_visible_and_on_nothing_else(case: Case):
    mixer, length = mixer_of(case), 24
    visible = mixer.visible(torch.eye(length, dtype=torch.bool))
    reached = torch.zeros_like(visible)
    bounded = not visible.equal(torch.ones_like(visible).tril())
    for seed in range(30):  # a reader that selects (top-k) sees different parts of different inputs
        if seed >= 3 and (not bounded or reached.equal(visible)):
            break
        x = tokens(length, seed=seed, batch=1).requires_grad_()
        y = mixer(x)
        for t in range(length):
            (grad,) = torch.autograd.grad(y[0, t].square().sum(), x, retain_graph=True)
            reached[t] |= (grad[0] != 0).any(-1)
    assert not (reached & ~visible).any(), "an output depends on inputs that visible() denies"
    assert (reached.diagonal()).all(), "an output does not depend on its own input"
    assert not bounded or reached.equal(visible), "visible() promises more than the mixer sees"
    asked = torch.rand(5, length, generator=torch.Generator().manual_seed(0)) < 0.2
    union = torch.stack([visible[row].any(0) for row in asked])
    assert mixer.visible(asked).equal(union), "a set of outputs sees other inputs than its members do"


def test_the_view_of_one_output_is_cheap_in_a_long_sequence(case: Case):
    """A matrix of all outputs by all inputs would be 4 GiB."""
    length = 65_536
    last = torch.arange(length) == length - 1
    assert mixer_of(case).visible(last)[-1]


@torch.no_grad()
def test_evaluation_is_deterministic_and_rows_are_independent(case: Case):
    mixer, x = mixer_of(case), tokens(LENGTH, batch=3)
    whole = mixer(x)
    assert same(mixer(x), whole)
    assert same(torch.cat([mixer(row[None]) for row in x]), whole)


def test_gradients_are_finite_and_every_parameter_is_used(case: Case):
    mixer = build(case)
    mixer(tokens(LENGTH)).square().sum().backward()
    for name, p in mixer.named_parameters():
        if p.requires_grad:
            assert p.grad is not None and p.grad.isfinite().all(), name
            assert (p.grad != 0).any(), f"{name} never moves"


def test_a_stacked_population_computes_what_its_members_compute(case: Case):
    members = [build(case, seed=seed) for seed in (1, 2)]
    x = torch.stack([tokens(LENGTH, seed=seed) for seed in (1, 2)])
    weights, buffers = stack_module_state(members)
    together = vmap(lambda *state_and_x: functional_call(members[0], state_and_x[:2], state_and_x[2:]))(
        weights, buffers, x
    )
    together.square().sum().backward()
    for i, member in enumerate(members):
        alone = member(x[i])
        alone.square().sum().backward()
        assert same(together[i], alone)
        for name, p in member.named_parameters():
            if p.requires_grad:
                assert same(weights[name].grad[i], p.grad), name


def test_initial_weights_are_the_mixers_own_and_depend_on_the_seed_alone(case: Case):
    first = build(case, seed=1)
    with fresh_memory_holds_nan():
        again = build(case, seed=1)
    for (name, a), b in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert all(p.isfinite().all() for p in first.parameters())


@contextmanager
def fresh_memory_holds_nan():
    """Memory that nobody has written is seen: torch fills it with NaN in its deterministic mode."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_computing_leaves_torch_as_it_was(case: Case):
    """No draw from the global generator, no mode switched on for all (as anomaly detection once was)."""
    mixer, drawn, threads = build(case).train(), torch.get_rng_state(), torch.get_num_threads()
    mixer(tokens(LENGTH)).square().sum().backward()
    mixer.eval().extend(tokens(3), mixer.extend(tokens(LENGTH))[1])
    assert torch.equal(torch.get_rng_state(), drawn) and torch.get_num_threads() == threads
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    assert not torch.is_anomaly_enabled() and not torch.are_deterministic_algorithms_enabled()


def test_the_formula_of_the_state_is_what_the_state_holds(case: Case):
    formula = mixer_yaml(case.name, case.folder)["about"].get("state")
    if formula is None:
        assert case.folder != CONF, f"conf/mixer/{case.name}.yaml must have about.state"
        return
    mixer = mixer_of(case)
    for seq_len in [*boundaries(case), 1024, 65_536]:
        assert evaluated(formula, mixer, seq_len) == mixer.state_size(seq_len).resident, f"after {seq_len}"


def test_settings_are_the_constructors_own_names(case: Case):
    given = settings(case)
    signature = inspect.signature(get_class(given.pop("_target_")))
    signature.bind(**given)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds, "**kwargs would take a misspelt setting in silence"
