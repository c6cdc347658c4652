"""Run by test_interpreted.py: the decoding step in Triton's interpreter, in float32, against float64."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.window_decode import triton, window_decode, window_decode_reference
from zoo.kernels.window_decode.triton import window_decode_triton
from zoo.mixers.positions import alibi_slopes

CASES = [  # B, H, G, tokens kept, C, window
    (1, 1, 1, 0, 4, 1),
    (2, 2, 1, 0, 4, 5),
    (2, 4, 2, 6, 5, 7),
    (1, 2, 2, 299, 16, 300),
    (2, 6, 1, 19, 24, 30),
    (1, 16, 2, 129, 33, 130),
]


def draw(batch: int, heads: int, groups: int, num_kept: int, channels: int) -> list[Tensor]:
    """q, k, v and what is kept as a mixer has them: heads side by side in memory."""
    rng = torch.Generator().manual_seed(num_kept)
    q = torch.randn(batch, 1, heads, channels, generator=rng)
    whole = torch.randn(2, batch, num_kept + 1, groups, channels, generator=rng)
    kept, (k, v) = whole[:, :, :-1], whole[:, :, -1:]
    return [x.transpose(1, 2).detach().requires_grad_() for x in (q, k, v, *kept)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients(case: tuple, biased: bool):
    """Of the token's answer and of what is kept after it."""
    *sizes, window = case
    slopes = alibi_slopes(sizes[1]).requires_grad_() if biased else None
    as_near_as_torch(window_decode_triton, window_decode_reference, [*draw(*sizes), window, slopes])


@pytest.mark.parametrize("window", [1, 2, 5])
def test_the_first_token_of_all(window: int):
    q, k, v, *_ = draw(2, 6, 2, 0, 4)
    as_near_as_torch(window_decode_triton, window_decode_reference, [q, k, v, None, None, window])


def test_logits_far_from_zero():
    """Beside a running maximum that is wrong, they would overflow or vanish."""
    q, *others = draw(1, 1, 1, 399, 8)
    as_near_as_torch(window_decode_triton, window_decode_reference, [q.detach() * 200, *others, 400])


@torch.no_grad()
@pytest.mark.parametrize("groups", [1, 8])
def test_what_is_kept_is_copied_and_what_was_given_stays(groups: int):
    """To the bit, from a view that is no whole tensor; a head that several programs read is written once."""
    q, k, v, kept_k, kept_v = draw(2, 8, groups, 40, 6)
    for num_kept in (0, 7, 38, 39):
        given = [x[:, :, 1 : num_kept + 1] for x in (kept_k, kept_v)]
        before = [x.clone() for x in given]
        _, next_k, next_v = window_decode_triton(q, k, v, *given, 40)
        for found, old, new, unchanged in zip((next_k, next_v), before, (k, v), given, strict=True):
            assert torch.equal(found, torch.cat([old, new], 2)[:, :, -39:]) and torch.equal(old, unchanged)
            assert found.untyped_storage().data_ptr() != unchanged.untyped_storage().data_ptr()


@torch.no_grad()
def test_of_the_programs_that_share_a_head_one_writes(monkeypatch: pytest.MonkeyPatch):
    """Eight query heads a key/value head: two programs for each, of which the second has no row to write."""
    rows, store = [], triton.store_rows

    def noted(at: Any, stride: Any, to: Any, length: Any, *others: Any) -> None:
        rows.append(int(length.handle.data.item()))
        store(at, stride, to, length, *others)

    monkeypatch.setattr(triton, "store_rows", noted)
    window_decode_triton(*draw(1, 16, 2, 5, 16), 6)
    assert rows == [4, 4, 0, 0] * 2, "keys and values"


@pytest.mark.parametrize("dim_of_slopes", [None, 0])
@pytest.mark.parametrize(("num_kept", "window"), [(4, 5), (2, 5), (0, 1)])
def test_stacked_members_are_more_of_the_batch(num_kept: int, window: int, dim_of_slopes: int | None):
    inputs = [*draw(2, 2, 1, num_kept, 4), window, alibi_slopes(2)]
    members_as_alone(window_decode_triton, inputs, (0, 0, 0, 0, 0, None, dim_of_slopes))


def test_stacked_members_without_slopes():
    inputs = [*draw(2, 2, 1, 4, 4), 5, None]
    members_as_alone(window_decode_triton, inputs, (0, None, 2, 1, None, None, None))


def test_gradients_inside_vmap():
    gradients_inside_vmap(window_decode_triton, [*draw(1, 2, 1, 4, 4), 5])


@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_a_sliding_window_decodes_with_it(position: str):
    """A sequence at once in torch, then token by token, from none and from one shorter than the window."""
    from zoo.mixers import SlidingWindow

    mixer = SlidingWindow(d_model=16, num_heads=4, window=6, num_kv_heads=2, position=position)
    x = torch.randn(2, 12, 16)
    with torch.no_grad(), kernels("triton") as choice:
        for prompt in (0, 3):
            y, state = mixer.extend(x[:, :prompt]) if prompt else (x[:, :0], None)
            parts = [y]
            for t in range(prompt, 12):
                y, state = mixer.extend(x[:, t : t + 1], state)
                parts.append(y)
            torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=1e-4, atol=1e-5)
    assert choice.record() == {"attention": "sdpa", "window_decode": "triton"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"q": torch.zeros(1, 2, 3, 4), "k": torch.zeros(1, 2, 3, 4)},
            "one token at a time, and there are 3",
        ),
        ({"q": torch.zeros(1, 2, 1, 4).double()}, "float64"),
        ({"kept_v": torch.zeros(1, 2, 3, 4).bfloat16()}, "float32, torch.float32, torch.bfloat16"),
        ({"q": torch.zeros(1, 2, 1, 5)}, "same number of channels"),
        ({"q": torch.zeros(1, 3, 1, 4)}, r"num_heads \(=3\) must be a multiple"),
        ({"kept_k": torch.zeros(1, 1, 3, 4)}, "the same shape"),
        ({"kept_v": None}, "kept_k and kept_v come together"),
        ({"window": 3}, r"window - 1 \(=2\) tokens are kept, and there are 3"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(change: dict, says: str):
    q, k, v, kept_k, kept_v = (x.detach() for x in draw(1, 2, 2, 3, 4))
    inputs = {"q": q, "k": k, "v": v, "kept_k": kept_k, "kept_v": kept_v, "window": 4} | change
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run window_decode: .*{says}"):
        window_decode(**inputs)


def test_a_head_that_is_too_wide_is_refused():
    x = torch.zeros(1, 1, 1, 300)
    with kernels("triton"), pytest.raises(ValueError, match=r"head_dim \(=300\) must be at most 256"):
        window_decode(x, x, x, None, None, 4)
