"""Number formats value by value, their bits by hand, and one mixer decoded independently, in numpy."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.command import refusal
from tests.evaluation.test_state_bits_laws import model_of, tokens
from tests.registry import Case
from zoo.evaluation.coded_state import StateCoder, check_device
from zoo.model.codecs.codec import Codec, Form, hadamard
from zoo.model.codecs.formats import E2M1, E2M3, E4M3, E5M2, FORMATS
from zoo.model.codecs.grids import Floating, Grid


def ladder(exponents: range, steps: int, least: float) -> list[float]:
    """Return zero, the subnormal numbers and each binade of a floating-point format."""
    below = [i * least / steps for i in range(steps)]
    return below + [2.0**e * (1 + i / steps) for e in exponents for i in range(steps)]


VALUES = {
    **{f"int{bits}": list(range(2 ** (bits - 1))) for bits in (8, 6, 4, 3, 2)},
    "mxfp4": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "nvfp4": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "mxfp6": ladder(range(3), 8, 1.0),
    "fp8_e4m3": ladder(range(-6, 9), 8, 2.0**-6)[:-1],  # the last code is no number
    "mxfp8": ladder(range(-6, 9), 8, 2.0**-6)[:-1],
    "fp8_e5m2": ladder(range(-14, 16), 4, 2.0**-14),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_value_of_a_small_format(name: str) -> None:
    """A value stays, others go to the nearer, ties to the even code, larger ones to the largest."""
    grid, values = FORMATS[name].grid, np.array(VALUES[name], float)
    assert 2 ** FORMATS[name].bits - 2 * len(values) in (-1, 0, 1, 2, 8), "codes that no value uses"
    assert rounded(grid, values) == list(values) and rounded(grid, -values) == list(-values)
    low, high = values[:-1], values[1:]
    assert rounded(grid, low * 0.51 + high * 0.49) == list(low)
    assert rounded(grid, low * 0.49 + high * 0.51) == list(high)
    even = [values[i + i % 2] for i in range(len(low))]
    assert rounded(grid, (low + high) / 2) == even
    assert rounded(grid, np.array([values[-1] * 1.4])) == [values[-1]]


def rounded(grid: Grid, values: np.ndarray) -> list[float]:
    return grid.round(torch.tensor(values, dtype=torch.float32), None).tolist()


def test_the_formula_of_floating_point_is_torch_s_cast() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, generator=draw) * torch.logspace(-12, 5, 20_000)
    for name in ("bf16", "fp16", "fp8_e4m3", "fp8_e5m2"):
        grid = FORMATS[name].grid
        assert isinstance(grid, Floating) and grid.dtype is not None
        formula = Floating(grid.mantissa, grid.least, grid.most)
        assert torch.equal(formula.round(x, None), grid.round(x, None)), name


@pytest.mark.parametrize(
    "grid", [E2M1, E2M3, E4M3, E5M2, FORMATS["int4"].grid, FORMATS["sign"].grid], ids=str
)
def test_stochastic_rounding_goes_to_a_neighbour_and_keeps_the_mean(grid: Grid) -> None:
    draw = torch.Generator().manual_seed(1)
    for number in (0.3, -0.7, 0.95):
        x = torch.full((40_000,), number)
        rounded_to = grid.round(x, torch.rand(x.shape, generator=draw))
        assert len(rounded_to.unique()) == 2 and rounded_to.min() < number < rounded_to.max()
        assert rounded_to.mean().item() == pytest.approx(number, abs=0.02)


def test_bits_counted_by_hand() -> None:
    shape = (1, 2, 8, 64)  # 1024 scalars: 2 heads, 8 key channels, 64 value channels
    counted = {
        Form("bf16", "none"): 16 * 1024,
        Form("int4", "tensor"): 4 * 1024 + 16,
        Form("int4", "head"): 4 * 1024 + 16 * 2,
        Form("int4", "key"): 4 * 1024 + 16 * 2 * 8,
        Form("int4", "value"): 4 * 1024 + 16 * 2 * 64,
        Form("int4", "block", block=32): 4 * 1024 + 16 * 32,
        Form("int4", "key", zero_point=True): 4 * 1024 + (16 + 4) * 2 * 8,
        Form("sign", "tensor"): 1024 + 16,
        Form("mxfp6"): 6 * 1024 + 8 * 32,
        Form("nvfp4"): 4 * 1024 + 8 * 64 + 16,
    }
    assert {form: Codec(form).bits(shape) for form in counted} == counted
    again = Codec(Form("int3", "tensor", "feedback", residual="int4")).residual
    assert again is not None and again.bits(shape) == 4 * 1024 + 16


def test_a_coarser_scale_and_fewer_bits_are_further_away() -> None:
    """A rotation spreads an outlier, so that the other numbers lose less."""
    x = torch.randn(8, 2, 16, 32, generator=torch.Generator().manual_seed(2))
    x[:, :, 3, 5] *= 30

    def error(*given: object, **more: bool) -> float:
        return (Codec(Form(*given, **more)).code(x) - x)[:, :, :3].norm().item()  # pyright: ignore[reportArgumentType]

    assert error("int8", "key") < error("int4", "key") < error("int3", "key") < error("int4", "tensor")
    assert error("int4", "tensor", rotate=True) < 0.7 * error("int4", "tensor")
    assert error("mxfp6") < error("mxfp4") and error("nvfp4") < error("mxfp4")


@pytest.mark.parametrize("size", range(1, 34))
def test_the_rotation_undoes_itself(size: int) -> None:
    assert torch.allclose(hadamard(size) @ hadamard(size), torch.eye(size), atol=1e-6)


def test_the_rotation_is_of_the_key_axis() -> None:
    """A row of signs at one key spreads over 16 keys as plus and minus 1 / 4, which two bits represent."""
    x = torch.zeros(2, 1, 16, 32)
    x[:, :, 3] = torch.randint(2, (32,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    assert torch.equal(Codec(Form("int2", "tensor", rotate=True)).code(x), x)


def test_nearest_loses_small_writes_and_feedback_does_not() -> None:
    """The sum is of 400 writes of 1 / 100 of a step each, with the step set by a large entry."""
    sums = {}
    for rounding in ("nearest", "feedback"):
        codec, state, left = Codec(Form("int4", "tensor", rounding)), torch.tensor([[7.0, 0.0]]), 0.0
        for _ in range(400):
            exact = state + torch.tensor([[0.0, 0.01]]) + left
            state = codec.code(exact)
            left = codec.residual.code(exact - state) if codec.residual else 0.0
        sums[rounding] = state[0, 1].item()
    assert sums["nearest"] == 0 and sums["feedback"] == pytest.approx(4, abs=1)


def test_noise_and_threshold_predict_without_rounding() -> None:
    """Noise has the spread of stochastic rounding; a threshold drops moves of less than half a step."""
    draw = torch.Generator().manual_seed(4)
    grid = Codec(Form("int4", "key")).code(torch.randn(1, 1, 8, 8, generator=draw))
    moved = grid + torch.randn(grid.shape, generator=draw) * 0.05
    step = (moved.abs().amax(-1, keepdim=True) / 7).bfloat16().float()
    many, before = moved.expand(4000, -1, -1, -1).contiguous(), grid.expand(4000, -1, -1, -1)
    noisy = Codec(Form("int4", "key", "noise")).predicted(many, before, many, before, draw)
    share = ((moved - grid) / step).abs() % 1
    assert torch.allclose(noisy.mean(0), moved[0], atol=0.05)
    assert torch.allclose(noisy.std(0), ((share - share**2).sqrt() * step)[0], rtol=0.1)
    stays = (moved - grid).abs() < step / 2
    after = Codec(Form("int4", "key", "threshold")).predicted(moved, grid, moved, grid, None)
    assert 0.1 < stays.double().mean() < 1
    assert torch.equal(after[stays], grid[stays]) and torch.equal(after[~stays], moved[~stays])


REFUSED = [
    (lambda: Form("int5"), "format (='int5') must be one of fp32,"),
    (lambda: Form("int4", "row"), "scale (='row') must be one of"),
    (lambda: Form("int4", rounding="up"), "rounding (='up') must be one of"),
    (lambda: Form("int4", every=0), "every (=0) must be at least 1"),
    (lambda: Form("int4", every=2.5), "every (=2.5) must be a whole number."),  # type: ignore[arg-type]
    (lambda: Form("int4", zero_point="no"), "zero_point (='no') must be true or false."),  # type: ignore[arg-type]
    (lambda: Form("mxfp4", zero_point=True), "needs a format of whole numbers, not mxfp4"),
    (lambda: Form("mxfp4", rounding="noise"), "rounding (='noise') needs whole numbers, every token"),
    (lambda: Form("int4", "none"), "scale (='none') is for plain formats"),
    (lambda: Codec(Form("mxfp4")).code(torch.ones(1, 48)), "a block of mxfp4 (=32) must divide"),
    (lambda: Codec(Form("int4", "block", block=5)).bits((1, 16)), "a block of int4 (=5) must divide"),
    (lambda: StateCoder((Form("int4", rounding="noise"),), {}, 0), "keep no state"),  # nor the exact one
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_input_is_one_line(make, words: str) -> None:
    with refusal(words):
        make()


def test_a_format_that_the_device_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "zeros", Mock(side_effect=TypeError("no float8 here\nsecond line")))
    with pytest.raises(ValueError, match=r"^cpu has no fp8_e4m3 \(no float8 here\)\.$"):
        check_device([Form("fp8_e4m3", residual="int8")], torch.device("cpu"))


@pytest.mark.parametrize("rounding", ["nearest", "feedback"])
def test_linear_attention_decodes_as_in_numpy(rounding: str) -> None:
    """The format is 4 bits with a scale for each key channel; numpy repeats every operation."""
    model = model_of(Case("linear_attention")).double()
    try:
        coder = StateCoder((Form("int4", "key", rounding),), {}, 0)
        hidden, after = coder.extend(model, tokens(), None)
        weights = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    finally:
        model.float()
    for row in range(2):
        expected, sums, total = by_hand(weights, tokens()[row].tolist(), rounding == "feedback")
        state = after.state.layers[0].mixer
        assert np.array_equal(state.kv[row, 0].numpy(), sums)
        assert np.array_equal(state.z[row, 0].numpy(), total)
        np.testing.assert_allclose(hidden[row].numpy(), expected, rtol=1e-10)


def by_hand(
    weights: dict[str, np.ndarray], row: list[int], feedback: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the outputs of one row, its final memory and its final normaliser."""
    width, features = weights["embedding"].shape[1], 16
    memory, errors, outputs = np.zeros((features + 1, width)), np.zeros((features + 1, width)), []
    total = memory[-1, :features]  # the normaliser is one row more
    for token in row:
        x = weights["embedding"][token]
        heads = norm(x, weights, "blocks.0.norm") @ weights["blocks.0.mixer.proj.weight"].T
        q, k = (np.where(s > 0, s + 1, np.exp(s)) for s in (heads[:features], heads[features : 2 * features]))
        memory[:-1] += np.outer(k, heads[2 * features :])
        total += k
        y = (q @ memory[:-1]) / (q @ total + 1e-6)
        outputs.append(norm(x + y @ weights["blocks.0.mixer.out_proj.weight"].T, weights, "final_norm"))
        exact = memory + errors
        memory[:] = np.stack([four_bits(part) for part in exact])
        errors = eight_significant_bits(exact - memory) if feedback else errors
    return np.stack(outputs), memory[:-1], total


def norm(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def four_bits(part: np.ndarray) -> np.ndarray:
    """Round to seven steps each way, ties to even; the step is the largest entry / 7, itself rounded."""
    part = part.astype(np.float32)
    step = np.float32(eight_significant_bits(np.abs(part).max() / np.float32(7)))
    return np.clip(np.rint(part / step), -7, 7).astype(np.float64) * float(step)


def eight_significant_bits(x: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(np.asarray(x, np.float32))
    return np.ldexp(np.rint(mantissa * 256) / 256, exponent).astype(np.float64)
