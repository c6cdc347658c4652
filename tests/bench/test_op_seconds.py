"""Which operations a step's time goes to."""

import torch

from zoo.bench.op_seconds import seconds_of_ops


def test_every_operation_is_there_those_of_the_backward_too():
    x = torch.ones(8, 8, requires_grad=True)
    seconds = seconds_of_ops(lambda: (x @ x).sigmoid().sum().backward(), "cpu", 1)
    assert {"mm", "sigmoid", "sum", "sigmoid_backward"} <= set(seconds)
    assert all(value >= 0 for value in seconds.values())
