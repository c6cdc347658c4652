"""Laws that every mixer obeys, whoever wrote it: each law tests a mixer and yields what is wrong with it.

    python -m zoo.mixers --laws mamba2
    PYTHONPATH=. python -m zoo.mixers --laws my_mixer --config-dir my_conf

No law names a mixer.  Where a mixer declares `causal=False` or `exact_decode=False`, the law must fail
instead.  A mixer is tested in float64, on few tokens of WIDTH channels, or of its yaml's own d_model.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from hydra.utils import get_class
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

from zoo.common.checks import violation
from zoo.config.arguments import parameters
from zoo.config.paths import CONF
from zoo.mixers import size_formula
from zoo.mixers.base import Linked, Mixer
from zoo.mixers.cache import owned
from zoo.mixers.cases import WIDTH, Case, boundaries, build, longest, mixer_yaml, settings
from zoo.mixers.state import StateSize, held

LENGTH = 37  # prime: divisible by no window, block or chunk
CHUNKS, LONG = (16, 32, 64, 128), 260
STEPS = 12  # of one token each, enough for a cache to grow


class Subject:
    """Hold a mixer under test, in one of its settings."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def mixer(self) -> Mixer:
        """The mixer with the weights of seed 0; a law that trains it builds one of its own."""
        return build(self.case)

    def tokens(self, length: int, seed: int = 0, batch: int = 2) -> Float[Tensor, "B T D"]:
        """Draw an input for the mixer, as wide as its d_model."""
        rng = torch.Generator().manual_seed(1000 * seed + length)
        width = settings(self.case).get("d_model", WIDTH)
        return torch.randn(batch, length, width, dtype=torch.float64, generator=rng)


Law = Callable[[Subject], Iterator[str]]


def broken(case: Case) -> list[str]:
    """Return a line for each law that the mixer breaks: its name and the first violation."""
    subject = Subject(case)
    for law in LAWS[:2]:
        if reason := violation(law(subject)):
            return [f"{title(law)}: {reason}; no other law was tried"]
    reasons = ((law, violation(law(subject))) for law in LAWS[2:])
    return [f"{title(law)}: {reason}" for law, reason in reasons if reason]


def title(law: Law) -> str:
    """Return the law's name in words."""
    return law.__name__.replace("_", " ")


