"""Laws of a rounded state, for every mixer that decodes exactly; only the examples name mixers."""

from functools import cache

import pytest
import torch
from torch import Tensor

from tests.registry import Case, block_yaml, cases
from zoo.blocks.base import Block
from zoo.config.targets import make
from zoo.evaluation.coded_state import CodedState, Remembered, StateCoder
from zoo.mixers.cases import build
from zoo.model import ModelState, SequenceModel
from zoo.model.codecs.codec import SCALES, Codec, Form
from zoo.model.codecs.formats import FORMATS as KINDS
from zoo.model.codecs.formats import PLAIN
from zoo.model.written_once import BATCH, added, tensors, written_once

LENGTH, ROWS, VOCAB = 20, 2, 24  # length: after which all FORMS but NEVER round
ALL = [case for case in cases() if build(case).exact_decode]
EXACT, NEVER = Form("fp32", "none"), Form("int2", every=LENGTH + 1)
FORMS = (
    EXACT,
    Form("int4", "key"),
    NEVER,
    Form("int3", "value", "stochastic"),
    Form("int4", "tensor", zero_point=True),
    Form("sign", "head"),
    Form("fp8_e4m3", "tensor", "stochastic"),
    Form("int2", "head", every=4),
)
EACH = [pytest.param(case, marks=pytest.mark.slow if case.changes else ()) for case in ALL]
each_mixer = pytest.mark.parametrize("case", EACH, ids=str)


@cache
def model_of(case: Case) -> SequenceModel:
    block = make(block_yaml("pre_norm"), Block, mixer=build(case))
    made = SequenceModel([block], vocab_size=VOCAB, seed=0, init_std=1.0)
    return made.float().eval()


def tokens(length: int = LENGTH) -> Tensor:
    return torch.randint(VOCAB, (ROWS, length), generator=torch.Generator().manual_seed(3))


@cache
def coder_of(case: Case) -> StateCoder:
    return StateCoder(FORMS, written_once(model_of(case).extend, tokens(LENGTH + 1)), seed=0)


@cache
def coded(case: Case) -> tuple[Tensor, CodedState]:
    """Return the outputs of the rows in every form, and their state after the last token."""
    return coder_of(case).extend(model_of(case), tokens().repeat(len(FORMS), 1), None)


@torch.no_grad()
def plain(model: SequenceModel, inputs: Tensor) -> tuple[Tensor, ModelState]:
    hidden, state = [], None
    for token in inputs.split(1, dim=1):
        step, state = model.extend(token, state)
        hidden.append(step)
    assert state is not None
    return torch.cat(hidden, dim=1), state


@each_mixer
def test_fp32_and_a_rounding_beyond_the_row_change_no_bit(case: Case) -> None:
    (hidden, after), (expected, state) = coded(case), plain(model_of(case), tokens().repeat(len(FORMS), 1))
    for form in (EXACT, NEVER):
        rows = slice(ROWS * FORMS.index(form), ROWS * (FORMS.index(form) + 1))
        assert torch.equal(hidden[rows], expected[rows]), form
        for (name, one), (_, other) in zip(tensors(after.state), tensors(state), strict=True):
            assert torch.equal(one[rows], other[rows]), (form, name)


@each_mixer
def test_rounding_twice_is_rounding_once(case: Case) -> None:
    _, after = coded(case)
    once = {name: leaf.clone() for name, leaf in tensors(after.state)}
    again, _ = coder_of(case).rounded(after.state, Remembered({}, {}))
    for name, leaf in tensors(again):
        assert torch.equal(leaf, once[name]), name


@each_mixer
def test_fp32_has_32_bits_for_each_scalar_and_integer_of_the_state(case: Case) -> None:
    size, bits = model_of(case).state_size(LENGTH), coder_of(case).bits(coded(case)[1].state)
    assert bits[0] == 32 * (size.resident + size.aux_ints)
    assert bits[FORMS.index(NEVER)] >= 2 * size.resident
    assert bits[1] < bits[0] or not size.resident


@each_mixer
def test_entries_that_are_written_once_stay_as_they_were_rounded(case: Case) -> None:
    """The last token's entries are rounded when they come, and no later token moves them."""
    model, coder = model_of(case), StateCoder((Form("int3", "head"),), coder_of(case).entries, 0)
    _, before = coder.extend(model, tokens(), None)
    old = {name: leaf.clone() for name, leaf in tensors(before.state)}
    now = dict(tensors(coder.extend(model, tokens(LENGTH + 1)[:, -1:], before)[1].state))
    for name, axis in coder.entries.items():
        if axis == BATCH or name not in old or not now[name].numel():
            continue
        assert added(old[name], now[name], axis) is not None, name
        codec, entry = coder.codecs[0], now[name].select(axis, now[name].shape[axis] - 1)
        rows = entry if entry.ndim > 1 else entry[:, None]
        assert torch.equal(codec.code(rows), rows), name


