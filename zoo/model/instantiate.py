"""The one way from a config to an object: `_target_` names a class of the kind that its place asks for.

A name is refused before it is imported where it cannot be such a class: no dotted name, a part that begins
with an underscore, a module of Python's own library.  Every other name is imported, which runs its module,
as `import` does: --config-dir runs the code that its yamls name.  What the import gives is called only if it
is a subclass of the contract, or a class method of one (`MQAR.one_load`).  Inside a part, mixers, blocks,
tasks and feature maps may be named; nothing else.  A record says less: what it names has to be zoo's, or
of a module that the user names beside it (`check_trusted`).
"""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from zoo.blocks.base import Block
from zoo.common.checks import one_line, unknown
from zoo.common.foreign import visible
from zoo.config.cell import Cell
from zoo.mixers.base import Mixer
from zoo.mixers.feature_maps import FeatureMap
from zoo.results.outcome import reason
from zoo.results.source import targets
from zoo.tasks.around import AllTokens, Limited
from zoo.tasks.base import Task

PARTS = (Mixer, Block, Task, FeatureMap)
Contract = type[Any] | tuple[type[Any], ...]
_NAME = re.compile(r"[^\W\d_]\w*(\.[^\W\d_]\w*)+")


def make(config: Mapping[str, Any], contract: Contract, **parts: Any) -> Any:
    """Build what the config names; a constructor's own error comes through as it was raised.

    parts: arguments that the program gives.  ValueError, one line: `_target_`, here or further inside, is
    no `contract` (inside: no part of a model or task).
    """
    check(config, contract, _words(contract).split()[-1].lower())
    return _built(dict(config) | {"_partial_": True})(**parts)


def _built(value: Any) -> Any:
    """Copy a plain config; what names a `_target_` is called, or with `_partial_` waits to be."""
    if isinstance(value, list):
        return [_built(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    given = {key: _built(inner) for key, inner in value.items()}
    if "_target_" not in given:
        return given
    call, waits = _imported(given.pop("_target_")), given.pop("_partial_", False)
    return functools.partial(call, **given) if waits else call(**given)


def check(config: Mapping[str, Any], contract: Contract, path: str) -> None:
    """Refuse a `_target_` here or further inside; path: dotted, for the message."""
    target(config.get("_target_"), contract, path)
    for key, value in config.items():
        _check_inside(value, f"{path}.{key}")


def _check_inside(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        if "_target_" in value:
            target(value["_target_"], PARTS, path)
        for key, inner in value.items():
            _check_inside(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check_inside(inner, f"{path}[{i}]")


def target(name: Any, contract: Contract, path: str) -> Any:
    """Return what `_target_` names at `path`.  ValueError, one line: no such thing, or not importable."""
    rule = f"{path}._target_ (={name})"
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or name.split(".")[0] in sys.stdlib_module_names
    ):
        raise ValueError(f"{rule} must name a {_words(contract)}, such as my_module.MyClass.")
    try:
        named = _imported(name)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        why = one_line(error) if isinstance(error, ImportError) else reason(error)
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            why += "; is it your own?  Then put PYTHONPATH=FOLDER before the command, the folder it lies in."
        raise ValueError(f"{rule} cannot be imported: {why}") from error
    if not _is_a(named, contract):
        raise ValueError(
            f"{rule} is no {_words(contract)}: it must be a subclass, such as my_module.MyClass."
        )
    return named


def check_trusted(path: str, config: Mapping[str, Any], trusted: Iterable[str], results: Path) -> None:
    """Refuse the config of a record whose parts are neither zoo's nor of a trusted module; import none.

    path: of the config, for the message.  trusted: dotted names of modules or packages.  results: the folder
    or archive that holds the record: what lies in it is never trusted.
    """
    groups = ("task", "block", "mixer", "model")
    for name in dict.fromkeys(name for group in groups for name in targets(config.get(group))):
        if name.startswith("zoo."):
            continue
        named = f"{visible(name)}, which is no part of zoo"
        if not any(name.startswith(f"{module}.") for module in trusted):
            raise ValueError(
                f"{path} names {named}: what a record names is imported only where you name its module: "
                f"trusted=[{visible(name.rpartition('.')[0])!r}] or on a command line --trust, --config-dir."
            )
        if any(place.is_relative_to(results.resolve()) for place in _places(name)):
            raise ValueError(
                f"{path} names {named} and lies in {visible(str(results))}: code beside records is never run."
            )


def _places(name: str) -> Iterator[Path]:
    """Yield the files and folders that importing a dotted name would run, found without running any."""
    path, parts = None, name.split(".")
    for n in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:n]), path)
        if spec is None:
            return
        yield from (Path(place).resolve() for place in spec.submodule_search_locations or [spec.origin or ""])
        path = spec.submodule_search_locations
        if path is None:
            return


def _imported(name: str) -> Any:
    """Return a module's attribute, or that of a class in it, as it is now: modules may be loaded again."""
    first, *rest = name.split(".")
    named: Any = importlib.import_module(first)
    path = first
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(named, part) and hasattr(named, "__path__"):
            importlib.import_module(path)
        if not hasattr(named, part):
            classes = [key for key, value in vars(named).items() if inspect.isclass(value)]
            raise ImportError(unknown("class", part, classes))
        named = getattr(named, part)
    return named


def _is_a(named: Any, contract: Contract) -> bool:
    owner = named
    if inspect.ismethod(named) and inspect.isclass(named.__self__):
        owner = named.__self__
        if not isinstance(inspect.getattr_static(owner, named.__name__), classmethod):
            return False  # of the metaclass
    return inspect.isclass(owner) and issubclass(owner, contract)


def _words(contract: Contract) -> str:
    kinds = contract if isinstance(contract, tuple) else (contract,)
    return " or ".join(kind.__name__ for kind in kinds)


@functools.lru_cache(maxsize=64)
def task_of(cell: Cell) -> Task:
    """Return the task of a cell, built once: it holds nothing that use would change."""
    return build_task(cell.config)


def build_task(config: Mapping[str, Any]) -> Task:
    """Build the task of a cell, with all tokens scored or fewer examples where the config has it so."""
    task, most = make(config["task"], Task), config.get("max_examples")
    task = AllTokens(task) if config.get("loss") == "all" else task
    return task if most is None else Limited(task, most)
