"""Laws of the model, for every mixer of conf/mixer in its layer pattern, and the effect of each setting."""

import math
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import torch
from hydra.utils import instantiate
from torch import Tensor, nn

from tests.registry import block_yaml, cases
from zoo.mixers.base import Linked, Links, Mixer, Seq
from zoo.mixers.cases import WIDTH, Case, mixer_yaml, settings
from zoo.mixers.laws import held, in_parts
from zoo.mixers.state import StateSize, peak
from zoo.model import SequenceModel, model_from_config, placed, seeded

VOCAB = 24
NAMES = sorted({case.name for case in cases()})
PRE_NORM, ZOOLOGY = block_yaml("pre_norm"), block_yaml("zoology")


def layers_of(name: str) -> list[dict[str, Any]]:
    """Return the settings of two layers in the mixer's pattern."""
    pattern = mixer_yaml(name)["about"]["layers"]
    entries = [pattern[i % len(pattern)] for i in range(2)]
    return [{k: v for k, v in _entry(entry, name).items() if k != "about"} for entry in entries]


def _entry(entry: str | dict[str, Any], name: str) -> dict[str, Any]:
    stem, changes = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
    return mixer_yaml(name if stem == "mixer" else stem) | changes


def config(
    layers: list[dict[str, Any]], block: dict[str, Any] = PRE_NORM, seed: int = 0, **model: Any
) -> dict:
    return {"seed": seed, "block": block, "model": {"layers": layers} | model}


@cache
def model_of(name: str, positions: int = 0) -> SequenceModel:
    model = model_from_config(config(layers_of(name), learned_positions=positions), VOCAB).double().eval()
    for p in model.parameters():
        if not p.any():  # as the output of RWKV's layers, which would hide what they compute
            nn.init.normal_(p, std=0.1)
    return model


def ids(length: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, (2, length), generator=torch.Generator().manual_seed(seed))


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-9)


