"""Load corpora by name, each once a process.  Docstrings, which take a minute, are cached for the user."""

import functools
import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args
from zipfile import BadZipFile

import numpy as np

from zoo.common.checks import one_of, unknown
from zoo.tasks.corpora.base import Corpus, repetition
from zoo.tasks.corpora.installed import PACKAGES, docstrings, stdlib, versions
from zoo.tasks.corpora.seeded import Seeded

Source = Literal["seeded", "docstrings", "stdlib"]
SETTINGS = ("source", "files", "packages", "seeded")


def load(settings: Mapping[str, Any], seed: int) -> Corpus:
    """Return the corpus of these settings, and warn if its text repeats itself.

    source: seeded (its language from `seed`, the rest in `seeded`), docstrings (of `packages`) or stdlib.
    files: UTF-8 files instead of a source.  ValueError, one line: unknown settings, or text is not available.
    """
    for name in settings:
        if name not in SETTINGS:
            raise ValueError(unknown("key", f"corpus.{name}", [f"corpus.{known}" for known in SETTINGS]))
    if given := settings.get("files"):
        if isinstance(given, str):
            raise ValueError(f"corpus.files (={given}) must be a list of files, [a.txt,b.txt,c.txt].")
        return _load("files", tuple(given))
    source = settings.get("source")
    one_of("corpus.source", str(source), get_args(Source))
    if source == "seeded":
        return _seeded(seed, settings.get("seeded") or {})
    return _load(str(source), tuple(settings.get("packages") or PACKAGES) if source == "docstrings" else ())


def _seeded(seed: int, settings: Mapping[str, Any]) -> Corpus:
    known = [field.name for field in fields(Seeded) if field.name != "seed"]
    for name in settings:
        if name not in known:
            raise ValueError(unknown("key", f"corpus.seeded.{name}", [f"corpus.seeded.{k}" for k in known]))
    if missing := [name for name in known if name not in settings]:
        raise ValueError(f"corpus.seeded lacks {missing[0]}: conf/task/text.yaml has all of its settings.")
    return _language(seed, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in settings.items()))


@functools.cache
def _language(seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return Seeded(seed=seed, **dict(settings)).corpus()


@functools.cache
def _load(source: str, of: tuple[str, ...]) -> Corpus:
    makers = {"files": files, "docstrings": _kept, "stdlib": lambda _: stdlib()}
    corpus = makers[source](of)
    if warning := repetition(corpus.documents).warning:
        warnings.warn(f"corpus {source}: {warning}", stacklevel=2)
    return corpus


def files(paths: Sequence[str]) -> Corpus:
    """Return one document a file.  ValueError: no file; one is missing, empty, not UTF-8 or a copy."""
    if not paths:
        raise ValueError("corpus.files is empty: name one UTF-8 file or more, [book.txt].")
    texts: dict[bytes, str] = {}
    for path in paths:
        if other := texts.get(text := _text(Path(path))):
            raise ValueError(f"corpus.files names {other} and {path}, which hold the same text.")
        texts[text] = path
    return Corpus("files", list(texts), {})


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"corpus.files names {path}, which is no file.")
    content = path.read_bytes()
    if not content:
        raise ValueError(f"corpus.files names {path}, which is empty.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"corpus.files names {path}, which is not UTF-8 (byte {error.start}).") from None
    return content


def _kept(packages: tuple[str, ...]) -> Corpus:
    """Return the docstrings from the user's cache, whose file name is a hash of the packages' versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zoo" / "corpora"
    path = cache / f"docstrings-{hashlib.sha256(repr(versions(packages)).encode()).hexdigest()[:16]}.npz"
    if (corpus := _read(path, versions(packages))) is None:
        corpus = docstrings(packages)
        _write(path, corpus)
    return corpus


def _read(path: Path, made_from: dict[str, str]) -> Corpus | None:
    """Return the cached corpus; None: there is no such file, or its content is not what was written."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            text, ends, digest = stored["text"].tobytes(), stored["ends"].tolist(), str(stored["sha256"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    documents = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    corpus = Corpus("docstrings", documents, made_from)
    return corpus if corpus.sha256 == digest else None


def _write(path: Path, corpus: Corpus) -> None:
    """Write the corpus to the cache.  If that fails, the next process only takes a minute longer."""
    part = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    text = np.frombuffer(b"".join(corpus.documents), np.uint8)
    ends = np.cumsum([len(document) for document in corpus.documents])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(part, text=text, ends=ends, sha256=np.str_(corpus.sha256))
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
