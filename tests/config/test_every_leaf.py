"""Every leaf of the configuration changes something: no option is without effect.

Each leaf is set to other valid values, under the yaml's own settings and under its variants, until a result
differs: weights, outputs, sizes, batches, metrics or folders, never an attribute that merely holds the value.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from tests.command import written
from tests.registry import FOLDER, cases, composer
from zoo.config.cell import Cell
from zoo.config.targets import make
from zoo.launch.preflight import Validator
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, settings
from zoo.mixers.sliding_window import SlidingWindow
from zoo.model import SequenceModel
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.batches import BatchStream
from zoo.training import checkpoint, train

COMPOSER = composer()
TINY = ("experiment=smoke", "d_model=16", "max_examples=8", "optim.batch_size=4", "mixer=sliding_window")
OTHERS: dict[type, list[Any]] = {
    int: [1, 2, 3, 4, 5, 8, 16, 32, 256],
    float: [0.5, 0.25, 2.0, 1e-3, 1e-9],
    type(None): [1, 2, 4, 8, 0.5, 1e-9],
}


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each leaf of a config, but for targets."""
    if isinstance(node, dict | list) and node:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif not path.endswith(("_target_", "_partial_")):
        yield path, node


def with_leaf(node: Any, path: str, value: Any) -> Any:
    """Return a copy of a config with the leaf at this path set to `value`."""
    key, _, rest = path.partition(".")
    copy = dict(node) if isinstance(node, dict) else list(node)
    at: Any = key if isinstance(node, dict) else int(key)
    copy[at] = with_leaf(copy[at], rest, value) if rest else value
    return copy


