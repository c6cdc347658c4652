"""A decoder behind the blocks: many answers from one vector."""

import math

import torch

from tests.registry import compose
from zoo.blocks.decoder import sinusoids
from zoo.model import build_model
from zoo.model.instantiate import build_task
from zoo.training.loss import answers_loss

SMALL = ["task=mad_compression", "mixer=sliding_window", "d_model=16"]


def test_answers_of_one_position_differ_by_their_place_alone():
    cell = compose(SMALL)
    model, task = build_model(cell).double(), build_task(cell.config)
    batch = task.sample("train", 0, range(3))
    found = model(batch.inputs, batch.positions)
    vector = model.blocks[0].norm  # a norm of the model's kind
    assert model.decoder is not None and type(model.decoder.layers[0]) is type(vector)
    assert found.shape == (3, 32, 16) and not found[:, 0].allclose(found[:, 1])

    last = {"hidden": torch.empty(0)}
    handle = model.decoder.register_forward_pre_hook(lambda _, args: last.update(hidden=args[0]))
    model(batch.inputs, batch.positions)
    handle.remove()
    hidden = last["hidden"]
    assert hidden.equal(hidden[:, :1].expand_as(hidden)), "the decoder has no more than the last vector"

    _, first, _, _, second, _ = model.decoder.layers
    norm = lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()  # noqa: E731
    gelu = torch.nn.functional.gelu
    places = torch.tensor(
        [[f(i / 10_000 ** (k / 7)) for f in (math.sin, math.cos) for k in range(8)] for i in range(32)]
    )
    x = gelu(norm(hidden + places.double()) @ first.weight.T + first.bias)
    x = gelu(norm(x) @ second.weight.T + second.bias)
    assert model.final_norm(x).allclose(found, atol=1e-5)


def test_every_part_of_it_learns_and_other_models_have_none():
    model = build_model(compose(SMALL))
    assert model.decoder is not None
    answers_loss(model, build_task(compose(SMALL).config).sample("train", 0, range(3))).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.decoder.parameters())
    assert build_model(compose([*SMALL[1:], "task=mqar"])).decoder is None


def test_sinusoids_of_an_odd_width_are_cut():
    assert sinusoids(4, 5, torch.device("cpu")).equal(sinusoids(4, 6, torch.device("cpu"))[:, :5])
