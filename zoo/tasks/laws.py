"""Check the laws that every task obeys; each law is a function that yields what is wrong with a task.

    python -m zoo.tasks --laws mqar
    PYTHONPATH=. python -m zoo.tasks --laws my_task --config-dir my_conf

No law names a task.  Laws look at a few rows of each segment; all laws together take a fraction of a second.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from math import log2
from operator import itemgetter

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.common.checks import violation
from zoo.tasks.base import (
    DATA,
    IGNORED,
    ORDERS,
    SPLITS,
    Batch,
    Segment,
    Split,
    Task,
    concatenated,
    joined,
    sources,
)  # fmt: skip
from zoo.tasks.batches import BatchStream
from zoo.tasks.counting import all_rows, enough_states

FEW = 8  # rows of a segment that most laws look at
GUESSED = 10_000  # answers of a segment whose guesses are counted
TOKENS = 2**20  # the most tokens of a segment that are drawn for GUESSED answers
SIGMAS = 5  # standard deviations by which a count may differ from what is expected
ROUNDING = 1e-6  # tolerated error of a logarithm
FAR = (2**31, 2**40 - 1)  # indices of examples far away
WORD = re.compile(r"\w[\w.+-]{0,39}")  # a word in a slice


class Subject:
    """A task under test.  made: builds the task of a seed, a new one at each call.  few: rows to look at."""

    def __init__(self, made: Callable[[int], Task], few: int = FEW) -> None:
        self.made, self.task, self.few = made, made(0), few
        self.of = cache(self._of)

    def _of(self, split: Split, seed: int = 0) -> list[tuple[Segment, Batch]]:
        """Return each segment of a split with a few of its rows."""
        task = self.task if seed == 0 else self.made(seed)
        return [(s, task.sample(split, i, range(self.few))) for i, s in enumerate(task.segments(split))]

    def every(self) -> Iterator[tuple[Split, int, Segment, Batch]]:
        """Yield split, index, segment and a few rows of every segment."""
        for split in SPLITS:
            for i, (segment, batch) in enumerate(self.of(split)):
                yield split, i, segment, batch


Law = Callable[[Subject], Iterator[str]]


def broken(made: Callable[[int], Task]) -> list[str]:
    """Return a line for each law that the task breaks: the law's name, and the first violation.

    made: builds the task of a seed, a new one at each call."""
    subject = Subject(made)
    lines = []
    for law in LAWS:
        reason = violation(law(subject))
        if reason:
            lines.append(f"{name(law)}: {reason}")
        if reason and law is shapes_and_types:
            break  # the laws below index by these shapes
    return lines


def name(law: Law) -> str:
    """Return the law's name in words: "the same bytes whatever the batch"."""
    return law.__name__.replace("_", " ")


def segments_are_named_apart_and_by_plain_words(subject: Subject) -> Iterator[str]:
    """Segments are named apart by numbers and plain words, and data, order, load and chance are valid."""
    task = subject.task
    if task.data not in DATA or task.order not in ORDERS:
        yield f"data (={task.data}) and order (={task.order}) must be of {DATA} and {ORDERS}"
    for split in SPLITS:
        names = [segment.name for segment in task.segments(split)]
        if len(set(names)) < len(names) or not names:
            yield f"{split} has no segments, or two of one name: {names}"
        for segment in task.segments(split):
            if not all(map(WORD.fullmatch, map(str, (*segment.slice, *segment.slice.values())))):
                yield f"a slice must be of numbers and plain words, and is {segment.slice}"
            if task.load is not None and type(segment.slice.get(task.load)) is not int:
                yield f"the slice {segment.name} lacks {task.load}, a whole number, which is the task's load"
            if not 0 < task.chance(segment) <= 1:
                yield f"chance (={task.chance(segment)}) of {segment.name} must be in (0, 1]"