def same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two results are equal but for rounding."""
    return torch.allclose(a, b, rtol=1e-9, atol=1e-10)


def in_parts(mixer: Mixer, x: Tensor, cuts: list[int], state: Any = None) -> tuple[Tensor, tuple]:
    """Return the outputs of `extend` over the parts of x between the cuts, and the last state."""
    parts = []
    for lo, hi in zip([0, *cuts], [*cuts, x.shape[1]], strict=True):
        y, state = mixer.extend(x[:, lo:hi], state)
        parts.append(y)
    return torch.cat(parts, dim=1), state


@torch.no_grad()
def outputs_are_as_the_inputs_and_a_state_is_of_tensors(subject: Subject) -> Iterator[str]:
    """Outputs have the shape and dtype of the inputs, a state is a NamedTuple of tensors, a StateSize."""
    size = subject.mixer.state_size(LENGTH)
    if not isinstance(size, StateSize):
        yield f"state_size must return a StateSize, and returned {size!r}"
    mixer, x = build(subject.case).float(), subject.tokens(LENGTH).float()  # as in training
    y, state, _ = mixer.extend_linked(x, None, {})
    for out in (y, mixer(x)):
        if (out.shape, out.dtype) != (x.shape, x.dtype):
            yield f"outputs are {tuple(out.shape)}, {out.dtype}, and the inputs {tuple(x.shape)}, {x.dtype}"
    held(state)  # raises, with a line on what else is in it


def splitting_a_sequence_changes_nothing(subject: Subject) -> Iterator[str]:
    """The parts of a sequence through `extend` give the same outputs as the whole through `forward`.

    The ways to cut: once, on both sides of every integer setting; at several places; after every token.
    """
    mixer, x = subject.mixer, subject.tokens(LENGTH)
    ways = [[cut] for cut in boundaries(subject.case) if cut < LENGTH]
    ways += [list(range(1, LENGTH)), [3, 4, 17, 30]]
    with torch.no_grad():
        whole = mixer(x)
        wrong = [cuts for cuts in ways if not same(in_parts(mixer, x, cuts)[0], whole)]
    if wrong and mixer.exact_decode:
        where = "after every token" if len(wrong[0]) == LENGTH - 1 else f"at {wrong[0]}"
        yield f"{len(wrong)} of {len(ways)} ways to cut {LENGTH} tokens change an output: cuts {where}"
    if not wrong and not mixer.exact_decode:
        yield "exact_decode is False, and no cut changes an output"


def chunks_inside_a_computation_are_not_seen(subject: Subject) -> Iterator[str]:
    """No length or cut around a power of two, where kernels have chunk ends, changes an output."""
    mixer, length = subject.mixer, min(LONG, longest(subject.case))
    sides = [n + d for n in CHUNKS for d in (-1, 0, 1) if n + d < length]
    x = subject.tokens(length, batch=1)
    with torch.no_grad():
        whole = mixer(x)
        for cuts in (sides[::3], sides[2::3], sides):  # cuts just before a chunk's end, just after, all three
            if mixer.exact_decode and not same(in_parts(mixer, x, cuts)[0], whole):
                yield f"cuts at {cuts} change an output"
        for n in sides:
            if mixer.causal and not same(mixer(x[:, :n]), whole[:, :n]):
                yield f"the first {n} tokens alone give other outputs than in a sequence of {length}"


@torch.no_grad()
def reported_size_is_what_the_state_holds(subject: Subject) -> Iterator[str]:
    """`state_size(n).resident` counts what the state holds after n tokens, in one call or the last apart."""
    mixer = subject.mixer
    for length in boundaries(subject.case):
        size = mixer.state_size(length)
        for cuts in ([], [length - 1])[: min(length, 2)]:
            count = held(in_parts(mixer, subject.tokens(length), cuts)[1])
            if count != size.resident:
                yield f"state_size({length}).resident is {size.resident}, and the state holds {count}"
        if min(size.touched, size.aux_ints) < 0:
            yield f"state_size({length}) has a negative count"


SPARE = 8  # rank tested beyond what a state may carry
NOISE = 1e-10  # of the largest singular value: what is less is rounding


def the_past_acts_through_no_more_numbers_than_the_state_holds(subject: Subject) -> Iterator[str]:
    """The rank of d(outputs after a cut)/d(inputs before it) is `state_size(cut).resident` at most, which
    proves the count of the state from the other side.  The rank may be less, where the state is redundant.
    """
    mixer, length = subject.mixer, min(2 * 24, longest(subject.case))
    kept, inputs = mixer.state_size(length // 2).resident, subject.tokens(length // 2, batch=1).numel()
    if (
        mixer.exact_decode
        and inputs > kept
        and (rank := rank_of_the_past(subject, length, kept + SPARE)) > kept
    ):
        yield f"state_size({length // 2}).resident is {kept}, and {rank} numbers or more act later"


def rank_of_the_past(subject: Subject, length: int, most: int) -> int:
    """Return the rank of d(outputs)/d(inputs) across the middle of a sequence, or `most` where that is less.

    Each row of a batch gives the gradient of another random sum of the outputs.
    """
    cut = length // 2
    x = subject.tokens(length, batch=1).repeat(most, 1, 1).requires_grad_()
    y = subject.mixer(x)[:, cut:]
    sums = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(0))
    (grad,) = torch.autograd.grad((sums * y).sum(), x)
    sizes = torch.linalg.svdvals(grad[:, :cut].flatten(1))
    return int((sizes > NOISE * sizes[0]).sum())


@torch.no_grad()
def a_state_keeps_no_other_memory_alive(subject: Subject) -> Iterator[str]:
    """A state's storage holds its elements alone; a growing cache may have room for as many again."""
    mixer = subject.mixer
    state = owned(mixer.extend(subject.tokens(LENGTH))[1])
    for step in range(1, STEPS + 1):
        bytes_alive, needed = storage(state)
        most = needed if step == 1 else 2 * needed
        if bytes_alive > most:
            yield f"after {LENGTH + step - 1} tokens {bytes_alive} bytes stay alive, for {needed} of elements"
        state = owned(mixer.extend(subject.tokens(1, seed=step), state)[1])


def storage(state: tuple) -> tuple[int, int]:
    """Count the bytes that a state keeps alive, and those of its elements."""
    parts = [part for part in tree_leaves(state) if isinstance(part, Tensor)]
    alive = {part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in parts}
    return sum(alive.values()), sum(part.numel() * part.element_size() for part in parts)


