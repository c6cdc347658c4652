"""Inputs of every op that has more than one form in torch, in float64: lengths on both sides of every chunk.

CASES are compared with the definition, STACKED are run as members of a population.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels import spans
from tests.kernels.agreement import widened
from zoo.kernels.choice import Op
from zoo.kernels.mesa.solved import BLOCK as MESA
from zoo.kernels.taylor_scan import num_features
from zoo.kernels.wkv4 import Averages
from zoo.mixers.positions import alibi_slopes

Inputs, Form = list[Any], Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One call of an op.  make: a function called as the op is, of a size to inputs.
    settings: of its modules, MODULE.NAME -> value.
    """

    make: Callable[..., Inputs]
    size: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        return self.make.__name__

    def __str__(self) -> str:
        return " ".join(map(str, (self.op, *self.size, *self.settings.values())))


def op_of(name: str) -> Op:
    return import_module(f"zoo.kernels.{name}").OP


def public(name: str) -> Callable[..., Any]:
    return getattr(import_module(f"zoo.kernels.{name}"), name)


def definition(name: str) -> Form:
    return op_of(name).forms["reference"]


def draw(*shapes: Sequence[int], seed: int = 0) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed + sum(map(sum, shapes)))
    return [torch.randn(*shape, dtype=torch.float64, generator=rng) for shape in shapes]


def trained(*inputs: Any) -> Inputs:
    """Leaves that require a gradient, of all floats."""
    wanted = (isinstance(x, Tensor) and x.is_floating_point() for x in inputs)
    return [x.detach().requires_grad_() if want else x for x, want in zip(inputs, wanted, strict=True)]


def single(inputs: Sequence[Any]) -> Inputs:
    """The same in float32: leaves that require a gradient."""
    return trained(*(x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs))


def heads(length: int, *channels: int) -> list[list[int]]:
    return [[2, 3, length, n] for n in channels]


# one function an op: its inputs for a length ----------------------------------------------------------------


def attention(length: int, keys: int, window: int | None, biased: bool = False) -> Inputs:
    q, k, v = draw([2, 4, length, 6], [2, 2, keys, 6], [2, 2, keys, 6])
    return [*trained(q, k, v), window, alibi_slopes(4) if biased else None]


def masked_attention(length: int, keys: int, mask: str) -> Inputs:
    q, k, v, scores, biases = draw(
        [2, 3, length, 4], [2, 3, keys, 4], [2, 3, keys, 4], [length, keys], [2, 1, length, keys]
    )
    shown = (scores > 0) | (torch.arange(keys) == 0)
    masks = {"shared": shown, "of each head": shown.expand(2, 3, -1, -1)}
    return [*trained(q, k, v), masks.get(mask, biases.masked_fill(~shown, -torch.inf))]


def forgetting_attention(length: int, past: int) -> Inputs:
    groups = 1 + length % 2
    shapes = [2, 2, length, 5], [2, groups, past + length, 5], [2, groups, past + length, 5]
    q, k, v, gate, decay = draw(*shapes, [2, 2, length], [2, 2, past])
    return trained(q, k, v, F.logsigmoid(2 * gate), -10 * decay.sigmoid())


def path_attention(length: int, past: int) -> Inputs:
    groups = 1 + length % 2
    shapes = [2, 2, length, 5], *([[2, groups, past + length, 5]] * 2), [2, groups, length, 5]
    q, k, v, w, beta = draw(*shapes, [2, groups, length])
    return trained(q, k, v, F.normalize(w, dim=-1), 2 * beta.sigmoid())


def delta_rule(length: int, decayed: bool, state: bool, writes: int = 1, strength: float = 1.0) -> Inputs:
    steps = writes * length
    q, k, v, beta, decay, S = draw(
        *heads(length, 5), *heads(steps, 5, 3), [2, 3, steps], [2, 3, steps], [2, 3, 5, 3]
    )
    k, beta, decay = F.normalize(k, dim=-1), 2 * beta.sigmoid(), -strength * F.softplus(decay)
    return trained(q, k, v, beta, decay if decayed else None, S if state else None)


def dplr_delta_rule(length: int, strength: float, state: bool) -> Inputs:
    """a and b as a delta rule has them, so that nothing grows."""
    q, k, v, a, rate, decay, S = draw(*heads(length, 5, 5, 4, 5, 1, 5), [2, 3, 5, 4])
    a = F.normalize(a, dim=-1)
    return trained(q, k, v, a, -rate.sigmoid() * a, -strength * decay.exp(), S if state else None)