def shapes_and_types(subject: Subject) -> Iterator[str]:
    """Shapes and types are those of `Batch`, groups are the declared ones, and each row asks something."""
    for split, _, segment, batch in subject.every():
        where = f"{split} {segment.name}"
        if batch.inputs.shape != (subject.few, segment.seq_len):
            yield f"{where}: inputs are {tuple(batch.inputs.shape)}, not {(subject.few, segment.seq_len)}"
        if batch.inputs.dtype != torch.int64:
            yield f"{where}: inputs must be int64, and are {batch.inputs.dtype}"
        if batch.groups.keys() != subject.task.groups.keys():
            yield f"{where}: groups are {[*batch.groups]}, and {[*subject.task.groups]} are declared"
        columns = (batch.positions, batch.answers, *batch.groups.values())
        if len({part.shape for part in columns}) > 1 or {part.dtype for part in columns} != {torch.int64}:
            yield f"{where}: positions, answers and groups must be int64 of one shape"
        if not (batch.answers != IGNORED).any(dim=1).all():
            yield f"{where}: a row asks nothing"


def ranges(subject: Subject) -> Iterator[str]:
    """Tokens, positions and groups lie in their ranges, and no position is asked twice."""
    task, half = subject.task, subject.task.vocab_size // 2
    inputs, answers = (half * (half + 1), half) if task.stacked else (task.vocab_size, task.vocab_size)
    for split, _, segment, batch in subject.every():
        where, scored = f"{split} {segment.name}", batch.answers != IGNORED
        spans = ("inputs", batch.inputs, inputs), ("answers", batch.answers[scored], answers)
        for what, tokens, most in spans:
            if tokens.min() < 0 or tokens.max() >= most:
                yield f"{where}: {what} (={tokens.min()} to {tokens.max()}) must be tokens, 0 to {most - 1}"
        if batch.positions.min() < 0 or batch.positions.max() >= segment.seq_len:
            yield f"{where}: positions (={batch.positions.min()} to {batch.positions.max()}) must be in a row"
        if not task.decoder and _scored_twice(batch.positions, scored):
            yield f"{where}: a position is asked twice"
        for key, group in task.groups.items():
            if not group.holds(batch.groups[key][scored]).all():
                yield f"{where}: the group {key} has a value that is none of {group}"


def _scored_twice(positions: Int[Tensor, "B A"], scored: Bool[Tensor, "B A"]) -> bool:
    apart = -1 - torch.arange(positions.shape[1])  # distinct numbers for places that ask nothing
    ordered = positions.where(scored, apart).sort(dim=1).values
    return bool((ordered.diff(dim=1) == 0).any())


def each_answer_is_read_from_its_own_past(subject: Subject) -> Iterator[str]:
    """Recall shows an answer between its source and the place that asks for it."""
    for split, _, segment, batch in subject.every():
        places = sources(subject.task, batch)
        if places is None:
            if subject.task.kind == "recall":
                yield 'recall must have the group "distance"'
            return
        task, answers = subject.task, batch.answers
        shown = batch.inputs // (task.vocab_size // 2) - 1 if task.stacked else batch.inputs
        spoken = torch.isin(answers, torch.tensor([IGNORED, *task.spoken]))
        rows, columns = (answers != IGNORED).nonzero(as_tuple=True)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            start, stop = int(places[row, column]), int(batch.positions[row, column])
            if not 0 <= start < stop:
                yield f"{split} {segment.name}: asked at {stop}, an answer is said to be read from {start}"
            elif not spoken[row, column] and answers[row, column] not in shown[row, start:stop]:
                yield f"{split} {segment.name}: asked at {stop}, an answer does not stand at {start} or later"