@torch.no_grad()
def a_state_can_go_on_twice(subject: Subject) -> Iterator[str]:
    """Two continuations of one state affect neither each other nor the state."""
    mixer = subject.mixer
    _, state = in_parts(mixer, subject.tokens(LENGTH), [LENGTH - 2, LENGTH - 1])
    before = [part.clone() for part in tree_leaves(state) if isinstance(part, Tensor)]
    ways = [subject.tokens(2, seed=seed) for seed in (1, 2)]
    firsts = [mixer.extend(x[:, :1], state) for x in ways]
    together = [mixer.extend(x[:, 1:], after)[0] for x, (_, after) in zip(ways, firsts, strict=True)]
    now = [part for part in tree_leaves(state) if isinstance(part, Tensor)]
    if not all(torch.equal(a, b) for a, b in zip(before, now, strict=True)):
        yield "extend changes the state that it is given"
    for x, y in zip(ways, together, strict=True):
        fresh = in_parts(mixer, subject.tokens(LENGTH), [LENGTH - 2, LENGTH - 1])[1]
        if not same(in_parts(mixer, x, [1], fresh)[0][:, 1:], y):
            yield "a state that was continued once gives other outputs when it is continued again"


def every_scalar_of_the_state_reaches_a_later_output(subject: Subject) -> Iterator[str]:
    """Each kept scalar has a gradient from some later output; otherwise it is no memory."""
    _, state = subject.mixer.extend(subject.tokens(LENGTH))
    paths, structure = tree_flatten_with_path(state)
    parts = [p.detach().requires_grad_() if is_real(p) else p for _, p in paths]
    live = [p for p in parts if is_real(p)]
    reached = [torch.zeros_like(p, dtype=torch.bool) for p in live]
    for seed in range(24 if live else 0):  # a top-k reads different parts on different continuations
        y, _ = subject.mixer.extend(subject.tokens(40, seed=seed + 1), tree_unflatten(parts, structure))
        grads = torch.autograd.grad(y.square().sum(), live, allow_unused=True)
        for alive, grad in zip(reached, grads, strict=True):
            if grad is not None:
                alive |= grad != 0
        if all(alive.all() for alive in reached):
            return
    names = [path[-1].name for path, p in paths if is_real(p)]  # pyright: ignore[reportAttributeAccessIssue]
    dead = {n: int((~alive).sum()) for n, alive in zip(names, reached, strict=True) if not alive.all()}
    if dead := {n: count for n, count in dead.items() if n not in selects(state)}:
        yield f"never reaches an output, so it is not memory: {dead}"


def selects(state: tuple) -> tuple[str, ...]:
    """Name the fields that act through a top-k only, which no gradient passes; other tests cover them."""
    return getattr(state, "selects", ())


def is_real(part: object) -> bool:
    """Tell whether a part of a state holds numbers that have a gradient."""
    return isinstance(part, Tensor) and part.is_floating_point() and part.numel() > 0


@torch.no_grad()
def the_past_does_not_move_when_the_future_does(subject: Subject) -> Iterator[str]:
    """Outputs before t are the same, whatever the inputs from t on."""
    mixer, moved, places = subject.mixer, None, (1, 8, 15, 20, 33)
    for seed in range(4):
        x, later = subject.tokens(LENGTH, seed=seed), subject.tokens(LENGTH, seed=seed + 50)
        others = [torch.cat([x[:, :t], later[:, t:]], dim=1) for t in places]
        whole, *changed = mixer(torch.cat([x, *others])).split(len(x))  # rows of one batch: one call
        for t, y in zip(places, changed, strict=True):
            if not same(y[:, :t], whole[:, :t]):
                moved = moved or t
    if mixer.causal and moved:
        yield f"an output before token {moved} changes with the tokens from there on"
    if not mixer.causal and not moved:
        yield "causal is False, and no output changes with a later token"


@torch.no_grad()
def a_prefix_gives_the_same_outputs_as_the_whole(subject: Subject) -> Iterator[str]:
    """No output depends on the length of the sequence."""
    mixer, x = subject.mixer, subject.tokens(LENGTH)
    whole = mixer(x)
    for n in boundaries(subject.case):
        if mixer.causal and n <= LENGTH and not same(mixer(x[:, :n]), whole[:, :n]):
            yield f"the first {n} tokens alone give other outputs than in a sequence of {LENGTH}"


