"""Text from this machine: its contents, its splits, and the warning of text that repeats itself."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from tests.registry import composer
from zoo.config.paths import CONF
from zoo.tasks.build import task_of
from zoo.tasks.corpora.base import BOS, EOS, Corpus, repetition
from zoo.tasks.corpora.installed import docstrings, versions
from zoo.tasks.corpora.load import files, load
from zoo.tasks.corpora.seeded import FIRST, Seeded

USUAL = yaml.safe_load((CONF / "task" / "text.yaml").read_text())["corpus"]["seeded"]


def language(**changes: Any) -> Seeded:
    return Seeded(**USUAL | changes)


def seeded(**changes: Any) -> dict[str, Any]:
    return {"source": "seeded", "seeded": USUAL | changes}


DOCSTRINGS: dict[str, Any] = {"source": "docstrings"}
SMALL = language(seed=3, letters=8, documents=64, length=600, repeat_every=0)


def test_a_split_is_documents_between_marks_and_no_document_is_in_two() -> None:
    documents = [bytes([i]) * (10 + i) for i in range(40)]
    corpus = Corpus("x", documents, {})
    parts = {split: corpus.split(split, seed=5).tolist() for split in ("train", "valid", "test")}
    assert sorted(token for ids in parts.values() for token in ids) == sorted(corpus.whole.tolist())
    for ids in parts.values():
        assert ids[0] == BOS and ids[-1] == EOS and ids.count(BOS) == ids.count(EOS)
    letters = [set(ids) - {BOS, EOS} for ids in parts.values()]
    assert not letters[0] & letters[1]
    assert not letters[0] & letters[2]
    assert not letters[1] & letters[2]
    assert all(letters)
    assert 0.8 < len(parts["train"]) / len(corpus.whole) < 0.95
    assert corpus.split("train", seed=6).tolist() != parts["train"]
    assert corpus.split("train", seed=5).tolist() == parts["train"]


def test_the_chain_has_the_stated_entropy() -> None:
    """Bigrams counted in its text have that entropy."""
    ids = np.frombuffer(b"".join(SMALL.corpus().documents), np.uint8) - FIRST
    counts = np.zeros((8, 8))
    rows = ids.reshape(64, 600)
    np.add.at(counts, (rows[:, :-1].ravel(), rows[:, 1:].ravel()), 1)
    share, given = counts.sum(1) / counts.sum(), counts / counts.sum(1, keepdims=True)
    assert SMALL.entropy == pytest.approx(-(share @ (given * np.log(given)).sum(1)), abs=0.02)
    assert torch.allclose(SMALL.transitions.sum(1), torch.ones(8, dtype=torch.float64))


def test_repeats_stand_where_they_are_planted() -> None:
    planted = language(seed=0, documents=8, length=512, repeat_len=16, repeat_every=64, distances=(32, 100))
    documents = planted.corpus().documents
    for place in range(100, 512 - 16, 64):
        for text in documents:
            span = text[place : place + 16]
            assert span in (text[place - 32 : place - 16], text[place - 100 : place - 84])


def test_same_seed_same_bytes() -> None:
    one, other = language(seed=1, documents=4), language(seed=2, documents=4)
    assert one.corpus().sha256 == language(seed=1, documents=4).corpus().sha256 != other.corpus().sha256
    assert one.corpus().sha256.startswith("eedae9")


def test_docstrings_come_once_and_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = DOCSTRINGS | {"packages": ["einops"]}
    corpus = load(settings, seed=0)
    assert corpus.versions == versions(["einops"]) and len(corpus.documents) > 3
    paragraphs = [part for document in corpus.documents for part in document.split(b"\n\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    [cached] = (tmp_path / "zoo" / "corpora").iterdir()
    from zoo.tasks.corpora import load as module

    module._load.cache_clear()
    monkeypatch.setattr(module, "docstrings", None)  # it is read, not collected again
    assert load(settings, seed=0).sha256 == corpus.sha256
    module._load.cache_clear()
    monkeypatch.setattr(module, "docstrings", docstrings)
    for damage in (b"", cached.read_bytes()[:-9], cached.read_bytes().replace(b"einops", b"EINOPS")):
        cached.write_bytes(damage)
        assert load(settings, seed=0).sha256 == corpus.sha256
        module._load.cache_clear()


def test_text_that_repeats_itself_is_warned_of() -> None:
    rng = np.random.default_rng(0)
    fresh = rng.integers(0, 64, 4000, dtype=np.uint8).tobytes()
    assert repetition([fresh]).repeated == 0 and repetition([fresh]).warning is None
    twice = repetition([fresh, fresh])
    exact = 1 - 4000 / (8000 - 63)
    assert twice.repeated == pytest.approx(exact, abs=0.02)
    assert "repeats itself" in (twice.warning or "")
    assert math.isclose(repetition([b"ab"]).repeated, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "pg19"}, r"corpus.source \(='pg19'\) must be one of seeded, docstrings, stdlib"),
        (seeded(leters=3), "corpus.seeded.leters; did you mean corpus.seeded.letters"),
        ({"source": "seeded", "seeded": {"letters": 8}}, "corpus.seeded lacks follow: conf/"),
        ({"sorce": "seeded"}, "unknown key corpus.sorce; did you mean corpus.source"),
        (seeded(letters=500), r"letters \(=500\) must be at most 191"),
        (seeded(repeat_len=99), r"repeat_len \(=99\) must be at most the smallest"),
        (DOCSTRINGS | {"packages": ["nosuchthing"]}, "packages names nosuchthing, which is not installed"),
        ({"files": ["/nowhere/a.txt"]}, "corpus.files names /nowhere/a.txt, which is no file"),
        ({"files": "/nowhere/a.txt"}, r"corpus.files \(=/nowhere/a.txt\) must be a list of files"),
    ],
)
def test_refusals(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(settings, seed=0)


def test_files(tmp_path: Path) -> None:
    good, empty, binary = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"
    good.write_text("grüße"), empty.write_text(""), binary.write_bytes(b"ok \xff\xfe")
    assert files([str(good)]).documents == ["grüße".encode()]
    with pytest.raises(ValueError, match=r"has 1 document.s., and train, valid and test need one each"):
        files([str(good)]).split("train", 0)
    with pytest.raises(ValueError, match=r"names \S*a.txt and \S*d.txt, which hold the same text"):
        files([str(good), str(good.with_name("d.txt").write_text("grüße") and good.with_name("d.txt"))])
    with pytest.raises(ValueError, match=r"b.txt, which is empty"):
        files([str(good), str(empty)])
    with pytest.raises(ValueError, match=r"c.txt, which is not UTF-8 \(byte 3\)"):
        files([str(binary)])


def test_consecutive_windows_of_a_test_split_are_not_counted_twice() -> None:
    test = "task.test=[{seq_len: 64, num_examples: 99999}]"
    cell = composer().cell(["task=text", "task.windows=consecutive", test])
    with pytest.raises(ValueError, match=r"task.test\[0\].num_examples \(=99999\) must be at most \d+"):
        task_of(cell)
