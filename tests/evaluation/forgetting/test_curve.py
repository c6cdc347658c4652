"""The forgetting curve of models whose memory is known by construction: a copier, a window, none."""

from functools import partial

import pandas as pd
import pytest
import torch
from torch import Tensor

from zoo.evaluation.forgetting.curve import forgetting_curve, grid, scored
from zoo.evaluation.forgetting.length import memory_lengths

BOS, EOS, WORDS, GRAM = 500, 501, 500, 3
LENGTHS = [8, 12, 16, 20, 24, 28, 29, 30, 31, 32, 48]


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(WORDS, (4000,), generator=torch.Generator().manual_seed(0))


def curve(predict, ids: Tensor, lengths=LENGTHS, **settings) -> pd.DataFrame:
    return forgetting_curve(predict, ids, lengths, bos=BOS, eos=EOS, seed=1, **settings)


def copier(inputs: Tensor, positions: Tensor, window: int = 10**6) -> Tensor:
    """Predict the token behind the previous copy of the last GRAM tokens, if within `window`; else 0."""
    predicted = torch.zeros(len(inputs), len(positions), dtype=torch.long)
    for b, row in enumerate(inputs.tolist()):
        for a, p in enumerate(positions.tolist()):
            gram = row[p - GRAM + 1 : p + 1]
            for q in range(p - 1, max(p - window + 1, 0) + GRAM - 2, -1):
                if row[q - GRAM + 1 : q + 1] == gram:
                    predicted[b, a] = row[q + 1]
                    break
    return predicted


def markov(inputs: Tensor, positions: Tensor) -> Tensor:
    """Predict from the last token alone, by the rule of `predictable`."""
    return inputs[:, positions] * 7 % WORDS


@pytest.fixture(scope="module")
def predictable() -> Tensor:
    """Return tokens of which half follow from the one before."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(WORDS, (4000,), generator=generator)
    for t in torch.arange(1, 4000)[torch.rand(3999, generator=generator) < 0.5].tolist():
        ids[t] = ids[t - 1] * 7 % WORDS
    return ids


def test_the_layout_of_texts_by_hand(ids: Tensor) -> None:
    batches: list[Tensor] = []

    def predict(inputs: Tensor, positions: Tensor) -> Tensor:
        batches.append(inputs)
        assert positions.tolist() == [8, 9, 10]  # before the last 3 tokens of S, which stands in 7..11
        return inputs[:, positions + 1]

    table = curve(predict, ids, [5], repeats=2)
    assert set(table["accuracy"]) == {1.0} and set(table["tokens"]) == {3}
    corpus = " ".join(map(str, ids.tolist())) + " "
    for row in torch.cat(batches).tolist():
        assert [row[0], row[6], row[12]] == [BOS, BOS, EOS] and len(row) == 2 * 5 + 3
        assert " ".join(map(str, row[1:6])) + " " in corpus and " ".join(map(str, row[7:12])) + " " in corpus
    copies = [row[1:6] == row[7:12] for row in torch.cat(batches).tolist()]
    assert copies == [True, True, False, False]


@pytest.mark.parametrize("length", [2, 5, 8])
def test_half_of_the_text_is_scored(length: int) -> None:
    assert len(scored(length)) == -(-length // 2) and scored(length)[-1] == 2 * length


def test_a_perfect_copier_is_censored(ids: Tensor) -> None:
    lengths = memory_lengths(curve(copier, ids, repeats=3))
    assert str(lengths.fine) == str(lengths.coarse) == ">48" and lengths.dip == 0


@pytest.mark.parametrize("window", [33, 34])
def test_a_window_remembers_exactly_what_it_holds(ids: Tensor, window: int) -> None:
    """The source and the GRAM tokens before it must be in the window: l <= window - 1 - GRAM."""
    lengths = memory_lengths(curve(partial(copier, window=window), ids, repeats=3))
    expected = str(window - 1 - GRAM)
    assert {str(lengths.fine), str(lengths.coarse), str(lengths.coarse_tested)} == {expected}
    assert (lengths.fine.low, lengths.fine.high) == (int(expected), int(expected))


def test_a_model_without_memory_has_length_zero(predictable: Tensor) -> None:
    table = curve(markov, predictable)
    assert 0.3 < float(table["accuracy"].to_numpy().mean()) < 0.7
    lengths = memory_lengths(table)
    assert {str(lengths.fine), str(lengths.coarse), str(lengths.coarse_tested)} == {"0"}


def test_copying_less_than_guessing_is_no_memory(predictable: Tensor) -> None:
    def never_twice(inputs: Tensor, positions: Tensor) -> Tensor:
        copied, guessed = copier(inputs, positions), markov(inputs, positions)
        return torch.where(copied == guessed, guessed + 1, guessed)

    lengths = memory_lengths(curve(never_twice, predictable, repeats=3))
    assert lengths.coarse.tokens == lengths.coarse_tested.tokens == 0


def test_texts_do_not_overlap_or_depend_on_other_lengths(ids: Tensor) -> None:
    places = torch.arange(60)  # each token is its position; 60 = 3 * 20, the smallest corpus that is accepted

    def apart(inputs: Tensor, positions: Tensor) -> Tensor:
        first, second = inputs[:, 1], inputs[:, 22]
        assert ((first == second) | ((first - second).abs() >= 20)).all()
        return inputs[:, positions + 1]

    forgetting_curve(apart, places, [20], bos=98, eos=99, seed=0, repeats=200)
    alone, among = curve(markov, ids, [16]), curve(markov, ids, [8, 16])
    pd.testing.assert_frame_equal(alone, among.query("length == 16").reset_index(drop=True))


def test_each_source_of_irrelevant_text_has_rows(ids: Tensor) -> None:
    zeros = torch.zeros(50, dtype=torch.long)
    table = curve(copier, ids, [8], repeats=4, irrelevant={"corpus": ids, "zeros": zeros}, rows_at_once=3)
    sizes = table.groupby(["kind", "prefix"]).size().to_dict()
    assert sizes == {("copy", ""): 4, ("lm", "corpus"): 4, ("lm", "zeros"): 4}


def test_grids_of_lengths() -> None:
    assert grid(1024, 8) == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert grid(80, 10, "linear") == [8, 16, 24, 32, 40, 48, 56, 64, 72, 80]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"lengths": [2000]},
            r"the corpus \(4000 tokens\) must hold 3 x 2000 tokens: use lengths up to 1333",
        ),
        ({"lengths": []}, "lengths is empty"),
        ({"lengths": [1, 8]}, r"the shortest length \(=1\) must be at least 2"),
        ({"repeats": 0}, r"repeats \(=0\) must be at least 1"),
        ({"irrelevant": {"zh": torch.zeros(9)}}, r"the other text 'zh' \(9 tokens\) must hold 48 tokens"),
    ],
)
def test_impossible_settings_are_refused(ids: Tensor, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        curve(markov, ids, **settings)
