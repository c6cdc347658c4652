"""Landmark attention: how many landmarks are kept; its definition: tests/definitions."""

from tests.mixers.golden import from_yaml


def test_a_landmark_keeps_a_key_and_no_value():
    size = from_yaml("landmark", 64, block_size=50, num_heads=8, top_k=3).state_size(1024)
    assert size.paper is None
    assert size.resident == 2 * 64 * 1024 + 64 * 20
    assert size.touched == 2 * 64 * (24 + 3 * 50) + 64 * 20