def an_output_depends_on_what_is_visible_and_on_nothing_else(subject: Subject) -> Iterator[str]:
    """`visible` (and `read_until` behind it) names the inputs that have a gradient, no more and no fewer."""
    mixer, length = subject.mixer, 24
    visible = mixer.visible(torch.eye(length, dtype=torch.bool))
    bounded = not visible.equal(torch.ones_like(visible).tril())
    reached = _reached(subject, visible, bounded)
    if (reached & ~visible).any():
        yield "an output depends on inputs that visible() denies"
    if not reached.diagonal().all():
        yield "an output does not depend on its own input"
    if bounded and not reached.equal(visible):
        yield "visible() promises more than the mixer sees"
    wanted = torch.rand(5, length, generator=torch.Generator().manual_seed(0)) < 0.2
    union = torch.stack([visible[row].any(0) for row in wanted])
    if not mixer.visible(wanted).equal(union):
        yield "a set of outputs sees other inputs than its members do"


def _reached(subject: Subject, visible: Tensor, bounded: bool) -> Tensor:
    """Return the pairs of output and input that a gradient joins; a top-k needs several inputs for that.

    In a batch of equal rows, row t is asked for output t, so that one backward pass gives all gradients.
    """
    length = len(visible)
    reached = torch.zeros_like(visible)
    for seed in range(30):
        if seed >= 3 and (not bounded or reached.equal(visible)):
            break
        x = subject.tokens(length, seed=seed, batch=1).repeat(length, 1, 1).requires_grad_()
        own = subject.mixer(x).diagonal().square().sum()
        (grad,) = torch.autograd.grad(own, x)
        reached |= (grad != 0).any(-1)
    return reached


def the_view_of_one_output_is_cheap_in_a_long_sequence(subject: Subject) -> Iterator[str]:
    """`visible` of one output in 65,536 tokens needs no matrix of all outputs by inputs, which is 4 GiB."""
    length = 65_536
    last = torch.arange(length) == length - 1
    if not subject.mixer.visible(last)[-1]:
        yield f"the last of {length} outputs does not depend on its own input"


@torch.no_grad()
def evaluation_is_deterministic_and_rows_are_independent(subject: Subject) -> Iterator[str]:
    """The same input gives the same outputs, alone or beside other rows."""
    mixer, x = subject.mixer, subject.tokens(LENGTH, batch=3)
    whole = mixer(x)
    if not same(mixer(x), whole):
        yield "the same input gives other outputs the second time"
    if not same(torch.cat([mixer(row[None]) for row in x]), whole):
        yield "a row gives other outputs alone than beside others"


def gradients_are_finite_and_every_parameter_is_used(subject: Subject) -> Iterator[str]:
    """Every parameter has a finite gradient.  A mixer that reads layers below gets values unlike its own."""
    mixer = build(subject.case)
    _whole(mixer, subject.tokens(LENGTH)).square().sum().backward()
    for name, p in mixer.named_parameters():
        if p.requires_grad and (p.grad is None or not (p.grad != 0).any()):
            yield f"{name} never moves"
        elif p.requires_grad and not p.grad.isfinite().all():  # pyright: ignore[reportOptionalMemberAccess]
            yield f"the gradient of {name} is not finite"


def _whole(mixer: Mixer, x: Tensor) -> Tensor:
    """Return the outputs; a linked mixer reads other tensors than those that it leaves itself."""
    if not isinstance(mixer, Linked):
        return mixer(x)
    left = mixer.extend_linked(x, None, {})[2]
    return mixer.extend_linked(x, None, {name: value.detach().flip(1) for name, value in left.items()})[0]


def a_stacked_population_computes_what_its_members_compute(subject: Subject) -> Iterator[str]:
    """vmap over stacked weights gives each member its own outputs and gradients, in one token and in many."""
    members = [build(subject.case, seed=seed) for seed in (1, 2)]
    for length in (1, LENGTH, 2 * LENGTH):
        x = torch.stack([subject.tokens(length, seed=seed) for seed in (1, 2)])
        weights, buffers = stack_module_state(members)  # pyright: ignore[reportArgumentType]
        together = vmap(lambda w, b, x: functional_call(members[0], (w, b), (x,)))(weights, buffers, x)
        together.square().sum().backward()
        for i, member in enumerate(members):
            member.zero_grad()
            alone = member(x[i])
            alone.square().sum().backward()
            if not same(together[i], alone):
                yield f"member {i} gives other outputs in the stack, of {length} tokens"
            for name, p in member.named_parameters():
                if p.grad is not None and not same(weights[name].grad[i], p.grad):
                    yield f"member {i} has another gradient of {name} in the stack, of {length} tokens"


