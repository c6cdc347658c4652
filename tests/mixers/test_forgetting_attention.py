"""Forgetting attention's gates at the start; its definition: tests/definitions."""

from zoo.mixers import ForgettingAttention


def test_gates_start_where_they_are_told():
    assert ForgettingAttention(d_model=16, num_heads=4).gate.bias.eq(0).all()
    assert ForgettingAttention(d_model=16, num_heads=4, gate_bias=2.0).gate.bias.eq(2).all()
