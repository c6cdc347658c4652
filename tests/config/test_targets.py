"""A `_target_` names a class of the kind that its place expects; nothing else is imported or called."""

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from tests.command import SMALL, refusal
from tests.registry import compose, composer
from zoo.common.part import Part
from zoo.config.targets import PARTS, check, make, target
from zoo.launch.preflight import Validator
from zoo.mixers.base import Mixer
from zoo.model import SequenceModel, outline
from zoo.run import run_one
from zoo.tasks.base import Task
from zoo.tasks.build import task_of
from zoo.tasks.corpora.load import _language
from zoo.tasks.mqar import MQAR

BASED = compose(["mixer=based", "d_model=16"]).config["mixer"]
CALLED = "tests.config.test_targets.called"


def called(**parts: Any) -> None:
    raise AssertionError(f"was called with {parts}")


@pytest.mark.parametrize(
    "name",
    [
        *("os.system", "subprocess.run", "builtins.eval", "pathlib.Path.write_text", "antigravity.x"),
        *("eval", "", None, 3, "os", ".os.system", "zoo..x", "zoo.mixers.base.__builtins__", "a b.c", "_x.Y"),
    ],
)
def test_a_name_that_cannot_be_a_part_is_not_imported(name: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.import_module", called)
    with pytest.raises(ValueError, match=r"^mixer\._target_ \(=.*\) must name a Mixer") as error:
        target(name, Mixer, "mixer")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        *("pandas.read_pickle", "torch.load", "torch.nn.Linear", "zoo.mixers.attention", CALLED),
        *("zoo.tasks.mqar.MQAR", "zoo.mixers.feature_maps.Taylor2"),
        *("zoo.mixers.attention.Attention.register", "zoo.mixers.attention.Attention.forward"),
        *("zoo.mixers.attention.Attention.mro", "zoo.config.cell.Cell"),
    ],
)
def test_a_name_that_is_no_part_is_not_called(name: str):
    with pytest.raises(ValueError, match=r"^mixer\._target_ \(=.*\) is no Mixer"):
        make({"_target_": name}, Mixer)


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [[x]], lambda x: {"deep": [{"er": x}]}])
@pytest.mark.parametrize("name", ["os.system", "torch.load", CALLED])
def test_a_nested_name_that_is_no_part_is_not_called(name: str, wrap: Any):
    inner = {"_target_": name, "_partial_": True}
    with pytest.raises(ValueError, match=r"^mixer\.feature_map.*_target_ \(=.*\) (is no|must name a) Mixer"):
        make(BASED | {"feature_map": wrap(inner)}, Mixer)


def test_a_part_passes():
    made = target("zoo.tasks.mqar.MQAR.one_load", Task, "task")
    assert made.__self__ is target("zoo.tasks.mqar.MQAR", Task, "task")
    check(BASED, Mixer, "mixer")
    assert {kind.__name__ for kind in Part.__subclasses__()} == {*PARTS.split(" or ")}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('a\\nb')", "RuntimeError: a"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("class Mine(", "SyntaxError: "),
        ("class Mein: ...", "unknown class Mine; did you mean Mein?"),
        ("from nowhere import x", "No module named 'nowhere'"),
    ],
)
def test_a_bad_module_is_refused(source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = f"users_{abs(hash(source))}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with refusal(f"mixer._target_ (={module}.Mine) cannot be imported: {message}"):
        target(f"{module}.Mine", Mixer, "mixer")


@pytest.mark.parametrize("path", ["mixer._target_", "task._target_", "block._target_"])
def test_a_cell_with_another_target_is_refused_in_one_line(path: str):
    (line,) = Validator().problems(compose([f"{path}=shutil.rmtree"]))
    assert line.startswith(f"{path} (=shutil.rmtree) must name a ")


def test_a_cell_on_its_way_to_a_record_is_built_once(cwd: Path, monkeypatch: pytest.MonkeyPatch):
    """It takes one task, and two models: an outline without weights, and the one that trains."""
    for kind in (MQAR, SequenceModel):
        monkeypatch.setattr(kind, "__init__", create_autospec(kind.__init__, side_effect=kind.__init__))
    run_one(composer(), [*SMALL, "mixer=sliding_window", "max_examples=4"])
    assert (MQAR.__init__.call_count, SequenceModel.__init__.call_count) == (1, 2)  # pyright: ignore


def test_an_outline_makes_its_task_where_tensors_hold_numbers():
    """A corpus is read as its task is made, and a tensor on "meta" cannot be read."""
    task_of.cache_clear()
    _language.cache_clear()
    short = ["task.corpus.seeded.documents=3", "task.corpus.seeded.length=1024"]
    model = outline(compose(["mixer=attention", "task=text", *short]))
    assert next(model.parameters()).is_meta
