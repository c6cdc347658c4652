"""The non-dominated set, on points small enough to see the answer."""

import pandas as pd
import pytest

from analysis.statistics.frontier import frontier


def points(*pairs: tuple[float, float], **columns: object) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["state_resident", "accuracy"])
    return frame.assign(**({"causal": True, "exact_decode": True, "diverged": 0, "seeds": 3} | columns))


@pytest.mark.parametrize(
    ("pairs", "on"),
    [
        ([(1, 0.1), (2, 0.5), (4, 0.9)], [True, True, True]),
        ([(1, 0.5), (2, 0.4), (4, 0.9)], [True, False, True]),
        ([(4, 0.9), (2, 0.4), (1, 0.5)], [True, False, True]),
        ([(1, 0.3), (1, 0.5)], [False, True]),  # equal state: the better
        ([(1, 0.5), (2, 0.5)], [True, False]),  # equal accuracy: the smaller
        ([(1, 0.5), (1, 0.5), (2, 0.2)], [True, True, False]),  # equal in both: together
        ([(3, 0.7)], [True]),
        ([], []),
    ],
)
def test_keeps_what_nothing_beats(pairs: list[tuple[float, float]], on: list[bool]) -> None:
    assert frontier(points(*pairs)).tolist() == on


@pytest.mark.parametrize(
    "apart", [{"causal": [False, True]}, {"exact_decode": [False, True]}, {"diverged": [3, 0]}]
)
def test_what_takes_no_part_neither_stands_on_it_nor_beats_others(apart: dict[str, object]) -> None:
    assert frontier(points((1, 0.9), (2, 0.5), **apart)).tolist() == [False, True]


def test_a_point_without_this_count_of_state_takes_no_part() -> None:
    frame = points((1, 0.9), (2, 0.5)).assign(state_paper=[float("nan"), 7.0])
    assert frontier(frame, "state_paper").tolist() == [False, True]


def test_the_index_of_the_points_is_kept() -> None:
    frame = points((2, 0.4), (1, 0.5)).set_axis([7, 3])
    assert frontier(frame)[3] and not frontier(frame)[7]