def others(value: Any, complaint: Callable[[Any], str]) -> list[Any]:
    """List other values of the same type; for a word, those that its error message names."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        named = re.search(r"must be one of (.*?)\.?( \[|$)", complaint("no such word"))
        return [word for word in named.group(1).split(", ") if word != value] if named else ["other"]
    return [other for other in OTHERS[type(value)] if other != value]


@pytest.mark.parametrize("name", sorted({case.name for case in cases()}))
def test_every_setting_of_a_mixer_changes_what_it_computes(name: str):
    variants = [case for case in cases() if case.name == name]
    paths = [path for path, _ in leaves(settings(variants[0])) if path != "d_model"]
    dead = [path for path in paths if not any(any(_differs(case, path)) for case in variants)]
    assert not dead, f"conf/mixer/{name}.yaml: nothing changes with {dead}"


def _differs(case: Case, path: str) -> Iterator[bool]:
    given, top = settings(case), path.split(".")[0]
    here = dict(leaves(given))
    if path not in here:
        return  # the variant has replaced this section
    before = _mixer_prints(case)

    def changed(value: Any) -> Case:
        return replace(case, changes=case.changes | {top: with_leaf(given, path, value)[top]})

    def complaint(value: Any) -> str:
        try:
            _mixer_prints(changed(value))
        except (ValueError, TypeError, RuntimeError) as error:
            return str(error)
        return ""

    valid = (value for value in others(here[path], complaint) if not complaint(value))
    for value in islice(valid, 3):
        yield _mixer_prints(changed(value)) != before or _trained(changed(value)) != _trained(case)


def _built(case: Case) -> Mixer:
    torch.default_generator.manual_seed(0)
    return make(settings(case), Mixer).double().eval()


@cache
def _mixer_prints(case: Case) -> list[Any]:
    mixer = _built(case)
    x = torch.randn(2, 48, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    prints: list[Any] = [(name, _bytes(p)) for name, p in mixer.named_parameters()]
    with torch.no_grad():
        prints.append(_bytes(mixer(x)))
    return [*prints, mixer.state_size(48), mixer.state_size(300)]


@cache
def _trained(case: Case) -> list[bytes]:
    """Return outputs and the gradients of the weights: a mixer's own loss may reach them and no output."""
    mixer = _built(case).train()
    x = torch.randn(2, 48, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    outputs = [mixer(x) for _ in range(3)]
    torch.stack(outputs).square().sum().backward()
    return [*map(_bytes, outputs), *(_bytes(p.grad) for p in mixer.parameters() if p.grad is not None)]


def _bytes(x: torch.Tensor) -> bytes:
    return x.detach().numpy().tobytes()


CORPORA = {"text": ("corpus.files", "corpus.packages", "corpus.source")}  # shown in tests/tasks/corpora
MORE = {  # valid values that no error message names
    "group": ["Z4"],
    "noise_percent": [60],
    "state_codec": ["{format: int3}"],
}


@pytest.mark.parametrize("name", COMPOSER.options("task"))
def test_every_setting_of_a_task_changes_its_data(name: str):
    given = COMPOSER.cell([f"task={name}"]).config["task"]
    paths = [re.sub(r"\.\d+\.", ".0.", path) for path, _ in leaves(given)]
    for leaf in [leaf for leaf, value in leaves(given) if leaf.endswith("num_examples") and value > 100]:
        given = with_leaf(given, leaf, 100)  # a task may make its segments whole
    before = _task_prints(given)
    dead = [
        path
        for path in dict.fromkeys(paths)
        if path not in CORPORA.get(name, ()) and not any(_task_differs(given, path, before))
    ]
    assert not dead, f"conf/task/{name}.yaml: nothing changes with {dead}"


def _task_differs(given: dict[str, Any], path: str, before: list[Any]) -> Iterator[bool]:
    roomy = _with_room(given, path)
    before = before if roomy == given else _task_prints(roomy)
    value = dict(leaves(roomy))[path]

    def complaint(other: Any) -> str:
        try:
            make(with_leaf(roomy, path, other), Task)
        except ValueError as error:
            return str(error)
        return ""

    tried = [*others(value, complaint), *MORE.get(path.rpartition(".")[2], [])]
    tried += [2 * value, value - 1] if type(value) is int else []
    for other in tried:
        if other != value and not complaint(other):
            yield _task_prints(with_leaf(roomy, path, other)) != before


def _with_room(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Return settings under which another value of this one may be valid."""
    if path == "num_passes":  # more passes need room: one pair a row
        for leaf in [leaf for leaf, _ in leaves(given) if leaf.endswith("num_kv_pairs")]:
            given = with_leaf(given, leaf, 1)
    shortest = path.replace("longest", "shortest")
    if shortest != path and shortest in dict(leaves(given)):  # a single length is the shortest too
        given = with_leaf(given, shortest, 4)
    if path.endswith("noise_percent"):  # noise is made of tokens of its own
        given = with_leaf(given, "noise_tokens", 8)
    return given


def _task_prints(config: dict[str, Any]) -> list[Any]:
    task = make(config, Task)
    prints: list[Any] = [(split, segment) for split in SPLITS for segment in task.segments(split)]
    for split in SPLITS:
        batch = task.sample(split, 0, range(2))
        prints += [_bytes(column) for column in (*batch.tensors, *batch.groups.values())]
    stream = BatchStream(task, "train", 20)
    return [*prints, [stream.plan(epoch) for epoch in (0, 1)]]


CONTEXTS = (
    (),
    ("block.mlp=gelu", "optim.max_epochs=2"),
    ("optim=zoology", "optim.max_epochs=2"),
    ("block=zoology",),
    ("block.mlp=rwkv_channel_mix",),
)
# block.layer is filled in; tests/population/, tests/evaluation/ and tests/training/ test the others
ELSEWHERE = (
    "mixer.",
    "task.",
    "logger.",
    "block.d_model",
    "block.layer",
    "model.layers",
    "population",
    "keep_weights",
    "trainer.callbacks",
    "trainer.checkpoint_seconds",
    "trainer.step",
)


RUN_LEAVES = [path for path, _ in leaves(COMPOSER.cell(TINY).config) if not path.startswith(ELSEWHERE)]


@pytest.mark.parametrize("path", RUN_LEAVES)
def test_a_leaf_changes_what_a_training_does(path: str):
    for context in CONTEXTS:
        cell = COMPOSER.cell([*TINY, *context])
        before = dict(leaves(cell.config))
        if path not in before:
            continue
        unchanged = _run_prints(cell.overrides)

        def changed(value: Any, context: tuple[str, ...] = context) -> Cell:
            word = "null" if value is None else value
            return COMPOSER.cell([*TINY, *context, f"{path}={word}"])

        def complaint(value: Any, changed: Callable[[Any], Cell] = changed) -> str:
            try:
                return "".join(Validator().problems(changed(value)))
            except ValueError as error:  # it cannot even be composed
                return str(error)

        tried = [*MORE.get(path.rpartition(".")[2], []), *others(before[path], complaint)]
        valid = (value for value in tried if not complaint(value))
        if any(_run_prints(changed(value).overrides) != unchanged for value in islice(valid, 3)):
            return
    pytest.fail(f"{path} changes nothing")


@cache
def _run_prints(words: tuple[str, ...]) -> list[Any]:
    """Train, and return metrics, shapes of the batches, threads, checkpoints and the folder."""
    cell = COMPOSER.cell(words)
    shapes: list[Any] = []
    forward, save = SequenceModel.forward, checkpoint.save
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SequenceModel,
            "forward",
            lambda m, *x: shapes.append((x[0].shape, torch.get_num_threads())) or forward(m, *x),
        )
        patch.setattr(checkpoint, "save", lambda *a: shapes.append("saved") or save(*a))
        try:
            outcome = train.train(cell, Path(place))
        except ValueError as error:  # a device that this machine lacks
            return [str(error)]
        metrics = Path(place, "metrics.csv").read_text()
    return [
        cell.folder.parent,
        shapes,
        metrics,
        outcome["parameters"],
        outcome["early_stopped"],
        [value for key, value in outcome.items() if key.startswith("state_")],
    ]


def test_the_layers_of_a_mixer_are_the_models():
    one = COMPOSER.cell(TINY).config["model"]["layers"]
    other = COMPOSER.cell([*TINY, "mixer.about.layers=[mixer]"]).config["model"]["layers"]
    assert one != other


def test_a_dead_setting_is_noticed(tmp_path: Path):
    """The check itself works: a mixer that ignores an option is caught."""
    text = (FOLDER / "mixer" / "sliding_window.yaml").read_text()
    yaml = text.replace("zoo.mixers.sliding_window.SlidingWindow", "tests.config.test_every_leaf.Ignoring")
    written(tmp_path / "mixer" / "deaf.yaml", yaml.replace("num_heads: 1\n", "num_heads: 1\ndead: 3\n", 1))
    case = next(case for case in cases(tmp_path) if not case.changes)
    assert any(_differs(case, "window"))
    assert not any(_differs(case, "dead"))


class Ignoring(SlidingWindow):
    def __init__(self, dead: int, **rest: Any) -> None:
        del dead
        super().__init__(**rest)