class Counter(Mixer):
    """A toy with weights: y = x * weight + the number of tokens so far."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_model))

    def extend(self, x: Seq, state: tuple[int] | None = None) -> tuple[Seq, tuple[int]]:
        past = state[0] if state else 0
        count = torch.arange(past + 1, past + 1 + x.shape[1], dtype=x.dtype)
        return x * self.weight + count[:, None], (past + x.shape[1],)

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(paper=None, resident=3 * seq_len, touched=2, aux_ints=1)


COUNTER = {"_target_": "tests.model.test_model.Counter", "d_model": WIDTH}


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_splitting_a_sequence_changes_nothing(name: str):
    model, inputs = model_of(name, positions=23), ids(23)
    whole, agree = model(inputs), []
    for cuts in ([1], [9], [22], [3, 4, 17], list(range(1, 23))):
        parts, state = in_parts(model, inputs, cuts)
        assert state.offset == 23
        agree.append(same(parts, whole))
    assert all(agree) == model.exact_decode


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_the_models_state_is_what_its_layers_hold(name: str):
    model = model_of(name)
    for length in (1, 7, 20):
        _, state = model.extend(ids(length))
        size = model.state_size(length)
        assert sum(held(layer) for layer in state.layers) == size.resident
        assert size.resident == sum(mixer.state_size(length).resident for mixer in model.mixers)


def test_visible_composes_the_layers_views():
    window = settings(Case("sliding_window", {"window": 3}))
    one, two = (model_from_config(config([window] * n), VOCAB) for n in (1, 2))
    t = torch.arange(12)
    age, every = t[:, None] - t, torch.eye(12, dtype=torch.bool)
    assert torch.equal(one.visible(every), (age >= 0) & (age < 3))
    assert torch.equal(two.visible(every), (age >= 0) & (age < 5))
    assert not two.sees_all(12) and two.sees_all(3)
    assert model_from_config(config([window, COUNTER]), VOCAB).sees_all(12)


class Gist(Linked):
    """A toy with a link: it writes its inputs as `gist`, or adds the `gist` of a layer below."""

    def __init__(self, d_model: int, write: bool) -> None:
        super().__init__()
        self.reads, self.leaves = ((), ("gist",)) if write else (("gist",), ())

    def extend_linked(self, x: Seq, state: tuple | None, read: Links) -> tuple[Seq, tuple, Links]:
        return x + read.get("gist", 0), (), {name: x for name in self.leaves}

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(paper=None, resident=0, touched=0)


def gist(write: bool) -> dict[str, Any]:
    return {"_target_": "tests.model.test_model.Gist", "d_model": WIDTH, "write": write}


@torch.no_grad()
def test_a_link_is_read_by_its_name_in_a_layer_above():
    """The name occurs in no file of zoo."""
    model = model_from_config(config([gist(True), COUNTER, gist(False)]), VOCAB).double().eval()
    first, _, last = (block.norm for block in model.blocks)
    normed: list[Tensor] = []
    for norm in (first, last):
        norm.register_forward_hook(lambda module, given, out: normed.append(out))
    whole = model(ids(9))
    stream = model.start(ids(9))
    for block in model.blocks:
        stream = block(stream)
    assert torch.equal(stream.hidden, normed[0] + normed[1]) and {*stream.links} == {"embedding", "gist"}
    assert same(in_parts(model, ids(9), [4])[0], whole)


@pytest.mark.parametrize("layers", [[gist(False)], [gist(False), gist(True)]], ids=["none", "above"])
def test_a_link_that_no_layer_below_writes_is_refused(layers: list[dict[str, Any]]):
    words = r"Gist \(layer 0 of model\.layers\) reads 'gist', and what is left below it is embedding: put"
    with pytest.raises(ValueError, match=words):
        model_from_config(config(layers), VOCAB)


@pytest.mark.parametrize("name", NAMES)
def test_wrapping_a_mixer_in_a_model_leaves_its_initial_weights(name: str):
    layers = layers_of(name)
    for block in (PRE_NORM, ZOOLOGY):
        model = model_from_config(config(layers, block), VOCAB)
        for i, layer in enumerate(layers):
            with seeded(0, f"layers.{i}"):
                alone = instantiate(placed(layer, i), _convert_="all")
            for key, value in alone.state_dict().items():
                assert torch.equal(model.mixers[i].state_dict()[key], value), f"{name}, layer {i}: {key}"


def test_initial_weights_do_not_depend_on_the_other_parts():
    small = model_from_config(config([COUNTER]), VOCAB)
    large = model_from_config(
        config([COUNTER, COUNTER], ZOOLOGY, tie_embedding=False, learned_positions=9), VOCAB
    )
    assert torch.equal(small.embedding, large.embedding)
    assert torch.equal(small.mixers[0].weight, large.mixers[0].weight)
    assert not torch.equal(large.mixers[0].weight, large.mixers[1].weight)
    assert not torch.equal(large.embedding, large.head)
    other = model_from_config(config([COUNTER], seed=1), VOCAB)
    assert not torch.equal(small.embedding, other.embedding)
    assert not torch.equal(small.mixers[0].weight, other.mixers[0].weight)


def test_building_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    first = model_from_config(config([COUNTER]), VOCAB)
    assert torch.equal(torch.randn(3), expected)
    torch.manual_seed(6)
    assert torch.equal(model_from_config(config([COUNTER]), VOCAB).embedding, first.embedding)


@pytest.mark.parametrize("name", NAMES)
def test_models_are_built_on_meta_without_memory(name: str):
    with torch.device("meta"):
        model = model_from_config(config(layers_of(name)), 2**30)
    assert all(p.is_meta for p in model.parameters())
    assert model.state_size(100) == model_of(name).state_size(100)


def test_each_leaf_of_the_model_changes_it():
    plain = model_from_config(config([COUNTER]), VOCAB)
    untied = model_from_config(config([COUNTER], tie_embedding=False), VOCAB)
    placed = model_from_config(config([COUNTER], learned_positions=7), VOCAB)
    wide = model_from_config(config([COUNTER], init_std=0.5), VOCAB)
    assert plain.head_weight is plain.embedding
    assert untied.head_weight is not untied.embedding
    assert placed.positions is not None and placed.positions.shape == (7, WIDTH)
    assert not torch.equal(plain(ids(7)), placed(ids(7)))
    torch.testing.assert_close(wide.embedding, plain.embedding * 25)
    assert torch.equal(plain.logits(plain(ids(4))), plain(ids(4)) @ plain.embedding.T)


# The mixers of the reference's figures (HazyResearch/zoology, d88d6f5). It draws the last projection smaller
# if its name is out_proj, and like the others if it has another name
# (proj_o of based, output_linear of h3, output of rwkv4, combine_heads of nsa, o_proj).
OUT_PROJ = ("attention", "sliding_window", "hyena", "bigbird", "scatterbrain", "nystromformer")
OTHERWISE = ("based", "h3", "rwkv4", "deltanet", "gated_deltanet", "gla", "ttt_linear", "nsa")


@pytest.mark.parametrize("mixer", [*OUT_PROJ, *OTHERWISE])
def test_redraw_changes_the_linear_layers_to_the_references(mixer: str):
    layers = [layer | ({"n_layers": 4} if "n_layers" in layer else {}) for layer in layers_of(mixer) * 2]
    plain, redrawn = (model_from_config(config(layers, redraw=redraw), VOCAB) for redraw in (False, True))
    linear = {name for name, part in plain.named_modules() if isinstance(part, nn.Linear)}
    before = dict(plain.named_parameters())
    for name, parameter in redrawn.named_parameters():
        part, _, kind = name.rpartition(".")
        if part not in linear:
            assert torch.equal(parameter, before[name]), name
        elif kind == "bias":
            assert not parameter.any()
        else:
            last = mixer in OUT_PROJ and part.endswith(".out_proj")
            std = 0.02 / math.sqrt(2 * len(layers)) if last else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.25), name
    drawn = [part.weight for part in redrawn.modules() if isinstance(part, nn.Linear)]
    assert drawn and not any(torch.equal(a, b) for a, b in combinations(drawn, 2))


def test_gradients_reach_every_parameter_of_a_tied_and_an_untied_model():
    for tie in (True, False):
        model = model_from_config(config([COUNTER], tie_embedding=tie, learned_positions=9), VOCAB)
        model.logits(model(ids(9))).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (config([COUNTER], learned_positions=-1), "learned_positions"),
        (config([COUNTER], init_std=0.0), "init_std"),
        (config([]), "n_layers"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        model_from_config(given, VOCAB)


def test_a_sequence_longer_than_the_learned_positions_is_refused():
    model = model_from_config(config([COUNTER], learned_positions=7), VOCAB)
    with pytest.raises(ValueError, match=r"learned_positions \(=7\).*8"):
        model(ids(8))
    _, state = model.extend(ids(7))
    with pytest.raises(ValueError, match="learned_positions"):
        model.extend(ids(1), state)


def test_flags_are_those_of_all_layers():
    model = model_from_config(config([COUNTER, COUNTER]), VOCAB)
    assert model.causal and model.exact_decode
    model.mixers[1].causal = model.mixers[0].exact_decode = False
    assert not model.causal and not model.exact_decode


def test_the_peak_size_is_the_largest_after_any_token():
    sizes = {1: (3, 1), 2: (9, 2), 3: (5, 7), 4: (0, 0)}
    most = peak(lambda tokens: StateSize(tokens, *sizes[tokens], aux_ints=4 - tokens), 4)
    assert most == StateSize(paper=4, resident=9, touched=7, aux_ints=3)