def gated_linear_attention(length: int, per: str, strongest: float, state: bool) -> Inputs:
    """Decays between exp(-strongest) and 1."""
    q, k, v, decay, S = draw(*heads(length, 5, 5, 7, 5), [2, 3, 5, 7])
    decay = -strongest * (decay if per == "channel" else decay[..., 0]).sigmoid()
    return trained(q, k, v, decay, S if state else None)


def gated_slot_attention(length: int, strongest: float, state: bool) -> Inputs:
    q, k, v, write, decay, keys, values = draw(*heads(length, 5, 5, 7, 4, 4), [2, 3, 4, 5], [2, 3, 4, 7])
    slots = tuple(trained(keys, values)) if state else None
    return [*trained(q, k, v, write, -strongest * decay.sigmoid()), slots]


def linear_attention(length: int, eps: float | None, state: bool) -> Inputs:
    """Features are positive, as a denominator asks."""
    q, k, v, kv, z = draw(*heads(length, 5, 5, 7), [2, 3, 5, 7], [2, 3, 5])
    before = [kv if state else None, z.exp() if state and eps is not None else None]
    return [*trained(q.exp(), k.exp(), v), eps, *trained(*before)]


def log_linear_attention(length: int, offset: int) -> Inputs:
    q, k, v, decay, scales, S = draw(
        *heads(length, 3, 3, 4), [2, 3, length], *heads(length, 9), [2, offset.bit_count(), 3, 3, 4]
    )
    return [*trained(q, k, v, -decay.exp() / 4, scales.exp(), S if offset else None), offset]


def mesa(length: int, state: bool) -> Inputs:
    q, k, v, beta, decay, ridge, past, kv = draw(
        *heads(length, 4, 4, 3), [2, 3, length], [2, 3, length], [3, 4], [2, 3, 9, 4], [2, 3, 4, 3]
    )
    leaves = trained(q, k, v, beta.sigmoid(), -decay.exp() / 4, ridge.exp() / 4 + 0.25)
    return [*leaves, *trained(past, kv)] if state else leaves


def mesa_from_keys(form: Form) -> Form:
    """Compute the state's matrix of keys from keys, so that it stays symmetric."""
    return lambda *x: form(*x[:6], (x[6].mT @ x[6], x[7]) if len(x) > 6 else None)


def selective_scan(B: int, T: int, D: int, N: int, state: bool = True) -> Inputs:
    x, dt, A, b, c, h = draw([B, T, D], [B, T, D], [D, N], [B, T, N], [B, T, N], [B, D, N])
    return trained(x, F.softplus(dt), -A.exp(), b, c, h if state else None)


def diagonal_scan(length: int, leading: Sequence[int], state: bool) -> Inputs:
    decay, x, h = draw([*leading, length, 4], [*leading, length, 4], [*leading, 4])
    return trained(decay, x, h if state else None)


def short_conv(length: int, taps: int, biased: bool, state: bool, batch: int = 2) -> Inputs:
    x, weight, bias, tail = draw([batch, length, 3], [taps, 3], [3], [batch, taps - 1, 3])
    return trained(x, weight, bias if biased else None, tail if state else None)


def taylor_attention(length: int) -> Inputs:
    return [*trained(*draw(*heads(length, 5, 5, 7))), 1e-3]


def taylor_scan(length: int, state: bool, channels: int = 5) -> Inputs:
    features = num_features(channels)
    q, k, v, kv, z = draw(*heads(length, channels, channels, 7), [2, 3, features, 7], [2, 3, features])
    z = z.abs() + 100 * (torch.arange(features) == 0)
    return [*trained(q, k, v), 0.1, *trained(kv, z)] if state else [*trained(q, k, v), 0.1, None, None]


def ttt(length: int, hidden: Sequence[int], offset: int) -> Inputs:
    sizes = [4, *hidden, 4]
    shapes = [s for a, b in pairwise(sizes) for s in ([2, 2, a, b], [2, 2, 1, b])]
    q, k, v, lr, scale, weight, bias, *inner = draw(
        *([[2, 2, length, 4]] * 3), [2, 2, length], [4], [2, 1, 4], [2, 1, 4], *shapes, *shapes
    )
    weights, sums = trained(*inner[: len(shapes)]), trained(*inner[len(shapes) :])
    norm = tuple(trained(1 + weight / 4, bias))
    leaves = trained(q, k, v, lr.sigmoid(), scale.sigmoid())
    return [*leaves, norm, tuple(weights), tuple(sums) if offset else None, offset]


