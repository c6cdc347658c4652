"""Collect text that every machine with this environment has: packages' docstrings and the standard library.

Files are read and parsed (`ast`), never imported or executed.
"""

import ast
import hashlib
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from platform import python_version

from zoo.tasks.corpora.base import Corpus

PACKAGES = ("torch", "sympy", "pandas", "networkx", "numpy", "matplotlib")
SHORTEST = 64  # bytes; a shorter docstring is a label rather than a text
NOT_TEXT = ("test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3", "__pycache__")
HAS_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return the version of each package.  ValueError, one line: a package is not installed."""
    return {package: _distribution(package).version for package in packages}


def docstrings(packages: Sequence[str] = PACKAGES) -> Corpus:
    """Return a corpus with one document a docstring, without paragraphs of earlier ones; 16 MB take a minute.

    ValueError, one line: a package is not installed.
    """
    documents, known = [], set[bytes]()
    for package in packages:
        sources = (file for file in _distribution(package).files or [] if file.suffix == ".py")
        for path in sorted(str(file.locate()) for file in sources):
            documents += _fresh(_docstrings(Path(path)), known)
    return Corpus("docstrings", documents, versions(packages))


def _distribution(package: str) -> Distribution:
    try:
        return distribution(package)
    except PackageNotFoundError:
        raise ValueError(f"packages names {package}, which is not installed here.") from None


def stdlib() -> Corpus:
    """Return a corpus with one document a source file of Python's standard library, without tests."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(path for path in root.rglob("*.py") if not set(path.parts) & set(NOT_TEXT))
    contents = (path.read_bytes() for path in paths)
    return Corpus("stdlib", [content for content in contents if content], {"python": python_version()})


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # templates and files of another Python version
        return
    for node in ast.walk(tree):
        if isinstance(node, HAS_DOCSTRING) and (text := ast.get_docstring(node)):
            yield text


def _fresh(texts: Iterable[str], known: set[bytes]) -> Iterator[bytes]:
    for text in texts:
        whole = []
        for part in text.split("\n\n"):
            digest = hashlib.sha256(" ".join(part.split()).encode("utf-8", "replace")).digest()[:12]
            if digest not in known:
                whole.append(part)
            known.add(digest)
        document = "\n\n".join(whole).encode("utf-8", "replace")
        if len(document) >= SHORTEST:
            yield document
