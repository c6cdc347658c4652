"""Impossible numbers, a user's yamls and unusable folders are refused in one line, before any work."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import registry
from tests.command import SMALL, Zoo, refusal, written
from tests.config.test_every_leaf import leaves, with_leaf
from zoo.config import command_line
from zoo.config.bounds import out_of_bounds
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.config.targets import make
from zoo.launch import score_tables
from zoo.launch.preflight import Validator
from zoo.launch.run_cell import CellFailed
from zoo.mixers.__main__ import main as list_mixers
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cases import mixer_yaml
from zoo.mixers.state import StateSize
from zoo.model import placed
from zoo.results import store
from zoo.run import run_one

COMPOSER = registry.composer()
WINDOW = "mixer=sliding_window"


def numbers() -> dict[str, list[str]]:
    """Map each mixer to its float settings; those of one class and feature map are listed once."""
    paths: dict[str, list[str]] = {}
    listed = set()
    for name in COMPOSER.options("mixer"):
        section = mixer_yaml(name)
        for path, value in leaves({k: v for k, v in section.items() if k != "about"}):
            setting = (section["_target_"], str(section.get("feature_map")), path)
            if type(value) is float and setting not in listed:
                listed.add(setting)
                paths.setdefault(name, []).append(path)
    return paths


NUMBERS = numbers()


def with_number(cell: Cell, path: str, value: float) -> Cell:
    mixer = with_leaf(cell.config["mixer"], path, value)
    layer = {key: item for key, item in mixer.items() if key != "about"}
    model = cell.config["model"] | {"layers": [layer]}
    return replace(cell, config=cell.config | {"mixer": mixer, "model": model, "n_layers": 1}, point="")


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_refused_in_one_line_or_its_outputs_and_gradients_are_finite(name: str):
    whole = COMPOSER.cell([*SMALL, f"mixer={name}"])
    for path in NUMBERS[name]:
        for value in (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e12, 1e30):
            cell = with_number(whole, path, value)
            problems = Validator().problems(cell)
            assert len(problems) <= 1, problems
            assert problems or _finite(cell), (path, value)
            assert not any("cannot be built" in line for line in problems), problems
            assert math.isfinite(value) or f"mixer.{path} (={value}) must be a finite number." in problems


def _finite(cell: Cell) -> bool:
    mixer = make(placed(cell.config["model"]["layers"][0], 0), Mixer)
    x = torch.randn(2, 16, 16, requires_grad=True)
    mixer(x).square().mean().backward()
    grads = [x.grad, *(p.grad for p in mixer.parameters())]
    return all(g is None or bool(g.isfinite().all()) for g in grads)


@pytest.mark.parametrize("group", ["task", "block", "model", "optim", "trainer"])
def test_no_number_of_any_other_yaml_may_be_infinite_or_enormous(group: str):
    for name in COMPOSER.options(group):
        config = {group: COMPOSER.cell([f"{group}={name}", WINDOW]).config[group]}
        for path, value in leaves(config):
            if type(value) in (int, float) and ".about." not in path:
                for other in (math.nan, math.inf, -math.inf, 1e30, 10**20):
                    problems = out_of_bounds(with_leaf(config, path, other))
                    assert len(problems) == 1 and problems[0].startswith(f"{path} (={other}"), problems


class Plain(Mixer[tuple]):
    """A mixer that doubles its input; `width` is that of its output, 0 for the width of the input."""

    def __init__(self, d_model: int, width: int = 0) -> None:
        super().__init__()
        self.width = range(99)[width] or d_model
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def extend(self, x: Seq, state: tuple | None = None) -> tuple[Seq, tuple]:
        return self.scale * x[..., : self.width], ()

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(paper=0, resident=0, touched=0)


YAML = "_target_: tests.config.test_bad_settings.Plain\nd_model: ${d_model}\nwidth: 0\n"


@pytest.fixture
def mine(cwd: Path) -> Any:
    """Return run(yaml, *words), which trains a cell of the mixer in this yaml and returns its record."""

    def run(yaml: str, *words: str) -> dict[str, Any]:
        written(cwd / "conf" / "mixer" / "mine.yaml", yaml)
        compose = composer(cwd / "conf")
        run_one(compose, [*SMALL, "mixer=mine", *words])
        return store.read(compose.cell([*SMALL, "mixer=mine", *words]).folder)

    return run


@pytest.mark.parametrize("about", ["", "about:\n", "about: {label: null, layers: [base_conv, mixer]}\n"])
def test_an_omitted_about_has_defaults(mine: Any, about: str):
    record = mine(YAML + about, "max_examples=4")
    assert (record["label"], record["family"], record["knob"]) == ("mine", "other", {})
    assert score_tables.named(record) == ""
    assert len(record["layers"]) == 2


def test_a_users_knob_is_shown_in_the_sweep_table(mine: Any):
    record = mine(YAML + "about: {knob: {width: [0, 16]}}\n", "mixer.width=16")
    assert score_tables.named(record) == "width=16"


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (YAML + "about: {label: 3}\n", "about.label (=3) of mixer=mine must be a word."),
        (YAML + "about: {lable: x}\n", "unknown key about.lable; did you mean about.label? [mixer=mine]"),
        (YAML + "about: 3\n", "about (=3) of mixer=mine must be {label: NAME"),
        (YAML + "about: {knob: 3}\n", "about.knob (=3) of mixer=mine must be {SETTING: [VALUE, VALUE]}."),
        (YAML + "about: {knob: {wdth: [1]}}\n", "about.knob of mixer=mine names wdth, which is no setting"),
        (YAML + "about: {family: liner}\n", "about.family (='liner') of mixer=mine must be one of atten"),
        (YAML + "about: {state: width}\n", "be the state's size: about.state gives 16 after 32 tokens"),
        (YAML + "about: {state: widht}\n", "be the state's size: AttributeError: 'Plain' object has no"),
        (YAML.replace("width: 0", "width: 99"), "IndexError: range object index out of range (test_bad_s"),
        (YAML.replace("bad_s", "bat_s"), "(=tests.config.test_bat_settings.Plain) cannot be imported:"),
        (YAML.replace(".Plain", ""), "mixer._target_ (=tests.config.test_bad_settings) is no Mixer"),
        ("d_model: ${d_model}\n", "mixer._target_ (=None) must name a Mixer"),
    ],
)
def test_a_mistake_in_a_users_yaml_is_refused_before_anything_starts(
    mine: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], yaml: str, message: str
):
    with refusal(message):
        mine(yaml)
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["conf"]


@pytest.mark.parametrize("width", [1, 8])
def test_an_output_of_the_wrong_width_fails_the_cell(mine: Any, width: int):
    """A width of one would be added to every channel of the stream."""
    with pytest.raises(CellFailed) as failed:
        mine(YAML, f"mixer.width={width}")
    assert failed.value.reason.startswith("ValueError: Plain gives [")
    assert f", {width}] for an input of [" in failed.value.reason


@pytest.mark.parametrize("what", ["file", "loop", "nothing", "result.json", "metrics.csv", "env.json"])
def test_anything_else_in_place_of_a_record_is_refused(cwd: Path, what: str):
    folder = COMPOSER.cell([*SMALL, WINDOW]).folder
    folder.parent.mkdir()
    if what == "file":
        folder.touch()
    elif what in ("loop", "nothing"):
        folder.symlink_to(folder.name if what == "loop" else "no")
    else:
        (folder / what).mkdir(parents=True)
    with pytest.raises(ValueError, match="move it away") as error:
        run_one(COMPOSER, [*SMALL, WINDOW])
    assert str(folder) in str(error.value)


def test_a_folder_name_that_is_too_long_is_refused(cwd: Path):
    with pytest.raises(ValueError, match=r"File name too long.*: give another with results=FOLDER"):
        run_one(COMPOSER, [*SMALL, WINDOW, f"results={'a' * 256}"])


@pytest.mark.parametrize("name", ["2024", "2024_01", "1e3", "ärger", "it's", "a(b", "true", "a b", r"a\b"])
def test_a_folder_may_be_called_anything(name: str):
    (word,) = command_line.readable([f"results={name}"])
    assert command_line.readable([word]) == [word]
    assert COMPOSER.cell([WINDOW, word]).config["results"] == name


@pytest.mark.parametrize("word", ["results=${oc.env:HOME}/x", "results=a,b", "lr=2024", "results='ä'"])
def test_a_word_with_a_meaning_is_left_unquoted(word: str):
    assert command_line.readable([word]) == [word]


def test_a_tilde_is_the_home_folder(zoo: Zoo, cwd: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(cwd))
    zoo.done(*SMALL, WINDOW, "results=~/jährlich/2024")
    assert len(store.records(cwd / "jährlich" / "2024")) == 1


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("_target_: [", "mine.yaml, line "),
        ("3\n", "mine.yaml cannot be read (Invalid loaded object type: int)"),
        ("_target_: zoo.mixers.attention.Atention\n", "did you mean Attention?"),
        ("_target_: zoo.mixers.attention.Attention\nabout: {label: 3}\n", "about.label (=3) of mixer=mine"),
        ("d_model: ${\n", "mine.yaml"),
        (None, "mine.yaml is no file."),  # a pipe
    ],
)
def test_the_list_of_mixers_refuses_a_broken_yaml(tmp_path: Path, yaml: str | None, message: str):
    (tmp_path / "mixer").mkdir()
    path = tmp_path / "mixer" / "mine.yaml"
    os.mkfifo(path) if yaml is None else path.write_text(yaml)
    with refusal(message, SystemExit):
        list_mixers(["--config-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("file", "message"),
    [
        *((file, "not reuse the name of a yaml") for file in ("mixer/gla.yaml", "sweep/mini_mad.yaml")),
        ("task/mine.yml", "hold files that end on .yaml: rename "),
        ("mine.yaml", "be a folder with yamls of your own in mixer/, task/ or the like."),
    ],
)
def test_a_folder_that_is_not_laid_out_like_conf_is_refused(tmp_path: Path, file: str, message: str):
    written(tmp_path / file, YAML)
    with refusal(message):
        composer(tmp_path)
    with refusal(message, SystemExit):
        list_mixers(["--config-dir", str(tmp_path)])


def test_a_mixer_without_about_is_listed_by_its_file_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    written(tmp_path / "mixer" / "mine.yaml", YAML)
    list_mixers(["--config-dir", str(tmp_path), "--markdown"])
    assert "| mine | `mine` |" in capsys.readouterr().out
