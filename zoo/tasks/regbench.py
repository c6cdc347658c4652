"""RegBench: each row has a random regular language of its own, shown by strings of the language.

Akyurek et al. 2024, "In-context language learning: architectures and algorithms" (arXiv 2401.12973), and its
code, berlino/seq_icl: an automaton has some states, each with 1 to `ways` edges of different letters to other
states; a row is a walk of random length from the first state, a `|`, another walk, and so on to its end.
An automaton has ways + 1 to `states` states, and a row ways + 1 to `letters` letters, all uniform.

Not as published: there a model learns every next letter, and its best guess counts as right if the automaton
has such an edge.  Here each answer is the only right one: a place is asked if its state has one edge and an
earlier string of the row began with the same letters and went on.  A tree of the row's strings thus knows the
answer; that two beginnings lead to one state can be found, but is not needed.  Rows have one length, and may
cut the last string; the automaton is not minimised, which changes no language.
Most of the task is recall of n-grams: in rows of 128 tokens of conf/task/regbench.yaml what last followed the
same letter is right for .82 of the answers, and what last followed the same two letters for .92.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.base import IGNORED, Batch, Segment
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, OwnVocabulary
from zoo.tasks.sampling import permutation

STATES, SYMBOLS, EDGES, LETTERS, NUMBERS, TARGETS, LENGTHS, WALK = range(8)
FAR = 2**62


@dataclass(frozen=True, kw_only=True)
class Strings(Load):
    """A segment of rows with strings of 1 to `longest` letters."""

    longest: int


class RegBench(OwnVocabulary):
    """The task RegBench.  Args, besides those of a mixture:

    states, letters: the most that an automaton has.
    ways: the most edges out of a state.  Tokens: the letters, then `|`.
    """

    kind, load_kind = "computation", Strings
    groups = MappingProxyType({"distance": Distance()})

    def __init__(self, *, states: int, letters: int, ways: int, **mixture: Any):
        at_least("task.ways", ways, 1)
        at_least("task.states", states, ways + 1)
        at_least("task.letters", letters, ways + 1)
        self.states, self.letters, self.ways, self.tokens = states, letters, ways, letters + 1
        super().__init__(**mixture)

    def _fits(self, where: str, load: Strings) -> None:
        at_least(f"{where}.longest", load.longest, 1)
        at_least(f"{where}.seq_len", load.seq_len, 2 * load.longest + 3)

    def chance(self, segment: Segment) -> float:
        """Return the score of always guessing the same letter."""
        return 1 / self.letters

    def _next(self, past: list[int]) -> int:
        strings: list[list[int]] = [[]]
        for token in past:
            strings[-1].append(token) if token < self.letters else strings.append([])
        *earlier, now = strings
        after = [s[len(now)] for s in earlier if s[: len(now)] == now and len(s) > len(now)]
        return after[0]

    def _rows(self, load: Strings, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        """Return the rows, each drawn again until it asks something."""
        inputs, answers, distance = self._walked(load, (*path, 0), examples)
        attempt = 0
        while (silent := (answers == IGNORED).all(1)).any():
            attempt += 1
            again = self._walked(load, (*path, attempt), examples[silent])
            inputs[silent], answers[silent], distance[silent] = again
        positions = torch.arange(load.seq_len - 1, device=examples.device).expand_as(answers)
        return Batch(inputs, positions, answers, {"distance": distance})

    def _automata(
        self, path: tuple[int, ...], examples: Int[Tensor, " B"]
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B S*ways"], Int[Tensor, "B S*ways"]]:
        """Return how many edges each state has, their letters, and the states to which they lead."""
        most, ways = self.states, self.ways
        states = below(bits(stream(*path, STATES), examples, 1), most - ways) + ways + 1
        symbols = below(bits(stream(*path, SYMBOLS), examples, 1), self.letters - ways) + ways + 1
        alphabet = permutation(stream(*path, LETTERS), examples, self.letters)
        edges = below(bits(stream(*path, EDGES), examples, most), ways) + 1
        numbers = bits(stream(*path, NUMBERS), examples, most * self.letters)
        letter = _first(numbers, (most, self.letters), symbols, ways, apart=False)
        targets = bits(stream(*path, TARGETS), examples, most * most)
        target = _first(targets, (most, most), states, ways, apart=True)
        return edges, alphabet.gather(1, letter), target

    def _walked(
        self, load: Strings, path: tuple[int, ...], examples: Int[Tensor, " B"]
    ) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B A"], Int[Tensor, "B A"]]:
        """Return tokens, the answers at all places but the last, and the distance back to each answer."""
        edges, letter, target = self._automata(path, examples)
        lengths = below(bits(stream(*path, LENGTHS), examples, load.seq_len), load.longest) + 1
        walk = bits(stream(*path, WALK), examples, load.seq_len)
        state = node = examples.new_zeros(len(examples), 1)
        left = lengths[:, :1]
        latest = examples.new_zeros(len(examples), load.seq_len * self.letters)  # tree: node, letter -> place
        first = torch.zeros_like(latest)  # the first such place, which names the next node
        tokens, answers, sources = [], [], []
        for t in range(load.seq_len):
            ends, out = left == 0, edges.gather(1, state)
            edge = state * self.ways + below(walk[:, [t]], out)
            symbol = letter.gather(1, edge)
            branch = node * self.letters + symbol
            before = latest.gather(1, branch)
            tokens.append(symbol.masked_fill(ends, self.letters))
            answers.append(symbol.where(~ends & (out == 1) & (before > 0), IGNORED))
            sources.append(t - before)
            latest.scatter_(1, branch, before.where(ends, t + 1))
            first.scatter_(1, branch, first.gather(1, branch).where(ends | (before > 0), t + 1))
            state = target.gather(1, edge).masked_fill(ends, 0)
            node = first.gather(1, branch).masked_fill(ends, 0)
            left = (left - 1).where(~ends, lengths[:, [t]])
        return torch.cat(tokens, 1), torch.cat(answers[1:], 1), torch.cat(sources[1:], 1).clamp(min=1)


def _first(
    random: Int[Tensor, "B S*N"], shape: tuple[int, int], most: Int[Tensor, "B 1"], ways: int, *, apart: bool
) -> Int[Tensor, "B S*ways"]:
    """Return for each state `ways` different numbers below `most`; with `apart` none is the state's own."""
    keys = (random >> 2).unflatten(1, shape)
    number, state = (torch.arange(count, device=keys.device) for count in reversed(shape))
    barred = number >= most[:, :, None]
    if apart:
        barred = barred | (number == state[:, None])
    return keys.masked_fill(barred, FAR).argsort(-1)[..., :ways].flatten(1)
