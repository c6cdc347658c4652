"""Measure a trained cell's forgetting curve: `python -m zoo.evaluate RUNS evaluation=forgetting_curve`."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.evaluation import huggingface
from zoo.evaluation.base import Evaluation
from zoo.evaluation.forgetting.curve import Predict, forgetting_curve, grid, most_likely
from zoo.evaluation.huggingface import HuggingFace
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import Split
from zoo.tasks.corpora.base import BOS, EOS, Corpus
from zoo.tasks.corpora.load import load
from zoo.tasks.text import Text

PIECE = 2048  # tokens that a model with exact decoding reads at a time

Spacing = Literal["geometric", "linear"]


class ForgettingCurve(Evaluation):
    """A table of one row a text, see `zoo.evaluation.forgetting.curve.forgetting_curve`.

    corpus: as in task=text, and then used whole; {}: the `split` of the cell's own task.
    irrelevant: by name, the corpora for the other text of an lm row; {}: the corpus itself.
    longest: tokens of the longest text; null: half of the longest test window.
    shortest, count, spacing: for the grid of lengths.  repeats: texts of each length.
    rows_at_once: sequences to read at once.
    """

    def __init__(
        self,
        *,
        corpus: Mapping[str, Any],
        irrelevant: Mapping[str, Mapping[str, Any]],
        split: Split,
        longest: int | None,
        shortest: int,
        count: int,
        spacing: Spacing,
        repeats: int,
        rows_at_once: int,
    ) -> None:
        one_of("evaluation.spacing", spacing, get_args(Spacing))
        at_least("evaluation.shortest", shortest, 2)
        at_least("evaluation.count", count, 1)
        at_least("evaluation.repeats", repeats, 1)
        at_least("evaluation.rows_at_once", rows_at_once, 1)
        if longest is not None:
            at_least("evaluation.longest", longest, shortest)
        self.split: Split = split
        self.corpus, self.irrelevant = corpus, irrelevant
        self.longest, self.shortest = longest, shortest
        self.count, self.spacing, self.repeats, self.rows_at_once = count, spacing, repeats, rows_at_once

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return the accuracy of each copy and lm text, for each length."""
        ids = self._ids(trained)
        longest = self.longest or max(segment.seq_len for segment in trained.task.segments("test")) // 2
        trained.model.check_length(2 * longest + 3)
        seed = trained.task.seed
        others = {name: other.whole for name, other in self._others(seed).items()}
        return self._curve(predictor(trained), ids, others, longest, bos=BOS, eos=EOS, seed=seed)

    def made_from(self, trained: Trained) -> dict[str, str]:
        seed = trained.task.seed
        task = load(self.corpus, seed) if _named(self.corpus) else trained.task
        return {**task.made_from, **self._made_from_others(seed)}

    def made_from_text(self) -> dict[str, str]:
        """Return the same facts as `made_from` for a Hugging Face model."""
        return load(self.corpus, 0).made_from | self._made_from_others(0)

    def table_of(self, held: HuggingFace) -> pd.DataFrame:
        """Return a Hugging Face model's table on `corpus`: documents by its tokenizer, one after the other.

        ValueError, one line: no corpus is named, or the model has too few positions.
        """
        if not _named(self.corpus):
            raise ValueError("name the text: evaluation.corpus.files=[book.txt].")
        longest = self.longest or ((held.longest or 2051) - 3) // 2
        if held.longest is not None and 2 * longest + 3 > held.longest:
            raise ValueError(
                f"evaluation.longest (={longest}) needs 2 x {longest} + 3 positions, and the model has "
                f"{held.longest}: use up to {(held.longest - 3) // 2}."
            )
        ids = _tokens(held, load(self.corpus, 0))
        others = {name: _tokens(held, other) for name, other in self._others(0).items()}
        predict = huggingface.predictor(held)
        return self._curve(predict, ids, others, longest, bos=held.bos, eos=held.eos, seed=0)

    def _others(self, seed: int) -> dict[str, Corpus]:
        for name, corpus in self.irrelevant.items():
            if not _named(corpus):
                raise ValueError(f"evaluation.irrelevant.{name} names no text: {name}: {{files: [a.txt]}}.")
        return {name: load(corpus, seed) for name, corpus in self.irrelevant.items()}

    def _made_from_others(self, seed: int) -> dict[str, str]:
        others = self._others(seed).items()
        return {f"{name}.{key}": of for name, other in others for key, of in other.made_from.items()}

    def _curve(
        self,
        predict: Predict,
        ids: Int[Tensor, " N"],
        others: Mapping[str, Int[Tensor, " M"]],
        longest: int,
        **marks_and_seed: int,
    ) -> pd.DataFrame:
        lengths = grid(longest, self.count, self.spacing, min(self.shortest, longest))
        return forgetting_curve(
            predict, ids, lengths, irrelevant=others or None, repeats=self.repeats,
            rows_at_once=self.rows_at_once, **marks_and_seed,
        )  # fmt: skip

    def _ids(self, trained: Trained) -> Int[Tensor, " N"]:
        task = inmost(trained.task)
        if _named(self.corpus):
            if task.vocab_size <= EOS:
                raise ValueError(f"a model of {task.vocab_size} tokens knows no bytes: train on task=text.")
            return load(self.corpus, task.seed).whole
        if not isinstance(task, Text):
            raise ValueError("a forgetting curve needs text: train on it, or name evaluation.corpus.files.")
        return task.ids(self.split)


def _named(corpus: Mapping[str, Any]) -> bool:
    return bool(corpus.get("source") or corpus.get("files"))


def _tokens(held: HuggingFace, corpus: Corpus) -> Int[Tensor, " N"]:
    return torch.cat([held.ids(document.decode("utf-8", "replace")) for document in corpus.documents])


def predictor(trained: Trained) -> Predict:
    """Return a function that predicts the model's most likely next tokens.

    A model with exact decoding reads PIECE tokens at a time and keeps its state; others read whole rows."""

    def predict(inputs: Int[Tensor, "B T"], positions: Int[Tensor, " A"]) -> Int[Tensor, "B A"]:
        """Return the most likely next token after each position."""
        inputs, positions = inputs.to(trained.device), positions.to(trained.device)
        with trained.at_work():
            pieces = _hidden(trained, inputs, positions)
            return torch.cat([most_likely(trained.model.logits, hidden) for hidden in pieces], dim=1)

    return predict


def _hidden(
    trained: Trained, inputs: Int[Tensor, "B T"], positions: Int[Tensor, " A"]
) -> Iterator[Float[Tensor, "B a D"]]:
    """Yield the hidden states at these positions, which must rise, in pieces from left to right."""
    model = trained.model
    if not model.exact_decode:
        yield model(inputs, positions.expand(len(inputs), -1))
        return
    state = None
    for start in range(0, inputs.shape[1], PIECE):
        hidden, state = trained.extend(inputs[:, start : start + PIECE], state)
        here = positions[(positions >= start) & (positions < start + PIECE)] - start
        if len(here):
            yield hidden[:, here]