EXAMPLES = {
    "attention": {"k": 2, "v": 2},
    "sliding_window": {"k": 2, "v": 2},
    "linear_attention": {},
    "gated_deltanet": {"tail": 1},
    "mamba2": {"tail": 1},
    "rwkv7": {"last": BATCH},
    "path_attention": {"v": 2, "tail": 1},  # later tokens change its keys
}


@pytest.mark.parametrize("mixer", EXAMPLES)
def test_caches_and_tails_are_not_sums(mixer: str) -> None:
    entries = coder_of(Case(mixer)).entries
    assert {name.rpartition(".")[2]: axis for name, axis in entries.items()} == EXAMPLES[mixer]


@pytest.mark.parametrize("mixer", ["attention", "linear_attention", "mamba2"])
def test_feedback_costs_sixteen_bits_more_for_each_scalar_of_a_sum(mixer: str) -> None:
    """Feedback costs nothing for entries that are written once."""
    forms, entries = (Form("int4"), Form("int4", rounding="feedback")), coder_of(Case(mixer)).entries
    _, state = plain(model_of(Case(mixer)), tokens())
    nearest, feedback = StateCoder(forms, entries, 0).bits(state)
    sums = [leaf[0].numel() for name, leaf in tensors(state) if name not in entries]
    assert feedback - nearest == 16 * sum(sums)


def test_stochastic_rounding_draws_new_noise_for_each_form_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    noises: list[Tensor] = []
    code = Codec.code
    monkeypatch.setattr(
        Codec, "code", lambda it, x, draw: noises.append(torch.rand(4, generator=draw)) or code(it, x, draw)
    )
    coder = StateCoder((Form("int4", rounding="stochastic"), Form("int3", rounding="stochastic")), {}, 0)
    coder.extend(model_of(Case("linear_attention")), tokens(6).repeat(2, 1), None)
    assert len(noises) == len(torch.stack(noises).unique(dim=0)) >= 12


def test_a_codec_is_idempotent() -> None:
    """The numbers are of all sizes, with rows of zeros, of one value and of one sign."""
    x = torch.randn(4, 3, 8, 32, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 6, 32)
    x[0], x[1, 0], x[2] = 0.0, -0.3, x[2].abs()
    forms = []
    for name, kind in KINDS.items():
        scales = ["none"] if kind.scaling == PLAIN else ["block"] if kind.block else SCALES[:-1]
        for scale in scales:
            forms += [Form(name, scale, rounding, block=8) for rounding in ("nearest", "stochastic")]
            if kind.whole:
                forms += [Form(name, scale, how, zero_point=True) for how in ("nearest", "stochastic")]
    for form in forms:
        codec, draw = Codec(form), torch.Generator().manual_seed(5)
        once = codec.code(x, draw)
        assert torch.equal(codec.code(once, draw), once), form
        assert (once.isfinite().all() and not torch.equal(once, x)) or form.format == "fp32"


def test_all_entries_since_the_last_rounding_are_rounded() -> None:
    coder = StateCoder((Form("int3", "head", every=4),), coder_of(Case("attention")).entries, 0)
    _, after = coder.extend(model_of(Case("attention")), tokens(20), None)
    for name, leaf in tensors(after.state):
        rows = leaf.movedim(2, 1).flatten(0, 1)
        assert torch.equal(coder.codecs[0].code(rows), rows), name


def test_a_sum_that_has_not_changed_is_not_rounded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coder = StateCoder((Form("int4", rounding="feedback"),), {}, 0)
    _, after = coder.extend(model_of(Case("linear_attention")), tokens(), None)
    calls = []
    monkeypatch.setattr(Codec, "code", lambda codec, x, draw=None: calls.append(codec) or x)
    coder.rounded(after.state, after.remembered)
    assert not calls
    coder.rounded(after.state, Remembered({}, {}))
    assert calls


@pytest.mark.parametrize("length", [8, 9, 10])
def test_a_sum_that_restarts_with_each_block_is_no_entry(length: int) -> None:
    def extend(token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        offset = 0 if state is None else state.offset
        total, _ = state.layers[0] if state is not None and offset % 4 else (torch.zeros(ROWS, 3), None)
        last = token.float().expand(ROWS, 3)
        return last, ModelState(((total + last, last),), offset + 1)

    (name,) = written_once(extend, tokens(length))
    assert name.endswith("[1]"), "the last token alone is one entry"
