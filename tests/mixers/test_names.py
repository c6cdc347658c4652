"""Mixers imported by name are those of `mixer=STEM`; the command line takes every variant."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from inspect import Parameter, signature
from typing import Any

import pytest
import torch
import yaml
from hydra.utils import get_object
from omegaconf import OmegaConf

import zoo.mixers
from tests.registry import cases, composer
from zoo.config.arguments import parameters as accepted
from zoo.config.paths import CONF
from zoo.config.targets import make
from zoo.launch.preflight import Validator
from zoo.mixers import DPFP, Attention, Based, Mamba2, MoBA
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case
from zoo.mixers.feature_maps import Performer, Taylor2
from zoo.mixers.named import stems
from zoo.model import without_about

pytestmark = pytest.mark.xdist_group("every mixer composed")  # with one composer
COMPOSER = composer()
# Of yamls whose class has several, or one that is not named as the class's module.
SHARED = """
AllPoly Based BasedDecay CosFormer DPFP Hedgehog LinearAttention LinearIdentity LinearReLU LinearSquare
Performer ReBased SEAttn SEAttnCapped SEAttnLM SEAttnNoMem SEAttnRandom MoBA BaseConv BaseConvLong BMojo
BMojoF TTTLinear TTTMLP StreamingLLM SinkLogit MinGRU MinLSTM H2O TOVA SnapKV TitansLinear TitansMLP
Yaad Moneta"""


@pytest.mark.parametrize(("name", "stem"), stems().items(), ids=stems())
def test_a_name_builds_what_a_cell_builds(name: str, stem: str):
    build, config = getattr(zoo.mixers, name), _in_a_cell(stem)
    theirs, ours = _seeded(partial(make, config, Mixer)), _seeded(partial(build, d_model=32))
    assert type(ours) is type(theirs)
    shown = {key: p.default for key, p in signature(build).parameters.items() if key in config}
    assert shown | {"d_model": 32} == {k: v for k, v in config.items() if k != "_target_"}
    for (key, got), (_, wanted) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert torch.equal(got, wanted), key
    x = torch.randn(2, 5, 32)
    assert torch.equal(ours(x), theirs(x))
    y, state = ours.extend(x[:, :3])
    assert y.shape == (2, 3, 32) and ours.extend(x[:, 3:], state)[0].shape == (2, 2, 32)


def _in_a_cell(stem: str) -> dict[str, Any]:
    """The settings that a cell hands the class.  Composing is slow: done where there is more to fill in."""
    path = CONF / "mixer" / f"{stem}.yaml"
    if path.read_text().count("${") > 1:
        return without_about(COMPOSER.cell([f"mixer={stem}", "d_model=32"]).config["mixer"])
    alone = OmegaConf.create({"d_model": 32, "mixer": OmegaConf.load(path)})
    return without_about(OmegaConf.to_container(alone.mixer, resolve=True))  # pyright: ignore


def _seeded(build: Callable[[], Mixer]) -> Mixer:
    torch.manual_seed(1)
    return build().eval()


def test_every_yaml_has_its_name_in_the_package():
    assert sorted(stems().values()) == sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))
    assert set(stems()) <= set(dir(zoo.mixers))
    shared = set(SHARED.split())
    assert shared <= stems().keys()
    assert all(stems()[name].replace("_", "") == name.lower() for name in shared)
    alone = stems().keys() - shared
    assert all(getattr(zoo.mixers, name)(d_model=32).__class__.__name__ == name for name in alone)


def test_settings_are_by_keyword_and_shown():
    parameters = signature(Mamba2).parameters
    assert {p.kind for p in parameters.values()} == {Parameter.KEYWORD_ONLY}
    assert [key for key, p in parameters.items() if p.default is Parameter.empty] == ["d_model"]
    assert (Mamba2.__name__, Mamba2.__module__) == ("Mamba2", "zoo.mixers")
    assert "conf/mixer/mamba2.yaml" in Mamba2.__doc__ and "h_t = exp(dt_t A)" in Mamba2.__doc__
    assert Mamba2(d_model=32, d_state=5).state_size(9).resident == 64 * 5 + 3 * (64 + 2 * 5)


def test_settings_inside_settings():
    assert DPFP(d_model=32, feature_map={"nu": 5}).map.nu == 5
    assert isinstance(DPFP(d_model=32, feature_map=Taylor2).map, Taylor2)
    named = {"_target_": "zoo.mixers.feature_maps.Taylor2", "_partial_": True}
    assert isinstance(DPFP(d_model=32, feature_map=named).map, Taylor2), "nu is DPFP's"
    performer = Based(d_model=32, feature_map=partial(Performer, num_features=7, seed=0))
    assert performer.map.expanded_dim == 7
    assert Based(d_model=32, decay="per_head").decay is not None, "the class has it, based.yaml has not"
    assert MoBA(d_model=32, chunk_size=6).block_size == 6, "moba.yaml: as the chunk's"
    assert Attention(d_model=32, num_kv_heads=None, bias=False).qkv is not None


def parts(node: Any) -> Iterator[dict[str, Any]]:
    """All below a node that name a `_target_`."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and "_target_" in node:
        yield node
    for child in inner:
        yield from parts(child)


@pytest.mark.parametrize("group", ["mixer", "block", "task"])
def test_a_default_stands_in_the_yaml_or_in_the_class_never_in_both(group: str):
    """A class has one only for what some yaml of it leaves out: its own settings, or another variant's."""
    stated: dict[str, list[set[str]]] = defaultdict(list)
    for path in (CONF / group).glob("*.yaml"):
        for part in parts(yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
            stated[part["_target_"]].append(set(part))
    twice = [
        f"{target}({key}={parameter.default!r})"
        for target, keys in stated.items()
        for key, parameter in accepted(get_object(target))[0].items()
        if key in set.intersection(*keys) and parameter.default is not Parameter.empty
    ]
    assert not twice and stated


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: Mamba2(d_model=32, d_stat=4), "unknown setting of Mamba2: d_stat; did you mean d_state?"),
        (
            lambda: Mamba2(32, d_model=32),
            "Mamba2 takes its settings by keyword, and needs d_model: Mamba2(d_model=64).",
        ),
        (lambda: Mamba2(), "Mamba2 takes its settings by keyword, and needs d_model: Mamba2(d_model=64)."),
        (lambda: zoo.mixers.Mamba22, "unknown mixer zoo.mixers.Mamba22; did you mean zoo.mixers.Mamba2?"),
        (lambda: zoo.mixers.mamba22, "module 'zoo.mixers' has no attribute 'mamba22'"),
    ],
)
def test_a_mistake_is_refused_in_one_line(call: Callable[[], Any], line: str):
    with pytest.raises((TypeError, AttributeError)) as error:
        call()
    assert str(error.value) == line


def test_the_package_itself_and_zoo_load_nothing():
    heavy = "{'torch', 'yaml', 'hydra', 'omegaconf', 'pandas'} & sys.modules.keys()"
    code = f"import sys, zoo.mixers; hasattr(zoo.mixers, 'mamba2'); sys.exit(str({heavy} or ''))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not ran.stderr.strip()


@pytest.mark.parametrize("case", [case for case in cases() if case.changes], ids=str)
def test_the_command_line_takes_the_variant(case: Case):
    words = [f"mixer.{key}={_word(value)}" for key, value in case.changes.items() if key != "layer"]
    cell = composer().cell([f"mixer={case.name}", f"d_model={WIDTH}", "experiment=smoke", *words])
    assert Validator().problems(cell) == []


def _word(value: Any) -> str:
    """Write a value as the command line has it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_word(inner)}" for key, inner in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)