def initial_weights_are_the_mixers_own_and_depend_on_the_seed_alone(subject: Subject) -> Iterator[str]:
    """Every weight is initialised; none is left as uninitialised memory."""
    first = build(subject.case, seed=1)
    with fresh_memory_holds_nan():
        again = build(subject.case, seed=1)
    for (name, a), b in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        if not torch.equal(a, b):
            yield f"{name} differs between two mixers of one seed, or is left as memory was found"
    for name, p in first.named_parameters():
        if not p.isfinite().all():
            yield f"{name} does not start finite"


@contextmanager
def fresh_memory_holds_nan() -> Iterator[None]:
    """Fill uninitialised memory with NaN, as torch does in its deterministic mode."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def computing_leaves_torch_as_it_was(subject: Subject) -> Iterator[str]:
    """Nothing draws from the global generator, and no global mode changes (as anomaly detection once did)."""
    mixer, drawn, threads = build(subject.case).train(), torch.get_rng_state(), torch.get_num_threads()
    mixer(subject.tokens(LENGTH)).square().sum().backward()
    mixer.eval().extend(subject.tokens(3), mixer.extend(subject.tokens(LENGTH))[1])
    if not torch.equal(torch.get_rng_state(), drawn):
        yield "it draws from torch's global generator"
    unchanged = {
        "the number of threads": torch.get_num_threads() == threads,
        "whether gradients are on": torch.is_grad_enabled(),
        "the default dtype": torch.get_default_dtype() == torch.float32,
        "anomaly detection": not torch.is_anomaly_enabled(),
        "deterministic algorithms": not torch.are_deterministic_algorithms_enabled(),
    }
    yield from (f"it changes {mode} for all" for mode, same in unchanged.items() if not same)


def the_formula_of_the_state_is_what_the_state_holds(subject: Subject) -> Iterator[str]:
    """`about.state`, the formula for readers, equals `state_size`; every mixer of zoo has one."""
    case, mixer = subject.case, subject.mixer
    formula = (mixer_yaml(case.name, case.folder).get("about") or {}).get("state")
    if formula is None and case.folder == CONF:
        yield f"conf/mixer/{case.name}.yaml must have about.state"
    if formula is not None:
        yield from size_formula.mistakes(formula, mixer, [*boundaries(case), 1024, 65_536])


def settings_are_the_constructors_own_names(subject: Subject) -> Iterator[str]:
    """Each setting in the yaml is an argument of the class or a parent class; none vanishes in **kwargs."""
    given = settings(subject.case)
    accepted, _ = parameters(get_class(given.pop("_target_")))
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted.values()):
        yield "**kwargs would take a misspelt setting in silence"
    if unknown := sorted(set(given) - set(accepted)):
        yield f"{unknown[0]} is no argument of the constructor"
    _ = subject.mixer  # the constructor's own error is a reason too


LAWS: tuple[Law, ...] = (
    # the first two come first: without a mixer, or with outputs of another kind, no other can be tried
    settings_are_the_constructors_own_names,
    outputs_are_as_the_inputs_and_a_state_is_of_tensors,
    splitting_a_sequence_changes_nothing,
    chunks_inside_a_computation_are_not_seen,
    the_past_does_not_move_when_the_future_does,
    a_prefix_gives_the_same_outputs_as_the_whole,
    reported_size_is_what_the_state_holds,
    the_formula_of_the_state_is_what_the_state_holds,
    every_scalar_of_the_state_reaches_a_later_output,
    the_past_acts_through_no_more_numbers_than_the_state_holds,
    a_state_keeps_no_other_memory_alive,
    a_state_can_go_on_twice,
    an_output_depends_on_what_is_visible_and_on_nothing_else,
    the_view_of_one_output_is_cheap_in_a_long_sequence,
    evaluation_is_deterministic_and_rows_are_independent,
    gradients_are_finite_and_every_parameter_is_used,
    a_stacked_population_computes_what_its_members_compute,
    initial_weights_are_the_mixers_own_and_depend_on_the_seed_alone,
    computing_leaves_torch_as_it_was,
)
