"""Build objects from configs, in this one place: `_target_` names a class of the kind that its place allows.

A name that cannot be such a class is refused before it is imported: no dotted name, a part that begins with
an underscore, a module of Python's own library.  Every other name is imported, which runs its module, as
`import` does: --config-dir runs the code that its yamls name.  The imported object is called only if it is a
subclass of the contract, or a class method of one (`MQAR.one_load`).  Inside a part, only mixers, blocks,
tasks and feature maps may be named.  Records are trusted less: see `zoo.results.source.check_trusted`.
"""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from zoo.common.checks import one_line, reason, unknown
from zoo.common.part import Part
from zoo.config.arguments import mistakes

PARTS = "Mixer or Block or Task or FeatureMap"  # the classes below Part
_NAME = re.compile(r"[^\W\d_]\w*(\.[^\W\d_]\w*)+")


def make(config: Mapping[str, Any], contract: type[Any], **parts: Any) -> Any:
    """Build the object that the config names; an error of its constructor is not caught.

    parts: arguments that the program gives.  ValueError, one line: `_target_` is no `contract`, or, further
    inside, no part of a model or task.
    """
    check(config, contract, contract.__name__.lower())
    return _built(dict(config) | {"_partial_": True})(**parts)


def _built(value: Any) -> Any:
    """Copy a plain config with each `_target_` called, or made a partial function under `_partial_`."""
    if isinstance(value, list):
        return [_built(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    given = {key: _built(inner) for key, inner in value.items()}
    if "_target_" not in given:
        return given
    call, waits = _imported(given.pop("_target_")), given.pop("_partial_", False)
    return functools.partial(call, **given) if waits else call(**given)


def check(config: Mapping[str, Any], contract: type[Any], path: str) -> None:
    """Raise ValueError for a wrong `_target_`, here or further inside; path: dotted, for the message."""
    target(config.get("_target_"), contract, path)
    for key, value in config.items():
        _check_inside(value, f"{path}.{key}")


def _check_inside(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        if "_target_" in value:
            target(value["_target_"], Part, path)
        for key, inner in value.items():
            _check_inside(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check_inside(inner, f"{path}[{i}]")


def target(name: Any, contract: type[Any], path: str) -> Any:
    """Return what `_target_` names at `path`.  ValueError, one line: not importable, or no `contract`."""
    rule, kind = f"{path}._target_ (={name})", PARTS if contract is Part else contract.__name__
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or name.split(".")[0] in sys.stdlib_module_names
    ):
        article = "an" if kind[0] in "AEIOU" else "a"
        raise ValueError(f"{rule} must name {article} {kind}, such as my_module.MyClass.")
    try:
        named = _imported(name)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        why = one_line(error) if isinstance(error, ImportError) else reason(error)
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            why += "; is it your own?  Then put PYTHONPATH=FOLDER before the command, the folder it lies in."
        raise ValueError(f"{rule} cannot be imported: {why}") from error
    if not _is_a(named, contract):
        raise ValueError(f"{rule} is no {kind}: it must be a subclass, such as my_module.MyClass.")
    return named


def section(
    path: str, settings: Mapping[str, Any], contract: type[Any], supplied: Sequence[str] = ()
) -> list[str]:
    """Return a line for each setting that its class does not take; supplied: given by the program."""
    try:
        made = target(settings.get("_target_"), contract, path)
    except ValueError as error:
        return [str(error)]
    given = {key: value for key, value in settings.items() if key not in ("_target_", "_partial_")}
    inner = {key: value for key, value in given.items() if isinstance(value, dict) and "_target_" in value}
    errors = [line for key, value in inner.items() for line in section(f"{path}.{key}", value, Part)]
    return errors + mistakes(path, given, made, supplied, "_partial_" in settings)


def _imported(name: str) -> Any:
    """Import an attribute of a module or of a class in it; not cached, since modules may be reloaded."""
    first, *rest = name.split(".")
    named: Any = importlib.import_module(first)
    path = first
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(named, part) and hasattr(named, "__path__"):
            with suppress(ModuleNotFoundError) if path == name else nullcontext():  # a class, misspelt
                importlib.import_module(path)
        if not hasattr(named, part):
            classes = [key for key, value in vars(named).items() if inspect.isclass(value)]
            raise ImportError(unknown("class", part, classes))
        named = getattr(named, part)
    return named


def _is_a(named: Any, contract: type[Any]) -> bool:
    owner = named
    if inspect.ismethod(named) and inspect.isclass(named.__self__):
        owner = named.__self__
        if not isinstance(inspect.getattr_static(owner, named.__name__), classmethod):
            return False  # of the metaclass
    return inspect.isclass(owner) and issubclass(owner, contract)