def an_oracle_is_right_and_sees_nothing_after_a_position(subject: Subject) -> Iterator[str]:
    """The oracle is right even if the row is scrambled after its first, a middle or its last answer.

    A text needs no oracle: each answer is the next token.
    """
    task, generator = subject.task, torch.Generator().manual_seed(0)
    for split, _, segment, batch in subject.every():
        scored = batch.answers != IGNORED
        if task.kind == "text":
            follows = batch.inputs.gather(1, (batch.positions + 1).clamp(max=segment.seq_len - 1))
            if not ((follows == batch.answers) | (batch.positions + 1 >= segment.seq_len) | ~scored).all():
                yield f"{split} {segment.name}: an answer is not the token that follows"
            continue
        noise = torch.randint(task.vocab_size, batch.inputs.shape, generator=generator)
        for column in {0, scored.shape[1] // 2, scored.shape[1] - 1}:
            later = torch.arange(segment.seq_len) > batch.positions[:, [column]]
            result = task.oracle(torch.where(later, noise, batch.inputs), batch.positions)[:, column]
            if not ((result == batch.answers[:, column]) | ~scored[:, column]).all():
                yield f"{split} {segment.name}: the oracle is wrong, or sees what stands after a position"


def the_same_bytes_whatever_the_batch(subject: Subject) -> Iterator[str]:
    """Rows stay equal to the bit in another batch, in another order and from another instance."""
    again = subject.made(0)
    for split, i, segment, whole in subject.every():
        if not same(again.sample(split, i, range(FEW)), whole):
            yield f"{split} {segment.name}: the same config and seed differ"
        parts = [again.sample(split, i, part) for part in (range(1), range(1, 3), range(3, FEW))]
        order = torch.randperm(FEW, generator=torch.Generator().manual_seed(i))
        mixed = subject.task.sample(split, i, order)
        if not same(concatenated(parts), whole) or not same(mixed, joined(itemgetter(order), whole)):
            yield f"{split} {segment.name}: a row depends on the batch that it is made in"


def same(a: Batch, b: Batch) -> bool:
    """Compare two batches to the last bit."""
    groups = a.groups.keys() == b.groups.keys() and all(a.groups[n].equal(b.groups[n]) for n in a.groups)
    return groups and all(x.equal(y) for x, y in zip(a.tensors, b.tensors, strict=True))


def sampling_touches_no_global_generator(subject: Subject) -> Iterator[str]:
    """Sampling leaves the state of torch's own generator as it was."""
    before = torch.get_rng_state()
    subject.made(0).sample("train", 0, range(2))
    if not torch.get_rng_state().equal(before):
        yield "torch's own generator was drawn from"


def examples_far_away_are_to_be_had(subject: Subject) -> Iterator[str]:
    """Examples up to index 2**40 - 1 can be drawn, and none is the same row as another."""
    for split, i, segment, near in subject.every():
        far = subject.task.sample(split, i, torch.tensor(FAR))
        if len({tuple(row) for batch in (near, far) for row in _rows(batch)}) < FEW + len(FAR):
            yield f"{split} {segment.name}: two examples are the same row"


def splits_and_seeds_never_meet(subject: Subject) -> Iterator[str]:
    """Rows of different splits or seeds are different."""
    first_in: dict[tuple[int, ...], str] = {}
    for seed in (0, 1):
        for split in SPLITS:
            for segment, batch in subject.of(split, seed):
                where = f"{split} {segment.name} of seed {seed}"
                for row in _rows(batch):
                    if first_in.setdefault(tuple(row), where) != where:
                        yield f"{where} has a row of {first_in[tuple(row)]}"


def _rows(batch: Batch) -> list[list[int]]:
    """Return rows with positions and answers: short rows may have the same tokens and differ in these."""
    return torch.cat([batch.inputs, batch.positions, batch.answers], dim=1).tolist()


def guessing_scores_chance(subject: Subject) -> Iterator[str]:
    """Guesses drawn from the answers' own law, or learned place by place from other rows, score no more than
    `chance`; and a single guess, learned or constant, scores as much as `chance`."""
    task = subject.task
    for i, segment in enumerate(task.segments("test")):
        chance, few = task.chance(segment), subject.of("test")[i][1].answers
        per_row = (few != IGNORED).sum().item() / len(few)
        rows = 2 + min(int(GUESSED / per_row), TOKENS // segment.seq_len)
        answers = task.sample("test", i, range(rows)).answers
        agree, pairs = agreement(answers)
        learned, most = learned_guess(answers)
        room = SIGMAS * (chance * len(answers)) ** -0.5  # relative error; a row counts as one answer
        if agree > chance * (1 + SIGMAS * (chance * pairs) ** -0.5) or learned > chance * (1 + room):
            yield f"{segment.name}: guesses score {agree:.3g} and {learned:.3g}, more than {chance:.3g}"
        if chance > max(most, learned) * (1 + room):
            yield f"{segment.name}: no single guess scores {chance:.3g}, at most {max(most, learned):.3g}"


def no_answer_stands_where_it_is_asked_for(subject: Subject) -> Iterator[str]:
    """Recall has the answer where it is asked for no more often than by chance."""
    task = subject.task
    for split, i, segment, _ in subject.every() if task.kind == "recall" else ():
        rows = task.sample(split, i, range(2 + min(512, TOKENS // segment.seq_len)))
        scored = rows.answers != IGNORED
        share = (rows.inputs.gather(1, rows.positions) == rows.answers)[scored].double().mean().item()
        chance = task.chance(segment)
        if share > chance * (1 + SIGMAS * (chance * int(scored.sum())) ** -0.5):
            yield f"{split} {segment.name}: {share:.3g} of the answers stand where they are asked for"


def agreement(answers: Int[Tensor, "B A"]) -> tuple[float, float]:
    """Return how often two answers of different rows agree, and the number of pairs behind that share.

    Equal answers of one row are not independent: n such answers are counted as one.
    """
    row, _ = (answers != IGNORED).nonzero(as_tuple=True)
    tokens = answers[answers != IGNORED]
    counts = tokens.bincount().double()
    in_row = (row * len(counts) + tokens).unique(return_counts=True)[1].double()
    pairs = len(tokens) ** 2 - row.bincount().double().square().sum().item()
    together = in_row.square().sum().item() / len(tokens)
    share = (counts.square().sum() - in_row.square().sum()) / pairs
    return share.item(), pairs / 2 / together**2


def learned_guess(answers: Int[Tensor, "B A"]) -> tuple[float, float]:
    """Return the score on half of the rows of the other half's most frequent answer, place by place, and the
    share of the most frequent answer of all."""
    one, other = answers.tensor_split(2)
    scored = (one != IGNORED).any(dim=0)
    guess = torch.stack([place[place != IGNORED].mode().values for place in one[:, scored].T])
    right = (other[:, scored] == guess).sum() / (other[:, scored] != IGNORED).sum().clamp(min=1)
    tokens = answers[answers != IGNORED]
    return right.item(), (tokens.bincount().max() / len(tokens)).item()


def batches_are_the_examples_of_the_task(subject: Subject) -> Iterator[str]:
    """Batches of a stream are the examples that its plan names."""
    for split in SPLITS:
        stream = BatchStream(subject.task, split, batch_size=4, block=8)
        plan = stream.plan(0)
        for (segment, batch), (planned, examples) in zip(stream, plan[:2], strict=False):
            if segment != planned or not same(batch, subject.task.sample(split, segment, examples)):
                yield f"a batch of {split} is not of the examples {examples}"


def a_state_has_no_more_bits_than_rows_can_tell_apart(subject: Subject) -> Iterator[str]:
    """`least_bits` is at most the bits of the tokens up to the last question; for a segment with so few rows
    that all can be tried, it is at most log2 of the number of states that suffice for them."""
    task, half = subject.task, subject.task.vocab_size // 2
    tokens = half * (half + 1) if task.stacked else task.vocab_size
    for i, (segment, batch) in enumerate(subject.of("test")):
        stated = task.least_bits(segment)
        if stated is None:
            continue
        most = (int(batch.positions.max()) + 1) * log2(tokens)
        if stated <= most and (rows := all_rows(task, i)) is not None:
            most = log2(enough_states(rows, task.decoder))
        if not 0 <= stated <= most + ROUNDING:
            yield f"{segment.name}: least_bits (={stated:.4g}) must be at least 0 and at most {most:.4g}"


LAWS: tuple[Law, ...] = (
    segments_are_named_apart_and_by_plain_words,
    shapes_and_types,
    ranges,
    each_answer_is_read_from_its_own_past,
    an_oracle_is_right_and_sees_nothing_after_a_position,
    the_same_bytes_whatever_the_batch,
    sampling_touches_no_global_generator,
    examples_far_away_are_to_be_had,
    splits_and_seeds_never_meet,
    guessing_scores_chance,
    no_answer_stands_where_it_is_asked_for,
    batches_are_the_examples_of_the_task,
    a_state_has_no_more_bits_than_rows_can_tell_apart,
)
