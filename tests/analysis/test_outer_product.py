"""Sums of outer products that nothing has trained, and what was trained beside them."""

from pathlib import Path

import numpy as np
import pytest

from analysis.figures import outer_product
from analysis.statistics.outer_product import recalled, tight_frame
from tests.analysis import study
from tests.analysis.study import FakeStudy


@pytest.mark.parametrize(("keys", "width"), [(79, 20), (79, 64), (30, 6), (6, 6)])
def test_no_unit_vectors_are_farther_apart(keys: int, width: int) -> None:
    frame = tight_frame(keys, width, np.random.default_rng(0))
    assert np.linalg.norm(frame, axis=1) == pytest.approx(np.ones(keys))
    products = (frame @ frame.T)[~np.eye(keys, dtype=bool)]
    assert (products**2).mean() == pytest.approx((keys - width) / width / (keys - 1), rel=0.01, abs=1e-9)


def test_a_memory_with_a_channel_a_key_is_a_table_and_more_keys_take_from_it() -> None:
    shape = {"values": 80, "key_dim": 33, "value_dim": 6, "rng": np.random.default_rng(0)}
    table, few, many = (recalled([16, 32], keys=keys, **shape) for keys in (33, 50, 400))
    assert table == 1 > few > many + 0.1 > 0.3


def test_keys_without_a_sign_recall_as_much_only_where_they_are_sparse() -> None:
    shape = {"keys": 1023, "values": 80, "key_dim": 74, "value_dim": 64, "rows": 20}
    sparse, dense = (recalled([16, 64], **shape, ones=ones, rng=np.random.default_rng(0)) for ones in (4, 37))
    assert sparse > 0.99 > dense + 0.3


def test_each_memory_is_simulated_with_its_own_shape_and_its_tasks_tokens(tmp_path: Path) -> None:
    shapes = {(64, 6): 79, (20, None): 79, (6, 64): 79, (48, 6): 1023}
    records = [
        cell
        | {"task_settings": {"vocab_size": 160} if keys == 79 else {"vocab_size": 1104, "num_keys": keys}}
        for (key_dim, value_dim), keys in shapes.items()
        for cell in study.seeds(
            "lightning_attention", (0.7, 0.9), num_heads=1, head_dim=key_dim, value_dim=value_dim,
            activation="silu", slices=[(64, 16), (128, 32)],
        )
    ]  # fmt: skip
    picture = study.drawn("outer_product", tmp_path / "keys", records)
    rows = picture.rows.set_index("memory")
    assert rows["tokens"].tolist() == ["79 keys, 80 values"] * 3 + ["1,023 keys, 80 values"]
    assert rows["accuracy"].tolist() == pytest.approx([0.8] * 4)
    assert rows["simulated"].to_dict() == pytest.approx(
        {"64 x 6": 0.98, "20 x 20": 0.91, "6 x 64": 0.69, "48 x 6": 0.58}, abs=0.03
    )


@pytest.mark.parametrize(
    ("mixer", "task"), [("based", "zoo.tasks.mqar.MQAR"), ("lightning_attention", "zoo.tasks.copy.Copy")]
)
def test_other_mixers_and_tasks_are_not_compared(mixer: str, task: str) -> None:
    records = study.seeds(mixer, (0.5,), num_heads=1, head_dim=20)
    for record in records:
        record["task_settings"] |= {"_target_": task}
    with pytest.raises(ValueError, match=r"num_heads=1, on mqar or mqar_keys: sweep=atlas_keys"):
        FakeStudy(study.table(records)).drawn(outer_product)
