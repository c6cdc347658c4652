"""Hold text as documents of bytes, deal the documents to splits, and measure how much text repeats itself.

Ids 0..255 are bytes; BOS opens a document and EOS ends it.  Nothing is ever downloaded.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.tasks.base import Split

BOS, EOS, SEP, VOCAB_SIZE = 256, 257, 258, 259
SHARES: dict[Split, float] = {"train": 0.9, "valid": 0.05, "test": 0.05}  # approximate shares of the bytes
GRAM = 64  # bytes
COMPRESSIBLE, REPEATED = 0.2, 0.1  # a corpus beyond these repeats itself too much to be evidence of copying


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of text.  name: for the record.  versions: the versions of the documents' sources."""

    name: str
    documents: Sequence[bytes]
    versions: dict[str, str]

    @cached_property
    def sha256(self) -> str:
        """Return the SHA-256 of the documents, each with its length before it."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(len(document).to_bytes(8, "little") + document)
        return digest.hexdigest()

    @property
    def made_from(self) -> dict[str, str]:
        """Return the corpus's entries in the record: its name, its SHA-256 and the versions."""
        return {"corpus": self.name, "sha256": self.sha256} | self.versions

    def split(self, split: Split, seed: int) -> Int[Tensor, " N"]:
        """Return BOS, document, EOS for each document of the split, one after the other, as int16.

        Documents are dealt in an order that the seed gives, each to the split that is furthest behind its
        share of the bytes; so every split has a document if there are at least three.
        ValueError, one line: there are fewer than three documents."""
        if len(self.documents) < 3:
            raise ValueError(
                f"{self.name} has {len(self.documents)} document(s), and train, valid and test need one "
                "each: give three files or more."
            )
        return joined([self.documents[i] for i in _deal([len(d) for d in self.documents], seed)[split]])

    @property
    def whole(self) -> Int[Tensor, " N"]:
        """Return all documents as one sequence of ids."""
        return joined(self.documents)


@dataclass(frozen=True)
class Repetition:
    """How much a text repeats itself.  compressed: the size after zlib over the text's size.
    repeated: the share of the 64-byte pieces that stood before."""

    compressed: float
    repeated: float

    @property
    def warning(self) -> str | None:
        """Return a warning of one line; None: the corpus is fit for measuring copying."""
        if self.compressed >= COMPRESSIBLE and self.repeated <= REPEATED:
            return None
        return (
            f"this text repeats itself: zlib makes it {self.compressed:.2f} of its size (usual: .25 to .4), "
            f"{self.repeated:.0%} of its {GRAM}-byte pieces stood before; copying may be memory of training."
        )


def repetition(documents: Sequence[bytes]) -> Repetition:
    """Measure how much these documents, taken as one text, repeat themselves."""
    text = b"".join(documents)
    return Repetition(len(zlib.compress(text)) / max(len(text), 1), _repeated(text))


def joined(documents: Sequence[bytes]) -> Int[Tensor, " N"]:
    """Return the ids BOS, document, EOS, BOS, ... as int16."""
    out = np.empty(sum(map(len, documents)) + 2 * len(documents), dtype=np.int16)
    at = 0
    for document in documents:
        end = at + len(document) + 1
        out[at], out[at + 1 : end], out[end] = BOS, np.frombuffer(document, np.uint8), EOS
        at = end + 1
    return torch.from_numpy(out)


def _deal(sizes: Sequence[int], seed: int) -> dict[Split, list[int]]:
    order = sorted(range(len(sizes)), key=lambda i: hashlib.sha256(f"{seed}/{i}".encode()).digest())
    hands: dict[Split, list[int]] = {split: [] for split in SHARES}
    held = dict.fromkeys(SHARES, 0)
    for i in order:
        needy = min(SHARES, key=lambda split: (bool(hands[split]), held[split] / SHARES[split]))
        hands[needy].append(i)
        held[needy] += sizes[i]
    return hands


def _repeated(text: bytes) -> float:
    """Return the share of repeated GRAM-byte pieces, by a polynomial hash made by doubling (uint64 wraps)."""
    hashes = np.frombuffer(text, np.uint8).astype(np.uint64) + np.uint64(1)
    if len(hashes) < 2 * GRAM:
        return 0.0
    power, size = 0x9E3779B97F4A7C15, 1
    while size < GRAM:
        hashes = hashes[:-size] * np.uint64(power) + hashes[size:]
        power, size = power * power % 2**64, 2 * size
    return 1 - len(np.unique(hashes)) / len(hashes)
