"""Make haystacks, a repeated phrase or a text, and hide needles in them."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.common.counter_rng import below, bits, stream
from zoo.tasks.ruler.draws import Draws, For
from zoo.tasks.ruler.tokens import PHRASE, WORDS

TOPIC = 61  # words of a topic: 12 topics
STAY = 8  # each word leaves the topic with probability 1 / STAY
SCALE = 2**18  # weight of the most frequent word; the sum of all must stay below 2**22, see counter_rng.below


class Essay:
    """A text of WORDS: a Markov chain of order 1 whose words are Zipf-distributed.

    The word of rank r has the weight 1 / r.  Each word has a topic.  The next word comes from the present
    topic or, once in STAY, from all words; both draws keep the Zipf law, which thus is the exact marginal.
    seed: determines which words are frequent, and which of them share a topic.
    """

    def __init__(self, seed: int) -> None:
        drawn = bits(stream(seed, 0xE55A), torch.arange(2), len(WORDS)).argsort(1)
        self.words = drawn[0] + WORDS.start  # topic by topic
        weights = (SCALE / (1 + drawn[1])).round().long()
        self.ends = weights.cumsum(0)
        topics = weights.view(-1, TOPIC).sum(1)
        self.topics = torch.stack([topics.cumsum(0) - topics, topics])  # where each begins, and its weight

    def text(self, draws: Draws, count: int) -> Int[Tensor, "B count"]:
        """Return words of the chain; at every place a word has its Zipf frequency."""
        device = draws.examples.device
        words, ends, (begins, weights) = (x.to(device) for x in (self.words, self.ends, self.topics))
        drawn, total = draws.bits(For.TEXT, count), int(ends[-1])
        left = draws.below(For.TOPICS, count, STAY) == 0
        left[:, :1] = True
        anywhere = torch.searchsorted(ends, below(drawn, total), right=True)
        since = torch.where(left, draws.range(count), 0).cummax(1).values
        topic = (anywhere // TOPIC).gather(1, since)
        within = begins[topic] + below(drawn, weights[topic])
        return words[torch.where(left, anywhere, torch.searchsorted(ends, within, right=True))]


def phrase(draws: Draws, count: int) -> Int[Tensor, "B count"]:
    """Return `count` words of the phrase, repeated, for each row."""
    return draws.columns(torch.arange(count) % len(PHRASE) + PHRASE.start)


def hidden(
    hay: Int[Tensor, "B H"], needles: Int[Tensor, "B N"], lengths: Sequence[int], draws: Draws
) -> tuple[Int[Tensor, "B H+N"], Int[Tensor, "B n"]]:
    """Return the haystack with needles at random places, in their order, and where each needle begins.

    needles: the needles in one line; needle i has lengths[i] tokens.  Places are independent: two may touch.
    """
    device, (rows, space) = hay.device, hay.shape
    counts = torch.tensor(lengths, device=device)
    before = torch.cat([counts.new_zeros(1), counts.cumsum(0)])  # tokens of the needles before each
    places = draws.below(For.PLACES, len(lengths), space + 1).sort().values
    tokens = hay.new_empty(rows, space + needles.shape[1])
    needle = torch.repeat_interleave(counts)
    tokens.scatter_(1, places[:, needle] + draws.range(needles.shape[1]), needles)
    at = draws.range(space).expand(rows, -1).contiguous()
    tokens.scatter_(1, at + before[torch.searchsorted(places, at, right=True)], hay)
    return tokens, places + before[:-1]
