"""Check the code that a record names: whether it may be imported, and a hash of it and of its imports.

The text files that a task names are hashed as well.  Files are read and never run.  Imports, also inside
functions, are followed within the package that defines the part, within zoo, and to modules beside a user's
own module.  A module that is named by a string (a kernel that is chosen when it runs) is not seen.  Comments,
blank lines and docstrings do not count.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from zoo.common.foreign import visible
from zoo.config.settings import flat

INSTALLED = ("site-packages", "dist-packages")  # modules side by side there have different authors
MOST_NAMES = 3  # of parts, in a message
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def source(config: Mapping[str, Any]) -> dict[str, str]:
    """Return `_target_` -> hash, for every part of task, block and model in a cell's config, and `texts`."""
    names = sorted({name for group in ("task", "block", "model") for name in targets(config[group])})
    return {name: digest(name) for name in names} | texts({"task": config["task"]})


def texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return `task.corpus.files` -> hash of the text in the files that settings name; {}: they name none."""
    paths = {key: str(value) for key, value in flat("", dict(settings)) if key.endswith(".files")}
    return {key: _text(json.loads(value)) for key, value in paths.items() if value.startswith("[")}


def _text(paths: Sequence[str]) -> str:
    """Return a hash of the content of files; a file that is gone counts as empty."""
    files = [Path(str(path)) for path in paths]
    hashes = [_content(path, path.stat().st_mtime_ns) if path.is_file() else "" for path in files]
    return hashlib.sha256(repr(hashes).encode()).hexdigest()[:12]


@cache
def _content(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def with_source(known: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `known`, what is known of a process and its cell, with the cell's source added if missing."""
    return dict(known) if "source" in known else {"source": source(config), **known}


def changed(record: Mapping[str, Any], source: Mapping[str, str]) -> list[str]:
    """Return the parts whose source is not what a record or env.json notes; none if it notes no source."""
    noted = record.get("source")
    if not isinstance(noted, dict):
        return []
    return [name for name, now in source.items() if noted.get(name, now) != now]


def other_source(done: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str | None:
    """Return a line on the done cells, (record, config) each, that other source made; None: no such cell."""
    made = [names for record, config in done if (names := changed(record, source(config)))]
    if not made:
        return None
    names = sorted({name for names in made for name in names})
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    which = "made" if len(done) == 1 else f"{len(made)} of the {len(done)} done cells were made"
    return f"{which} by other source of {shown}"


def targets(value: Any) -> Iterator[str]:
    """Yield every `_target_` in nested dicts and lists."""
    if isinstance(value, Mapping):
        if isinstance(value.get("_target_"), str):
            yield value["_target_"]
        for inner in value.values():
            yield from targets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from targets(inner)


def check_trusted(path: str, config: Mapping[str, Any], trusted: Iterable[str], results: Path) -> None:
    """Raise ValueError if a part in a record's config is neither zoo's nor of a trusted module; import none.

    path: of the config, for the message.  trusted: dotted names of modules or packages.  results: the folder
    or archive that holds the record; code inside it is never trusted.
    """
    modules = [trusted] if isinstance(trusted, str) else [*trusted]
    groups = ("task", "block", "mixer", "model")
    for name in dict.fromkeys(name for group in groups for name in targets(config.get(group))):
        if name.startswith("zoo."):
            continue
        named = f"{visible(name)}, which is no part of zoo"
        if not any(name.startswith(f"{module}.") for module in modules):
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


@cache
def digest(target: str) -> str:
    """Return a hash of the module that defines `target` (a class, or a class method) and of its imports."""
    return hashlib.sha256("\n".join(sorted(files(target).values())).encode()).hexdigest()[:12]


def files(target: str) -> dict[Path, str]:
    """Return the files that `digest` covers, each with the hash of its code."""
    parts = target.split(".")
    modules = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    first = next((path for module in modules if (path := _file(module))), None)
    hashes: dict[Path, str] = {}
    _follow(first, parts[0], hashes)
    return hashes


def _follow(path: Path | None, package: str, hashes: dict[Path, str]) -> None:
    """Add the file and its imports to `hashes`, each once.  package: the top-level package of the part."""
    if path is None or path in hashes:
        return
    read = _read(path)
    hashes[path] = read[0]
    for name in read[1]:
        if name.partition(".")[0] in (package, "zoo") or _is_neighbour(name, package):
            _follow(_file(name), package, hashes)


@cache
def _is_neighbour(name: str, package: str) -> bool:
    """Return whether a module lies beside the package, in a folder of the user's own."""
    home, other = _home(package), _home(name.partition(".")[0])
    return home is not None and home == other and home.name not in INSTALLED


@cache
def _home(top: str) -> Path | None:
    """Return the folder of a top-level module, without importing it; None: not found, or Python's own."""
    if top in sys.stdlib_module_names:
        return None
    spec = PathFinder.find_spec(top)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    return Path(spec.origin).parent if spec.origin else None


@cache
def _file(module: str) -> Path | None:
    """Return the path of the module's source; None: there is none."""
    home = _home(module.partition(".")[0])
    if home is None:
        return None
    place = home.joinpath(*module.split("."))
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


@cache
def _read(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a file's code, and the dotted names that it imports."""
    tree = ast.parse(path.read_bytes())
    names = tuple(dict.fromkeys(name for node in ast.walk(tree) for name in _imported(node, path)))
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest(), names


def _imported(node: ast.AST, path: Path) -> Iterable[str]:
    """Return the modules that an import names; `from a import b` may name a module a.b as well."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = ".".join(filter(None, [_package(path, node.level) if node.level else "", node.module or ""]))
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def _package(path: Path, level: int) -> str:
    """Return the dotted name of the package from which a relative import in this file starts."""
    folder = path.parents[level - 1]
    names: list[str] = []
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def _plain(node: Any) -> Any:
    """Return a tree as tuples, without line numbers and empty fields, so that every Python version agrees."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
        return (type(node).__name__, *((name, _plain(value)) for name, value in fields))
    return [_plain(item) for item in node] if isinstance(node, list) else node
