"""Composition, the run id, layer patterns and the nearest names."""

import copy
import re
import sys
from pathlib import Path
from unittest.mock import create_autospec

import hydra
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf, open_dict

from tests.command import ROOT, TOYS, written
from tests.registry import compose
from zoo import run
from zoo.config.cell import Cell
from zoo.config.command_line import parser
from zoo.config.compose import composer
from zoo.config.paths import CONF
from zoo.launch import sweep
from zoo.mixers.laws import held, in_parts
from zoo.model import build_model

COMPOSER = composer(TOYS)


def cell(*overrides: str) -> Cell:
    return COMPOSER.cell(["mixer=sliding_window", *overrides])


@pytest.mark.parametrize(
    "words",
    [
        "mixer=sliding_window",
        "mixer=sliding_window mixer.window=3 d_model=32 lr=1e-3 seed=7",
        "mixer=sliding_window experiment=smoke optim.max_epochs=3",
        "optim=zoology mixer=attention block=zoology optim.betas=[0.8,0.9] optim.betas.1=0.95",
        "mixer=attention task=mqar_single mixer.position=rope ++mixer.num_heads=2 ~mixer.rope_base",
        "mixer=attention model.layers=[attention,{mixer:{num_heads:2}}] trainer=gpu mixer={bias:false}",
    ],
)
def test_a_cached_composition_equals_hydras(words: str):
    overrides = words.split()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        plain = hydra.compose("config", overrides=overrides, return_hydra_config=True)
    choices = {k: v for k, v in plain.hydra.runtime.choices.items() if not k.startswith("hydra/") and v}
    with open_dict(plain):
        del plain["hydra"]
    for _ in range(2):  # the second time from the cache
        cfg, chosen = COMPOSER.config(overrides)
        assert OmegaConf.to_container(cfg) == OmegaConf.to_container(plain)
        assert chosen == choices
    assert not GlobalHydra.instance().is_initialized()


def test_null_for_a_group_is_as_if_the_word_were_left_out():
    null = "adaptation=null", "experiment=null"
    assert COMPOSER.cell(["mixer=based", *null]).run_id == COMPOSER.cell(["mixer=based"]).run_id
    assert COMPOSER.hydras(["mixer=based,mamba", *null]) == COMPOSER.hydras(["mixer=based,mamba"])
    with pytest.raises(ValueError, match=r"unknown key optim\.foo"):
        COMPOSER.cell(["mixer=based", *null, "optim={foo: 1}"])
    with pytest.raises(
        ValueError, match=r"an argument of an optimizer takes a plus: \+optim\.momentum=0\.9\."
    ):
        COMPOSER.cell(["mixer=based", "optim.momentum=0.9"])


def test_a_copy_from_the_cache_shares_nothing():
    first = cell("mixer.window=4", "optim.betas.0=0.5")
    assert cell().config["mixer"]["window"] == 8
    assert cell().config["optim"]["betas"][0] == 0.9
    first.config["model"]["layers"][0]["kernel_size"] = 99
    assert cell().config["model"]["layers"][0]["kernel_size"] != 99


def test_the_run_id_ignores_where_and_how_and_nothing_else():
    run_id = cell().run_id
    same = ["results=elsewhere", "trainer.threads=2", "trainer.checkpoint_every=7", "logger=tensorboard"]
    same += ["trainer.step=eager", "trainer.step=compile", "trainer.checkpoint_seconds=5"]
    same += ["mixer.about.label=Other", "d_model=64", "mixer=sliding_window", "optim.weight_decay=1e-1"]
    same += ["keep_weights=true", "keep_weights=false", "population=7", "population=auto"]
    assert {cell(word).run_id for word in same} == {run_id}
    other = ["d_model=32", "n_layers=3", "seed=1", "lr=1e-3", "mixer.window=4", "optim.max_epochs=1"]
    other += ["task.vocab_size=64", "trainer.precision=64-true", "model.init_std=0.1", "mixer=attention"]
    assert len({run_id, *(cell(word).run_id for word in other)}) == len(other) + 1
    assert cell("lr=1").run_id == cell("lr=1.0").run_id


def test_a_new_setting_with_its_usual_value_changes_no_run_id():
    now = cell("mixer=attention")
    before = copy.deepcopy(now)
    for settings in (before.config["mixer"], *before.config["model"]["layers"]):
        settings.pop("dropout", None)
    assert before.config != now.config
    assert before.run_id == now.run_id != cell("mixer=attention", "mixer.dropout=0.1").run_id


def test_a_point_ignores_seed_and_lr_wherever_they_are_used():
    assert cell("seed=3", "lr=0.1").config["task"]["seed"] == 3
    assert cell("seed=3", "lr=0.1").point == cell().point
    assert cell("seed=3", "task.seed=3").point != cell("seed=3").point
    assert cell("d_model=32").point != cell().point


def test_a_gpu_trains_cells_together_by_default():
    words = {"trainer=cpu": 1, "trainer=gpu": "auto", "trainer.accelerator=gpu": 1}
    assert {word: cell(word).config["population"] for word in words} == words
    assert cell("trainer=gpu", "population=4").config["population"] == 4
    assert cell("trainer=gpu", "trainer.precision=32-true").run_id == cell().run_id


def test_a_layer_pattern_repeats_and_takes_changes():
    pattern = "model.layers=[base_conv,mixer,{mixer:{window:2}}]"
    layers = cell("n_layers=5", pattern, "d_model=32").config["model"]["layers"]
    kinds = ["BaseConv", "SlidingWindow", "SlidingWindow", "BaseConv", "SlidingWindow"]
    assert [layer["_target_"].rsplit(".", 1)[1] for layer in layers] == kinds
    assert [layer.get("window") for layer in layers] == [None, 8, 2, None, 8]
    assert {layer["d_model"] for layer in layers} == {32}
    assert all("about" not in layer for layer in layers)


