"""Text, byte by byte: every token of a window is asked, given the tokens before it in the window.

The loss is over all tokens, in nats a token: exp(loss) is the perplexity, and loss / ln 2 the bits a token.
A split is its documents one after the other, each between BOS and EOS (`zoo.tasks.corpora`); a window may
begin and end anywhere, and hold several documents.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import one_of
from zoo.common.counter_rng import index, stream
from zoo.tasks.base import SPLITS, Batch, Data, Kind, Order, Segment, Split
from zoo.tasks.corpora.base import VOCAB_SIZE, Corpus
from zoo.tasks.corpora.load import load
from zoo.tasks.mixture import Entries, Load, Mixture

Windows = Literal["random", "consecutive"]


class Text(Mixture):
    """Prediction of the next byte of text.  Args:

    seed: the seed of the splits, of the windows, and of the language if the corpus is `seeded`.
    corpus: source: seeded | docstrings | stdlib, or files: [...] of your own (`zoo.tasks.corpora.load`).
    windows: random: each begins anywhere; consecutive: example i begins where i - 1 ended.  In training the
        first window comes again after the last; valid and test must hold all the windows requested.
    data, order, train, valid, test: see Mixture; a segment has seq_len and num_examples.
    """

    kind: Kind = "text"

    def __init__(
        self,
        *,
        seed: int,
        corpus: Mapping[str, Any],
        windows: Windows,
        data: Data,
        order: Order,
        train: Entries,
        valid: Entries,
        test: Entries,
    ):
        one_of("task.windows", windows, get_args(Windows))
        self.windows: Windows = windows
        self.corpus: Corpus = load(corpus, seed)
        self.made_from = self.corpus.made_from
        super().__init__(
            seed=seed, vocab_size=VOCAB_SIZE, data=data, order=order, train=train, valid=valid, test=test
        )
        for split in SPLITS:
            for i, segment in enumerate(self.segments(split)):
                self._holds(split, f"task.{split}[{i}]", segment)

    def ids(self, split: Split) -> Int[Tensor, " N"]:
        """Return the documents of a split, one after the other, as int16."""
        return _ids(self.corpus, split, self.seed)

    def chance(self, segment: Segment) -> float:
        """Return the frequency of the most frequent token of the training text."""
        counts = torch.bincount(self.ids("train").int())
        return float(counts.max() / counts.sum())

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        ids = self.ids(SPLITS[path[1]]).to(examples.device)
        if self.windows == "consecutive":
            starts = examples % ((len(ids) - 1) // load.seq_len) * load.seq_len
        else:
            starts = index(stream(*path), examples, len(ids) - load.seq_len)
        window = ids[starts[:, None] + torch.arange(load.seq_len + 1, device=examples.device)].long()
        positions = torch.arange(load.seq_len, device=examples.device).expand(len(examples), -1)
        return Batch(window[:, :-1], positions, window[:, 1:])

    def _holds(self, split: Split, where: str, segment: Segment) -> None:
        held = len(self.ids(split))
        if held <= segment.seq_len:
            raise ValueError(
                f"{where}.seq_len (={segment.seq_len}) must be below the {held} tokens of {split}: "
                f"use shorter windows or more text."
            )
        whole = (held - 1) // segment.seq_len
        if self.windows == "consecutive" and split != "train" and segment.num_examples > whole:
            raise ValueError(
                f"{where}.num_examples (={segment.num_examples}) must be at most {whole}: {split} has {held} "
                f"tokens, and windows=consecutive would count some of them twice."
            )


@lru_cache(maxsize=6)
def _ids(corpus: Corpus, split: Split, seed: int) -> Int[Tensor, " N"]:
    return corpus.split(split, seed)
