"""RULER without a tokeniser: the eleven tasks of needles, chains and counts, for models trained from scratch.

Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language Models?" (arXiv
2404.06654), in 1024 tokens of our own; `zoo.tasks.ruler.questions` has the questions and the differences.  A
row ends with its answer, so that training and scores are teacher-forced; `evaluation=greedy` lets a model
write.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import one_of
from zoo.tasks.base import Batch, Data, Kind, Order, Segment
from zoo.tasks.groups import Group, Words
from zoo.tasks.mixture import Load, Mixture
from zoo.tasks.ruler.draws import Draws
from zoo.tasks.ruler.haystacks import Essay
from zoo.tasks.ruler.oracle import answer
from zoo.tasks.ruler.questions import QUESTIONS, Drawn
from zoo.tasks.ruler.tokens import AND, ANS, BOS, EOS, QUERY, VOCAB_SIZE, listed, row

DEPTHS = (*(f"{10 * i}-{10 * i + 10}" for i in range(10)), "spread")  # per cent of the context
VALUE, SIGN = 0, 1  # values of the group `token`


@dataclass(frozen=True, kw_only=True)
class Subtask(Load):
    subtask: Literal[
        "single_1", "single_2", "single_3", "multikey_1", "multikey_2", "multikey_3", "multivalue",
        "multiquery", "vt", "cwe", "fwe",
    ]  # fmt: skip


class RulerLite(Mixture):
    """RULER without a tokeniser.  Args:

    seed: the seed of all the data and of the essays' language.
    subtasks: which of the eleven to use.
    data, order: for training, see Task.
    train, valid, test: lengths, each {seq_len, num_examples}: num_examples examples of every subtask.  An
        entry that names its own {subtask} has examples of this subtask only.
    """

    load_kind = Subtask
    kind: Kind = "computation"
    groups: Mapping[str, Group] = MappingProxyType(
        {"depth": Words(DEPTHS), "token": Words(("value", "sign"))}
    )
    separator, stop = AND, EOS

    def __init__(
        self,
        *,
        seed: int,
        subtasks: Sequence[str],
        data: Data,
        order: Order,
        train: Iterable[Mapping[str, Any]],
        valid: Iterable[Mapping[str, Any]],
        test: Iterable[Mapping[str, Any]],
    ) -> None:
        for name in subtasks:
            one_of("task.subtasks", name, tuple(QUESTIONS))
        self.essay = Essay(seed)
        super().__init__(
            seed=seed,
            vocab_size=VOCAB_SIZE,
            data=data,
            order=order,
            train=_of_each(subtasks, train),
            valid=_of_each(subtasks, valid),
            test=_of_each(subtasks, test),
        )

    def chance(self, segment: Segment) -> float:
        """Return the score of guessing each token of a value by itself; all other tokens are certain."""
        return QUESTIONS[str(segment.slice["subtask"])].chance

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        answers = torch.empty_like(positions)
        for i, (tokens, places) in enumerate(zip(inputs.tolist(), positions.tolist(), strict=True)):
            written, begin = answer(tokens), tokens.index(ANS)
            answers[i] = torch.tensor([written[place - begin] for place in places])
        return answers

    def _rows(self, load: Subtask, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        question = QUESTIONS[load.subtask]
        drawn = question.ask(Draws(path, examples), load.seq_len - question.around, self.essay)
        answers = listed(drawn.parts, EOS)
        inputs = row(BOS, drawn.context, QUERY, drawn.query, ANS, answers[:, :-1], like=answers)
        positions = torch.arange(load.seq_len - answers.shape[1], load.seq_len, device=examples.device)
        sign = torch.isin(answers, torch.tensor([AND, EOS], device=examples.device)).long()
        groups = {"depth": _depth(drawn), "token": sign}
        return Batch(inputs, positions.expand_as(answers).contiguous(), answers, groups)

    def _fits(self, where: str, load: Subtask) -> None:
        question = QUESTIONS[load.subtask]
        if load.seq_len < (shortest := question.around + question.least):
            raise ValueError(
                f"{where}.seq_len (={load.seq_len}) is too short for {load.subtask}: use at least "
                f"{shortest}, or leave it out of task.subtasks."
            )


def _of_each(subtasks: Iterable[str], entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return every entry that names no subtask once for each subtask, and other entries as they are."""
    named: list[Mapping[str, Any]] = []
    for entry in entries:
        whole = isinstance(entry, Mapping) and "subtask" not in entry
        named += [{**entry, "subtask": name} for name in subtasks] if whole else [entry]
    return named


def _depth(drawn: Drawn) -> Int[Tensor, "B A"]:
    """Return for each token the index in DEPTHS: how far into the context the token's needle stands."""
    rows, parts, width = drawn.parts.shape
    if drawn.starts is None:
        depths = drawn.parts.new_full((rows, parts), len(DEPTHS) - 1)
    else:
        depths = 10 * drawn.starts // drawn.context.shape[1]
    return depths.repeat_interleave(width + 1, 1)
