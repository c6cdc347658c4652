"""The bound is never below the best code; trained points and a simulated memory are compared with it."""

from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest

from analysis.statistics import bounds
from analysis.statistics.bounds import BITS, Load, highest_accuracy, most, recall, recalled, violations
from tests.analysis import fake


def best_code(pairs: int, values: int, states: int) -> float:
    """Return the highest accuracy that so many states allow: every set of decoders, each row to its best one.

    The decoder knows the keys, so keys are left out; a state is then what is answered for each of them.
    """
    rows = np.array(list(permutations(range(values), pairs)))
    answers = np.array(list(product(range(values), repeat=pairs)))
    right = (rows[:, None, :] == answers).mean(axis=2)  # [rows, decoders]
    sets = combinations(range(len(answers)), min(states, len(answers)))
    return max(float(right[:, list(chosen)].max(axis=1).mean()) for chosen in sets)


CODES = [(1, 2, 1), (1, 3, 2), (1, 4, 1), (1, 4, 2), (1, 4, 3), (1, 4, 4), (2, 2, 1), (2, 2, 2), (2, 3, 2)]
CODES += [(2, 3, 4), (2, 3, 6), (2, 4, 1), (2, 4, 2), (2, 4, 3), (2, 4, 4), (3, 3, 2), (3, 3, 3), (3, 4, 2)]


@pytest.mark.parametrize(("pairs", "values", "states"), CODES)
def test_no_code_beats_the_bound(pairs: int, values: int, states: int) -> None:
    bound = highest_accuracy(np.log2(states), num_kv_pairs=pairs, num_values=values)
    assert best_code(pairs, values, states) <= bound + 1e-9


def test_the_bound_is_no_higher_than_it_must_be() -> None:
    """One bit, one pair, four values: two are told apart, 0.5; the bound is 0.81, and 1 from two bits on."""
    one, all_but, two = highest_accuracy([1, 1.99, 2], num_kv_pairs=1, num_values=4)
    assert one == pytest.approx(0.811, abs=1e-3)
    assert 0.99 < all_but < two == 1


def test_the_bound_equals_numbers_computed_elsewhere() -> None:
    """m = 4096, D = 256: B = 3060.3 bits; the accuracies at shares of it."""
    shares = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    bound = highest_accuracy(3060.257 * shares, num_kv_pairs=256, num_values=4096)
    assert bound == pytest.approx([0.155, 0.33, 0.58, 0.81, 0.93], abs=0.005)
    assert highest_accuracy([3060.2, 3060.3], num_kv_pairs=256, num_values=4096)[1] == 1


