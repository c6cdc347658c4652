"""The learning rate is chosen on validation, by the mean over seeds, and says when it stands on the edge."""

import pandas as pd
import pytest

from analysis.statistics.learning_rate import choose, good_range, profile

NAN = float("nan")


def table(*cells: tuple[float, list[float | None]], test: float = 0.5) -> pd.DataFrame:
    """One point.  cells: (lr, validation accuracy of each seed; None diverged); test says nothing."""
    rows = []
    for lr, scores in cells:
        for seed, score in enumerate(scores):
            cell = {
                "run_id": f"{lr}-{seed}", "point": "p", "lr": lr, "seed": seed, "coverage": 1.0,
                "status": "diverged" if score is None else "ok",
            }  # fmt: skip
            accuracy = NAN if score is None else score
            rows.append(cell | {"split": "valid", "slice": "seq_len=8", "accuracy": accuracy})
            rows.append(
                cell | {"split": "test", "slice": "seq_len=8", "accuracy": NAN if score is None else test}
            )
    return pd.DataFrame(rows)


def test_the_best_mean_over_seeds_wins_not_the_best_seed() -> None:
    best = choose(table((1e-3, [0.5, 0.5]), (3e-3, [0.9, 0.9]), (1e-2, [1.0, 0.1]))).iloc[0]
    assert (best["lr"], best["lr_edge"], best["lrs"]) == (3e-3, "", 3)
    assert best["valid_accuracy"] == pytest.approx(0.9)


def test_the_test_split_has_no_say() -> None:
    cells = table((1e-3, [0.5]), (3e-3, [0.9]), (1e-2, [0.6]))
    cells.loc[(cells["split"] == "test") & (cells["lr"] == 1e-2), "accuracy"] = 1.0
    assert choose(cells)["lr"].item() == 3e-3


def test_a_learning_rate_that_diverges_on_a_seed_is_not_favoured() -> None:
    best = choose(table((1e-3, [0.7, 0.7]), (3e-3, [0.8, 0.8]), (1e-2, [1.0, None]))).iloc[0]
    assert (best["lr"], best["diverged_in_grid"]) == (3e-3, 1)


@pytest.mark.parametrize(("scores", "edge"), [([0.9, 0.5, 0.1], "low"), ([0.1, 0.5, 0.9], "high")])
def test_the_edge_of_the_grid_is_flagged(scores: list[float], edge: str) -> None:
    best = choose(table(*[(lr, [s]) for lr, s in zip((1e-3, 3e-3, 1e-2), scores, strict=True)])).iloc[0]
    assert (best["lr_edge"], best["lr_on_edge"], best["single_lr"]) == (edge, True, False)


def test_one_learning_rate_is_no_edge_but_no_choice_either() -> None:
    best = choose(table((3e-3, [0.9]))).iloc[0]
    assert (best["lr_on_edge"], best["single_lr"]) == (False, True)


def test_a_plateau_that_touches_the_edge_raises_no_flag() -> None:
    best = choose(table((1e-3, [1.0]), (3e-3, [1.0]), (1e-2, [0.2]))).iloc[0]
    assert (best["lr"], best["lr_edge"]) == (3e-3, "")


def test_fewer_seeds_do_not_win_by_luck_yet_belong_to_the_grid() -> None:
    best = choose(table((1e-3, [0.8, 0.8]), (3e-3, [0.7, 0.7]), (1e-2, [0.9]))).iloc[0]
    assert (best["lr"], best["lr_edge"], best["lrs"]) == (1e-3, "low", 3)


def test_no_choice_depends_on_the_order_of_the_rows() -> None:
    cells = table((1e-3, [0.5, 0.4]), (3e-3, [0.9, None]), (1e-2, [0.6, 0.7]))
    pd.testing.assert_frame_equal(choose(cells), choose(cells.sample(frac=1, random_state=1)))
    assert profile(cells)["valid_accuracy"].tolist() == pytest.approx([0.45, 0.45, 0.65])


def test_without_validation_there_is_no_choice() -> None:
    cells = table((3e-3, [0.9]))
    with pytest.raises(ValueError, match="no validation split"):
        choose(cells[cells["split"] == "test"])


def width(*cells: tuple[float, list[float | None]]) -> dict:
    return good_range(table(*cells)).iloc[0].to_dict()


def test_the_good_range_is_the_neighbours_that_come_close() -> None:
    """Good from 1e-3 to 1e-2, so one decade wide at least, three at most."""
    found = width((1e-4, [0.2]), (1e-3, [0.86]), (1e-2, [0.9]), (1e-1, [0.84]), (1.0, [0.9]))
    assert (found["good_low"], found["good_high"]) == (1e-3, 1e-2)
    assert found["decades"] == pytest.approx(1) and found["decades_most"] == pytest.approx(3)
    assert not found["open_low"] and not found["open_high"]


def test_a_good_range_that_touches_the_edge_is_open() -> None:
    found = width((1e-3, [0.9]), (1e-2, [0.88]), (1e-1, [0.1]))
    assert found["open_low"] and not found["open_high"]
    assert found["decades"] == pytest.approx(1) and found["decades_most"] == float("inf")


def test_a_single_rate_says_nothing_about_the_width() -> None:
    found = width((1e-2, [0.9]))
    assert found["decades"] == 0 and found["decades_most"] == float("inf")
    assert found["open_low"] and found["open_high"]


def test_a_rate_that_lacks_seeds_is_not_good() -> None:
    found = width((1e-3, [0.9, 0.9]), (1e-2, [0.9]))
    assert found["good_high"] == 1e-3 and not found["open_high"]