def wkv4(length: int, state: bool, scale: float) -> Inputs:
    k, v, decay, u, aa, bb, pp = draw(*([[2, length, 3]] * 2), [3], [3], *([[2, 3]] * 3))
    leaves = trained(scale * k, scale * v, -decay.exp(), scale * u)
    return [*leaves, Averages(*trained(aa, bb.exp(), scale * pp)) if state else None]


def wkv4_means(form: Form) -> Form:
    """Compare the average and the logarithm of the sum of weights that the state stands for."""

    def run(*inputs: Any) -> list[Tensor]:
        y, state = form(*inputs)
        return [y, state.aa / state.bb, state.pp + state.bb.log()]

    return run


def wkv6(length: int, strength: float, state: bool) -> Inputs:
    r, k, v, decay, bonus, S = draw(*heads(length, 5, 5, 4, 5), [3, 5], [2, 3, 5, 4])
    return trained(r, k, v, -strength * decay.exp(), bonus, S if state else None)


def linear_cross_entropy(rows: int, vocab: int) -> Inputs:
    x, weight = draw([rows, 8], [vocab, 8])
    return [*trained(x, weight), torch.randint(vocab, (rows,), generator=torch.Generator().manual_seed(0))]


def linear(rows: int, channels: int, biased: bool) -> Inputs:
    x, weight, bias = draw([2, rows, channels], [4, channels], [4])
    return trained(x, weight, bias if biased else None)


def fft_conv(B: int, T: int, D: int, S: int) -> Inputs:
    return trained(*draw([B, T, D], [D, S]))


def se_attention(call: spans.Call, channels: int = 5) -> Inputs:
    return widened(spans.inputs(call, channels))


# the calls --------------------------------------------------------------------------------------------------

BANDED = [(128, 128, 5), (150, 150, 16), (150, 163, 14), (200, 200, 33), (131, 131, 1), (300, 331, 32)]
WHOLE = [(1, 1, None), (1, 30, 7), (37, 37, None), (37, 50, 9), (37, 40, 50), (5, 40, 1)]
SCANS = [
    (1, 1, 1, 1), (2, 1, 3, 2), (1, 15, 4, 3), (3, 16, 2, 4), (2, 17, 5, 3), (2, 47, 3, 2), (5, 33, 8, 4),
]  # fmt: skip
FILTERS = [
    (1, 1, 1, 1), (2, 5, 3, 5), (1, 63, 2, 20), (2, 65, 3, 65), (2, 131, 2, 131),
    (1, 70, 2, 100), (3, 90, 1, 4),
]  # fmt: skip
BOTH, DECAYS = (False, True), (0.01, 1, 300)
Calls = dict[Callable[..., Inputs], list[tuple[Any, ...]]]
SIZES: Calls = {
    attention: [(*shape, biased) for shape, biased in product(WHOLE + BANDED, BOTH)],
    masked_attention: [
        (*s, mask) for s, mask in product([(1, 9), (7, 7), (5, 12)], ["shared", "of each head", "numbers"])
    ],
    forgetting_attention: [*product((1, 37, 127, 128, 129, 300), (0, 1, 150))],
    path_attention: [*product((1, 37, 63, 64, 65, 130), (0, 1, 70))],
    delta_rule: [*product((1, 2, 31, 32, 33, 69), BOTH, BOTH), *product((1, 16, 32), BOTH, [True], (2, 3))],
    dplr_delta_rule: [*product((1, 2, 3, 15, 16, 17, 53), DECAYS, BOTH)],
    gated_linear_attention: [
        *product((1, 2, 15, 16, 17, 47, 63, 64, 65, 150), ("head", "channel"), (1.0, 80.0), BOTH)
    ],
    gated_slot_attention: [*product((1, 2, 15, 16, 17, 31, 50), (1.0, 80.0), BOTH)],
    linear_attention: [*product((1, 2, 127, 128, 129, 300), (None, 0.25), BOTH)],
    log_linear_attention: [*product((1, 2, 31, 32, 33, 101), (0, 1, 6, 32, 67))],
    diagonal_scan: [*product((1, 2, 33), ((), (3,), (2, 3)), BOTH)],
    short_conv: [*product((1, 2, 9), (1, 4, 9), BOTH, BOTH)],
    ttt: [(n, hidden, offset) for hidden in ([], [7], [3, 5])
          for n, offset in ((1, 0), (3, 0), (4, 0), (9, 0), (13, 2), (1, 2), (1, 3), (5, 3))],
    wkv6: [*product((1, 2, 15, 16, 17, 50), DECAYS, BOTH)],
    linear: [*product((1, 9), (3, 4, 5), BOTH)],
    fft_conv: FILTERS,
    mesa: [*product((1, 2, MESA - 1, MESA, MESA + 1, 3 * MESA + 5), BOTH)],
    wkv4: [*product((1, 2, 37, 150), BOTH, (1, 100))],
    se_attention: [(spans.LONG,)],
}  # fmt: skip


