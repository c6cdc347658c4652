"""Sample by exact laws from the counter RNG, one row an example, without a Python loop over rows."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.common.counter_rng import below, bits, uniform

SLACK = 24  # extra draws beyond the expected number of repeats, so that a third round is rare


def distinct(key: int, examples: Int[Tensor, " B"], count: int, pool: int) -> Int[Tensor, "B count"]:
    """Return `count` of 0..pool-1, uniform without replacement, in the order drawn.

    The distinct values of an i.i.d. stream, in order of first appearance, are exactly that law.  Most rows
    have no repeat among their first `count` draws; the others go on drawing from their own stream.
    """
    draws = below(bits(key, examples, count), pool)
    rows = (~_first_of_their_kind(draws).all(-1)).nonzero()[:, 0]
    slots = count + count * count // pool + SLACK
    while len(rows):
        longer = below(bits(key, examples[rows], slots), pool)
        first = _first_of_their_kind(longer)
        rank = first.cumsum(-1)
        enough = rank[:, -1] >= count
        chosen = (first & (rank <= count))[enough]
        draws[rows[enough]] = longer[enough][chosen].view(-1, count)
        rows, slots = rows[~enough], 2 * slots
    return draws


def permutation(key: int, examples: Int[Tensor, " B"], count: int) -> Int[Tensor, "B count"]:
    """Return 0..count-1 in a uniformly random order for each example (numbers of one stream never tie)."""
    return bits(key, examples, count).argsort(1)


def _first_of_their_kind(draws: Int[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
    ordered, place = draws.sort(stable=True)
    first = torch.ones_like(draws, dtype=torch.bool)
    return first.scatter_(1, place[:, 1:], ordered[:, 1:] != ordered[:, :-1])


def power_law_places(
    key: int, examples: Int[Tensor, " B"], count: int, places: int, power_a: float
) -> Int[Tensor, "B count"]:
    """Draw `count` of 0..places-1 without replacement, place i of weight (i+1)**(power_a-1); in that order.

    This is an exponential race: -log(u_i) / weight_i, the first `count` to arrive.  It is Gumbel top-k (log
    weight plus Gumbel noise, in descending order) under a monotone map, so the law is sequential sampling
    with weights renormalised after each draw (Plackett-Luce), with one logarithm instead of two.
    Devices may differ in the last bit of a logarithm, which shows where two arrivals agree to 52 bits: once
    in about 1e10 rows of 256 places.
    """
    slowness = [i ** (1.0 - power_a) for i in range(1, places + 1)]  # in Python, so equal on every device
    arrival = uniform(bits(key, examples, places)).log_().neg_()
    arrival *= torch.tensor(slowness, dtype=torch.float64, device=examples.device)
    if 2 * count <= places:
        return arrival.topk(count, largest=False, sorted=True).indices
    return arrival.sort().indices[:, :count]


def outside(draws: Int[Tensor, "B S"], taken: Int[Tensor, "B K"]) -> Int[Tensor, "B S"]:
    """Map draw r to the r-th (from 0) non-negative integer that is not `taken` in its row.

    taken: distinct in a row.  Uniform draws below M - K thus become uniform over the M - K free ones of M.
    """
    free_before = taken.sort().values - torch.arange(taken.shape[1], device=taken.device)
    return draws + torch.searchsorted(free_before, draws, right=True)


def last_seen(tokens: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Return for each place the latest earlier one of its row that holds the same; -1: none."""
    ordered, place = tokens.sort(stable=True)
    before = torch.full_like(place, -1)
    before[:, 1:] = torch.where(ordered[:, 1:] == ordered[:, :-1], place[:, :-1], -1)
    return torch.empty_like(place).scatter_(1, place, before)


def first_seen(tokens: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Return for each place the first one of its row that holds the same: itself or earlier."""
    ordered, place = tokens.sort(stable=True)
    run = torch.ones_like(place, dtype=torch.bool)
    run[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = torch.where(run, torch.arange(place.shape[1], device=place.device), 0).cummax(1).values
    return torch.empty_like(place).scatter_(1, place, place.gather(1, start))
