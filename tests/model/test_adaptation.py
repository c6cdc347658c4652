"""Adapters and recipes: no path skips an adapter, what trains, what is merged, and what is refused."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import get_class
from torch import Tensor, nn

import zoo as library
from tests.command import SMALL, Zoo
from tests.registry import cases
from zoo.config.compose import composer
from zoo.config.settings import AdaptationConfig
from zoo.launch.run_cell import run_cell
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, build, settings
from zoo.mixers.laws import in_parts
from zoo.mixers.positions import rotate
from zoo.mixers.projections import QueryKeyValue, stretch
from zoo.model import build_model, model_from_config
from zoo.model.low_rank import LowRank, Trainable, merge
from zoo.model.recipe import adapt
from zoo.training import build as training
from zoo.training.resume import resume

COMPOSER = composer()
TARGETS = ("query", "key", "value", "output")
LORA = AdaptationConfig(rank=2, alpha=6.0, targets=TARGETS, train=(), rope_scale=1.0)
TOKENS = torch.randn(1, 37, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def adaptable() -> list[Case]:
    """List every case whose module imports query, key and value projections; each must have adapters."""
    modules = {case: sys.modules[get_class(settings(case)["_target_"]).__module__] for case in cases()}
    heads = ("QueryKeyValue", "AttentionHeads")
    return [
        case for case, module in modules.items()
        if any(hasattr(module, name) for name in heads) or case.name == "mla"
    ]  # fmt: skip


def adapted(mixer: Mixer) -> Mixer:
    """Return the mixer with adapters that are not zero."""
    adapt(mixer, LORA, seed=0)
    generator = torch.Generator().manual_seed(0)
    for module in mixer.modules():
        if isinstance(module, LowRank):
            for b in module.b:
                b.data.normal_(generator=generator)
    return mixer


@torch.no_grad()
def paths(mixer: Mixer) -> dict[str, Tensor]:
    """Return the outputs of every path through a mixer."""
    outputs = {"forward": mixer(TOKENS), "parts": in_parts(mixer, TOKENS, [1, 2, 17])[0]}
    torch.manual_seed(0)
    outputs["training"] = mixer.train()(TOKENS)
    mixer.eval()
    return outputs


def merged_paths(mixer: Mixer) -> dict[str, Tensor]:
    """Return what every path gives after W + B A; a path that skips an adapter gives something else."""
    merged = copy.deepcopy(mixer)
    merge(merged)
    return paths(merged)


@pytest.mark.parametrize("case", adaptable(), ids=str)
def test_no_path_skips_an_adapter(case: Case):
    plain = build(case)
    mixer = adapted(copy.deepcopy(plain))
    assert any(isinstance(module, LowRank) for module in mixer.modules())
    merged, before, after = merged_paths(mixer), paths(plain), paths(mixer)
    torch.testing.assert_close(merged, after, rtol=1e-9, atol=1e-9)
    assert all(not torch.allclose(before[name], after[name], atol=1e-3) for name in after)
    if mixer.exact_decode:
        torch.testing.assert_close(after["parts"], after["forward"], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["attention", "landmark", "mla"])
def test_a_path_that_skips_an_adapter_is_caught(name: str, monkeypatch: pytest.MonkeyPatch):
    """A projection is planted that reads the frozen weight without its adapter."""
    mixer = adapted(build(next(case for case in cases() if case.name == name)))

    def frozen(linear: nn.Linear, x: Tensor) -> Tensor:
        return nn.functional.linear(x, linear.parametrizations["weight"].original, linear.bias)  # pyright: ignore

    linear = mixer.q_proj if name == "mla" else mixer.qkv.proj
    theirs = merged_paths(mixer)
    monkeypatch.setattr(linear, "forward", lambda x: frozen(linear, x))
    ours = paths(mixer)
    assert all(not torch.allclose(ours[way], theirs[way], atol=1e-3) for way in ours)


def test_an_adapter_is_the_published_sum():
    linear = nn.Linear(6, 9, bias=False).double()
    weight = linear.weight.detach().clone()
    qkv = nn.ModuleDict({"qkv": QueryKeyValue(6, 1).double()})
    with pytest.raises(ValueError, match="trains nothing"):
        adapt(nn.ModuleDict({"linear": linear}), LORA, 0)
    assert torch.equal(linear.weight, weight)
    start = qkv["qkv"].proj.weight.detach().clone()
    assert adapt(qkv, LORA, 0) == Trainable(3 * (6 + 6) * 2, 18 * 6)
    sums = qkv["qkv"].proj.parametrizations["weight"][0]
    assert torch.equal(qkv["qkv"].proj.weight, start)  # B is zero
    for part, b in enumerate(sums.b):
        b.data.normal_()
        rows = slice(6 * part, 6 * part + 6)
        torch.testing.assert_close(qkv["qkv"].proj.weight[rows], start[rows] + 3.0 * b @ sums.a[part])


HYBRID = (*SMALL, "mixer=attention", "model.layers=[mamba2,mixer]", "block.mlp=gelu")


def trained_names(recipe: str) -> set[str]:
    rank = [] if recipe == "full" else ["adaptation.rank=4"]
    cell = COMPOSER.cell([*HYBRID, f"adaptation={recipe}", *rank])
    with torch.device("meta"):
        model = build_model(cell)
        assert cell.adaptation
        adapt(model, cell.adaptation, 0)
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_each_recipe_trains_the_weights_of_its_paper():
    low = trained_names("lora")
    assert {name.split(".parametrizations.weight.")[0] for name in low} == {
        "blocks.1.mixer.qkv.proj",
        "blocks.1.mixer.out_proj",
    }
    norms = {"blocks.0.norm", "blocks.0.mlp_norm", "blocks.1.norm", "blocks.1.mlp_norm", "final_norm"}
    longer = trained_names("longlora") - low
    assert "embedding" in longer and {name for name in longer if "norm" not in name} == {"embedding"}
    assert {name.rpartition(".")[0] for name in longer} >= norms
    hybrid = trained_names("hylora") - low - longer
    assert {name.rpartition(".")[0] for name in hybrid} == {"blocks.0.mixer.conv"}
    assert trained_names("full") == {*dict(build_model(COMPOSER.cell(HYBRID)).named_parameters())}


START = (
    "start={experiment:smoke,d_model:16,task.vocab_size:128,mixer:attention,model.layers:[base_conv,mixer]}"
)


def test_an_adapted_cell_is_trained_recorded_and_resumed(cwd: Path):
    """Frozen weights stay to the bit; trained ones are merged, and score as they did."""
    words = [*SMALL, "mixer=se_attn_lm", "mixer.bias=true", START, "adaptation=longlora", "adaptation.rank=2"]
    cell = COMPOSER.cell([*words, "adaptation.alpha=4", "optim.batch_size=8", "lr=0.01"])
    for one in cell.lineage:
        run_cell(one, lambda progress: None)
    before, after = library.load("results", cell.start), library.load("results", cell.run_id)
    old, new = before.model.state_dict(), after.model.state_dict()
    moved = {name for name in old if not torch.equal(old[name], new[name])}
    norms = {name for name in old if "norm" in name}
    assert moved == {"embedding", "blocks.1.mixer.qkv.proj.weight", "blocks.1.mixer.out_proj.weight"} | norms
    assert after.record["fresh"] == ["blocks.1.mixer.choice.summaries.landmark"]
    adaptation = after.record["adaptation"]
    assert (adaptation["recipe"], adaptation["rank"], adaptation["train"]) == (
        "longlora",
        2,
        ["embedding", "norms"],
    )
    low, whole = 2 * (4 * 32), 128 * 16 + sum(old[name].numel() for name in norms)
    assert adaptation["trained"] == low + whole
    assert adaptation["share"] == (low + whole) / after.record["parameters"]
    segment = after.record["slices"][-1]
    rows = range(segment["rows"])
    again = after.score(after.task.sample("test", len(after.task.segments("test")) - 1, rows))
    assert again.accuracy == segment["accuracy"] and again.loss == pytest.approx(segment["loss"], abs=1e-5)
    _check_resume(cell, cwd / "again")


def _check_resume(cell: Any, folder: Path) -> None:
    """Check that the cell resumes from a checkpoint without its start."""
    folder.mkdir()
    first = resume(training.build(cell, folder))
    for parameter in first.model.parameters():
        parameter.data.add_(1.0)
    first.position.step = 1
    first.save(first.model.state_dict(), None, {}, None)
    again = resume(training.build(cell, folder))
    assert again.position.fresh == first.position.fresh
    named = dict(again.model.named_parameters())
    for name, parameter in first.model.named_parameters():
        assert torch.equal(named[name], parameter) and named[name].requires_grad == parameter.requires_grad


REFUSED = {
    "adaptation.rank=0": "adaptation.rank (=0) must be at least 1.",
    "adaptation.rank=null": "adaptation.rank (=None) and adaptation.alpha (=64.0) go together: give both.",
    "adaptation.targets=[]": "adaptation.targets (=[]) must name what has the adapters of adaptation.rank",
    "adaptation.targets=[keys]": "adaptation.targets[0] (='keys') must be one of query, key, value, output.",
    "adaptation.rope_scale=8": "adaptation.rope_scale (=8) needs attention with position=rope",
    "mixer=gla": "adaptation trains nothing: no layer has what adaptation.targets and adaptation.train name",
    "start=null": "adaptation=lora adapts weights that are trained: give start=RUN",
    "adaptation.alpha=8": "adaptation.rank (=32) must be at most 16, the width of blocks.1.mixer.out_proj",
    "adaptation=loro": "unknown adaptation loro; did you mean lora?",
}


@pytest.mark.parametrize("word", REFUSED)
def test_an_impossible_recipe_is_refused(zoo: Zoo, word: str):
    mixer = word.partition("mixer=")[2] or "attention"
    start = START.replace("mixer:attention", f"mixer:{mixer}")
    assert zoo.refused(*SMALL, f"mixer={mixer}", "adaptation=lora", start, word).startswith(REFUSED[word])
    assert not Path("results").exists()


def test_the_rope_scale_divides_positions():
    x = torch.randn(1, 2, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(rotate(x, 4, scale=4.0)[:, :, :1], rotate(x, 1)[:, :, :1])
    tested: list[str] = []
    for case in adaptable():
        mixer = build(case)
        if any(isinstance(m, QueryKeyValue) and m.position == "rope" for m in mixer.modules()):
            with torch.no_grad():
                before = mixer(TOKENS)
                stretch(mixer, 2.5)
                after, (parts, _) = mixer(TOKENS), in_parts(mixer, TOKENS, [16])
            assert not torch.allclose(before, after, atol=1e-6), case
            if mixer.exact_decode:
                torch.testing.assert_close(parts, after, rtol=1e-8, atol=1e-8)
            tested.append(case.name)
    assert {"attention", "landmark", "bmojo", "se_attn", "s2_attn", "sliding_window"} <= {*tested}


def test_the_share_of_the_published_hybrid():
    """The model has 58 Mamba-2 layers and 6 of attention, is 2,560 wide and is built on "meta"."""
    words = ["model=se_attn_hybrid", "mixer=attention", "mixer.bias=false", "d_model=2560", "n_layers=64"]
    cell = COMPOSER.cell([*words, "adaptation=hylora"])
    with torch.device("meta"):
        model = model_from_config(cell.config, 50280)
        assert cell.adaptation
        result = adapt(model, cell.adaptation, 0)
    trained = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}

    def share(word: str) -> int:
        return sum(count for name, count in trained.items() if word in name)

    assert share("embedding") == 50280 * 2560
    assert share("parametrizations") == 6 * 4 * 32 * (2560 + 2560)  # rank 32 on four projections
    assert share(".conv.") == 58 * 5 * (2 * 2560 + 2 * 16)  # taps and biases of x, B and C
    assert result.trained - share("norm") == share("embedding") + share("parametrizations") + share(".conv.")
    assert 2.5e9 < result.total < 2.7e9 and 0.05 < result.share < 0.06
    assert 0.002 < (result.trained - share("embedding")) / result.total < 0.003