WITH_SETTINGS = [  # of an op: its sizes, and a setting of a module of it that has several values
    (taylor_attention, [(n,) for n in (1, 2, 33, 64, 65, 150)],
     "taylor_attention.fused.AT_ONCE", [{"cpu": 1}, {"cpu": 2**18}]),
    (taylor_scan, [*product((1, 7, 8, 9, 21), BOTH)], "taylor_scan.chunked.CHUNK", [8]),
    (selective_scan, SCANS, "selective_scan.fused_loop.CACHED", [1, 64, 1 << 18]),
    (short_conv, [(n, 4, True, tail, 5) for n, tail in ((7, False), (7, True), (2, False), (1, True))],
     "short_conv.shifted.CACHED", [1, 60, 1 << 18]),  # sequences: one, two, all
    (linear_cross_entropy, [(7, 11)],
     "linear_cross_entropy.chunked.CHUNK", [{"cpu": 11 * rows} for rows in (1, 3, 7, 100)]),
    (se_attention, [(call,) for call in spans.CALLS], "se_attention.gathered.LOGITS", [1, 900, 2**21]),
]  # fmt: skip
CASES = [Case(make, size) for make, sizes in SIZES.items() for size in sizes]
CASES += [
    Case(make, size, {name: value})
    for make, sizes, name, values in WITH_SETTINGS
    for size, value in product(sizes, values)
]
COMPARED = {"mesa": mesa_from_keys, "wkv4": wkv4_means}  # op -> what is compared, where it is not the outputs

# members: inputs of one, and where each has its own; None: they share it ------------------------------------
Dims = Sequence[int | None]
STACKED: list[tuple[str, Inputs, Dims]] = [
    *(("delta_rule", delta_rule(length, True, True), (0,) * 6) for length in (1, 35)),
    ("delta_rule", delta_rule(35, True, True), (0, None, 1, 0, 0, None)),
    ("dplr_delta_rule", dplr_delta_rule(19, 1, True), (0,) * 7),
    *(
        ("gated_linear_attention", gated_linear_attention(length, per, 1.0, True), (0,) * 5)
        for length, per in product((1, 37), ("head", "channel"))
    ),
    *(("gated_slot_attention", gated_slot_attention(length, 1.0, False)[:5], (0,) * 5) for length in (1, 37)),
    *(("linear_attention", linear_attention(n, 0.25, True), (0, 0, 0, None, 0, 0)) for n in (1, 37)),
    ("log_linear_attention", log_linear_attention(35, 0)[:5], (0,) * 5),
    ("mesa", mesa(MESA + 3, False)[:6], (0,) * 6),
    *(
        ("selective_scan", selective_scan(2, length, 3, 4), [None if i in shared else 0 for i in range(6)])
        for length, shared in product((1, 37), ((), (0,), (2,), (1, 3, 5)))
    ),
    *(("diagonal_scan", diagonal_scan(7, (3,), True), dims)
      for dims in ((0, 0, 0), (0, None, 0), (None, 0, None))),
    *(("short_conv", short_conv(9, taps, True, True), (0, 0, 0, 0)) for taps in (4, 9)),
    *(("fft_conv", fft_conv(2, length, 3, length), dims)
      for length, dims in product((20, 70), ((0, 0), (None, 0), (0, None), (1, 1)))),
    ("taylor_attention", taylor_attention(9), (2, None, 0, None)),
    ("taylor_scan", taylor_scan(21, True), (0, 0, 1, None, 0, 0)),
    ("wkv4", wkv4(20, False, 1)[:4], (0,) * 4),
    ("wkv6", wkv6(20, 1, True), (0,) * 6),
    *(
        ("attention", attention(length, length, window, biased), (0, 0, 0, None, None))
        for (length, window), biased in product([(9, None), (9, 3), (130, 6)], BOTH)
    ),
    *(("attention", attention(9, 9, window, True), (0, 0, 0, None, 0)) for window in (None, 3)),
    ("attention", attention(130, 130, 6, True), (0, 0, 0, None, 0)),
    ("forgetting_attention", forgetting_attention(140, 3), (0,) * 5),
    ("path_attention", path_attention(70, 3), (0,) * 5),
    *(
        ("se_attention", se_attention(spans.CALLS[i], 4), (0, 0, 0, 0, bias, None, None))
        for i, bias in ((1, 0), (2, 0), (4, None))
    ),
]  # fmt: skip