def best_code_given_filler(load: Load, states: int) -> float:
    """Return the highest accuracy of one pair, over every encoder of the value.

    The decoder sees the state and the filler, which is drawn from tokens other than the row's key and value.
    """
    values = range(load.vocab_size - load.vocab_size // 2)
    rest = range(len(values), load.vocab_size - 1)  # neither values nor the row's key
    tokens = [*values, *rest]
    filler = np.array(list(product(tokens, repeat=load.seq_len - 3)))
    joint = np.stack([(filler != value).all(axis=1) for value in values], axis=1)
    joint = joint / (len(tokens) - 1) ** filler.shape[1]
    codes = np.array(list(product(range(states), repeat=len(values))))
    cells = [[np.where(code == state, joint, 0).max(axis=1) for state in range(states)] for code in codes]
    return max(float(np.sum(code)) for code in cells) / len(values)


@pytest.mark.parametrize(("vocab_size", "filler"), [(4, 2), (6, 1), (6, 3), (8, 2)])
@pytest.mark.parametrize("states", [1, 2])
def test_no_code_beats_the_bound_with_what_filler_gives_away(
    vocab_size: int, filler: int, states: int
) -> None:
    load = Load(3 + filler, 1, vocab_size)
    best = best_code_given_filler(load, states)
    assert best <= most(np.log2(states), load) + 1e-9
    if states == 1:
        assert bounds.ceiling(0.0, load) == pytest.approx(best)
        assert bounds.ceiling(0.25, load) == pytest.approx(0.25 + 0.75 * best)


def test_more_bits_never_hurt_and_more_values_never_help() -> None:
    bits = np.linspace(0, 60, 200)
    bound = highest_accuracy(bits[:, None], num_kv_pairs=8, num_values=np.array([8, 9, 16, 64, 500]))
    assert (np.diff(bound, axis=0) >= -1e-9).all() and (np.diff(bound, axis=1) <= 1e-9).all()


@pytest.mark.parametrize("load", [Load(32, 4, 40), Load(128, 32, 256), Load(1024, 256, 8192)])
def test_bits_of_an_accuracy_are_the_inverse_of_the_bound(load: Load) -> None:
    scores = np.array([0.3, 0.5, 0.9, 0.99])
    reachable = scores[scores > most(0, load)]
    assert most(bounds.least_bits(reachable, load), load) == pytest.approx(reachable, abs=1e-6)
    assert bounds.least_bits(0.0, load) == 0


def test_too_many_pairs_for_the_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_kv_pairs \(=5\) must be at least 1 and at most"):
        highest_accuracy(1, num_kv_pairs=5, num_values=4)
    with pytest.raises(ValueError, match=r"task.vocab_size \(=8\) has 4 values, too few .* use at least 10"):
        most(1, Load(64, 5, 8))


def test_curves_are_means_over_slices() -> None:
    both, alone = ["seq_len=64,num_kv_pairs=4", "seq_len=256,num_kv_pairs=64"], np.array([1.0, 10.0, 1e5])
    drawn = bounds.curves(both, 8192, alone).pivot(index="state", columns="bound", values="accuracy")
    single = [most(32 * alone, Load(*of, 8192)) for of in ((64, 4), (256, 64))]
    assert drawn[BITS[32]].to_numpy() == pytest.approx(np.mean(single, axis=0))
    assert set(drawn) == set(bounds.LABELS)
    assert (drawn[BITS[32]] >= drawn[BITS[16]]).all() and (drawn[BITS[16]] >= drawn[BITS[1]]).all()
    assert (drawn[BITS[1]] >= drawn[bounds.HEURISTIC] - 1e-9).all()


@pytest.mark.parametrize(
    ("slices", "vocab_size"),
    [(["seq_len=64,num_kv_pairs=4"], None), (["seq_len=64,num_kv_pairs=4"], np.nan), (["seq_len=64"], 64)],
)
def test_a_task_of_unknown_size_has_no_bound(slices: list[str], vocab_size: float | None) -> None:
    assert bounds.curves(slices, vocab_size, [1, 10]).empty


def results() -> pd.DataFrame:
    """Return made-up results with a vocabulary; windows score at most their coverage."""
    return fake.table().assign(**{bounds.VOCAB_SIZE: 256})


def test_sound_results_violate_nothing() -> None:
    assert violations(results()).empty
    assert violations(fake.table().drop(columns=bounds.VOCAB_SIZE, errors="ignore")).empty


def one_row(table: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return a sound row of the test split with some columns changed."""
    sound = (table["split"] == "test") & (table["status"] == "ok") & table["causal"]
    return table.loc[sound].iloc[[0]].assign(**columns)


def test_a_score_above_what_its_bits_can_hold_is_a_violation() -> None:
    """32 bits for 16 values out of 128 are less than their 110."""
    at = {"slice": "seq_len=64,num_kv_pairs=16", "num_kv_pairs": 16, "state_resident": 1, "coverage": 1.0}
    above, fair = (one_row(results(), **at, accuracy=score) for score in (0.9, 0.3))
    wrong = violations(above)
    assert wrong["bound"].tolist() == [BITS[32]] and wrong["run_id"].tolist() == above["run_id"].tolist()
    assert violations(fair).empty
    assert violations(above.assign(state_aux_ints=8)).empty  # what the indices hold counts as well
    assert violations(above.assign(exact_decode=False)).empty  # its state is not all that it remembers
    assert violations(above.assign(split="valid")).empty
    assert violations(above.assign(accuracy=np.nan)).empty
    assert (
        f"{above['run_id'].iloc[0]} scores 0.900 on seq_len=64,num_kv_pairs=16" in bounds.in_words(wrong)[0]
    )


def test_a_score_above_its_coverage_is_a_violation_beyond_sampling_error() -> None:
    at = {"slice": "seq_len=64,num_kv_pairs=16", "coverage": 0.5}
    assert violations(one_row(results(), **at, accuracy=0.7))["bound"].tolist() == [bounds.COVERAGE]
    assert violations(one_row(results(), **at, accuracy=0.57)).empty  # 256 rows: within three of their errors
    assert len(violations(one_row(results(), **at, accuracy=0.57, rows=100_000)))
    assert len(violations(one_row(results(), **at, accuracy=1.0)))


def test_recall_is_counted_in_bits_of_each_scalar() -> None:
    table = recall(results())
    perfect = recall(one_row(results(), accuracy=1.0, slice="seq_len=32,num_kv_pairs=4", state_resident=100))
    assert perfect["recall_bits"].item() == pytest.approx(np.log2(128 * 127 * 126 * 125), abs=0.1)
    assert perfect["bits_per_scalar"].item() == pytest.approx(perfect["recall_bits"].item() / 100)
    assert table.loc[table["status"] == "diverged", "recall_bits"].isna().all()
    assert table.loc[table["status"] == "ok", "recall_bits"].ge(0).all()
    assert recall(results().drop(columns=bounds.VOCAB_SIZE))["bits_per_scalar"].isna().all()


FEATURES, VALUES, TOKENS = 64, 64, 4096
ELEMENTS = FEATURES * VALUES
CAPACITY = ELEMENTS / (2 * np.log(TOKENS))


def unit(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    drawn = rng.normal(size=(rows, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def simulated(pairs: int, rng: np.random.Generator, channels: int = FEATURES, tokens: int = TOKENS) -> float:
    keys, codes = unit(rng, pairs, channels), unit(rng, tokens, VALUES)
    values = rng.choice(tokens, pairs, replace=False)
    memory = keys.T @ codes[values]
    return float((((keys @ memory) @ codes.T).argmax(axis=1) == values).mean())


@pytest.mark.parametrize(
    ("load", "elsewhere"), [(0.25, 1.00), (0.5, 0.96), (0.75, 0.785), (1, 0.595), (1.5, 0.325), (2, 0.195)]
)
def test_the_curve_is_what_a_memory_of_random_features_recalls(load: float, elsewhere: float) -> None:
    rng = np.random.default_rng(0)
    pairs = round(load * CAPACITY)
    accuracy = np.mean([simulated(pairs, rng) for _ in range(4)])
    assert accuracy == pytest.approx(elsewhere, abs=0.04)
    assert recalled(ELEMENTS, num_kv_pairs=pairs, num_values=TOKENS) == pytest.approx(accuracy, abs=0.04)


@pytest.mark.parametrize(
    ("channels", "pairs", "tokens"), [(2, 4, 128), (4, 16, 20), (4, 16, 128), (16, 64, 128)]
)
def test_with_few_channels_the_other_codes_of_a_row_are_read(channels: int, pairs: int, tokens: int) -> None:
    """Codes of the row score like no random ones: taken as such, they cost up to .35 too little."""
    rng = np.random.default_rng(0)
    accuracy = np.mean([simulated(pairs, rng, channels, tokens) for _ in range(400)])
    here = recalled(64 * channels, num_kv_pairs=pairs, num_values=tokens)
    assert accuracy - 0.045 < here < accuracy + 0.01


def test_a_pair_takes_two_ln_m_elements() -> None:
    few, many = recalled([34 * 256, 8 * 256], num_kv_pairs=256, num_values=TOKENS)
    assert few > 0.95 and many < 0.25