def test_a_layer_may_be_a_mixer_from_a_users_folder():
    layers = cell("model.layers=[faulty,mixer]").config["model"]["layers"]
    assert layers[0]["_target_"] == "tests.toys.faulty.Faulty"


def test_settings_of_the_chosen_mixer_stay_out_of_the_other_layers():
    layers = cell("mixer.window=2", "model.layers=[sliding_window,mixer]").config["model"]["layers"]
    assert [layer["window"] for layer in layers] == [8, 2]


def test_no_module_imports_hydras_private_parts():
    files = [path for top in ("zoo", "hydra_plugins", "analysis") for path in (ROOT / top).rglob("*.py")]
    assert not [path for path in files if re.search(r"(from|import) hydra\._", path.read_text())]


@pytest.mark.parametrize(
    "flag", ["--cfg job", "-c hydra", "-cn x", "--info", "-i plugins", "-r", "--package a.b"]
)
def test_hydras_flags_are_parsed_as_hydra_parses_them(flag: str):
    from hydra._internal.utils import get_args_parser

    words = ["mixer=based", "-m", "-cd", "here", *flag.split()]
    assert vars(parser().parse_args(words)) == vars(get_args_parser().parse_args(words))
    assert {*parser()._option_string_actions} == {*get_args_parser()._option_string_actions}


@pytest.mark.parametrize("words", [["mixer=sliding_window"], ["-m", "mixer=sliding_window", "seed=0,1"]])
def test_a_command_composes_yamls_once(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each command composes all but the mixer once; a sweep composes once more, for its sweeper."""
    loader = type(COMPOSER.loader)
    load = create_autospec(loader.load_configuration, side_effect=loader.load_configuration)
    monkeypatch.setattr(loader, "load_configuration", load)
    monkeypatch.setattr(run, "run_one", lambda composer, words: composer.cell(words))
    monkeypatch.setattr(sweep, "run_sweep", lambda composer, batch, workers: [*map(composer.cell, batch)])
    monkeypatch.setattr(sys, "argv", ["zoo.run", *words])
    assert run.main() == 0
    composed = [call.kwargs.get("overrides") or call.args[2] for call in load.call_args_list]
    assert composed == ([words[1:]] if words[0] == "-m" else []) + [["~mixer"]]


def test_a_yaml_that_changes_the_mixer_is_composed_with_it(tmp_path: Path):
    written(tmp_path / "experiment" / "mine.yaml", "# @package _global_\nmixer: {window: 5}\n")
    mine = composer(tmp_path)
    assert mine.cell(["experiment=mine", "mixer=sliding_window"]).config["mixer"]["window"] == 5
    assert mine.cell(["mixer=sliding_window"]).config["mixer"]["window"] == 8


def test_a_wrong_hydra_section_in_a_yaml_is_refused(tmp_path: Path):
    written(tmp_path / "experiment" / "mine.yaml", "# @package _global_\nhydra: {launchr: {}}\n")
    mine = composer(tmp_path)
    with pytest.raises(ValueError, match="In 'experiment/mine': ConfigKeyError"):
        mine.cell(["experiment=mine"])
    assert mine.cell(["mixer=attention"]).mixer == "attention"  # the failed composition changes no later one


@pytest.mark.parametrize(
    ("words", "most", "few", "places"),
    [
        ("model=mamba2_hybrid mixer=mamba2 n_layers=64", "Mamba2", "Attention", [5, 15, 25, 35, 45, 55]),
        ("model=se_attn_hybrid mixer=se_attn n_layers=64", "Mamba2", "SEAttn", [5, 15, 25, 35, 45, 55]),
        ("model=jamba mixer=mamba n_layers=32", "Mamba", "Attention", [4, 12, 20, 28]),
        ("model=zamba mixer=mamba n_layers=21", "Mamba", "SharedAttention", [6, 13, 20]),
    ],
)
def test_a_hybrid_has_attention_where_it_was_published(words: str, most: str, few: str, places: list[int]):
    layers = compose([*words.split(), "d_model=16"]).config["model"]["layers"]
    kinds = [layer["_target_"].split(".")[-1] for layer in layers]
    assert [i for i, kind in enumerate(kinds) if kind == few] == places
    assert kinds.count(most) == len(kinds) - len(places)


def test_griffin_is_two_recurrent_layers_and_a_window_with_one_key_head():
    cell = compose(["model=griffin", "mixer=mamba", "mixer.d_state=3", "d_model=16", "n_layers=6"])
    layers = cell.config["model"]["layers"]
    assert [layer.get("window") for layer in layers] == [None, None, 64] * 2
    assert [layer.get("d_state") for layer in layers] == [3, 3, None] * 2
    assert layers[2]["num_kv_heads"] == 1


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["mamba2_hybrid", "se_attn_hybrid", "griffin", "zamba", "jamba", "samba", "yoco"]
)
def test_every_pattern_decodes_as_it_trains_and_holds_what_it_says(name: str):
    model = build_model(compose([f"model={name}", "d_model=8", "task=mqar"])).double().eval()
    inputs = torch.randint(20, (1, 30))
    parts, state = in_parts(model, inputs, [17])
    torch.testing.assert_close(parts, model(inputs), rtol=1e-8, atol=1e-10)
    assert held(state.layers) == model.state_size(30).resident
