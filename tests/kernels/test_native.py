"""C that the machine's compiler makes a library of: the same values, and every way in which there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from tests.kernels.test_selective_scan import SHAPES, draw
from zoo.kernels.choice import kernels
from zoo.kernels.native import Missing, folder, library
from zoo.kernels.selective_scan import (
    native,
    selective_scan,
    selective_scan_fused_loop,
    selective_scan_native,
    selective_scan_reference,
)

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    forget()
    yield
    forget()


def forget() -> None:
    native._library.cache_clear()
    native.absent.cache_clear()


def loss(y: Tensor, h: Tensor) -> Tensor:
    """Of the same weights in any precision."""
    return sum((s.sin() * torch.linspace(-1, 1, s.numel(), dtype=s.dtype).view_as(s)).sum() for s in (y, h))


def single(inputs: list[Tensor]) -> list[Tensor]:
    return [s.detach().float().requires_grad_() for s in inputs]


def ran() -> str:
    """The form that a scan of several tokens takes."""
    with kernels("auto") as choice:
        selective_scan(*single(draw(2, 5, 3, 4)))
    return choice.record()["selective_scan"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 40, 37, 5)])
def test_agrees_with_the_reference_in_double(shape: tuple[int, ...], threads: int):
    inputs, before = draw(*shape), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = selective_scan_native(*(few := single(inputs)))
        own = torch.autograd.grad(loss(*fast), few)
    finally:
        torch.set_num_threads(before)
    slow = selective_scan_reference(*inputs)
    gradients = torch.autograd.grad(loss(*slow), inputs)
    for got, right in zip((*fast, *own), (*slow, *gradients), strict=True):
        scale = float(right.detach().abs().max())
        torch.testing.assert_close(got.double(), right, rtol=0, atol=1e-5 * max(scale, 1.0))


def test_members_of_a_population_have_rates_of_their_own():
    members = [single(draw(2, 20, 3, 4)) for _ in range(3)]
    stacks = [torch.stack(parts).detach().requires_grad_() for parts in zip(*members, strict=True)]
    together = vmap(selective_scan_native)(*stacks)
    alone = [torch.stack(parts) for parts in zip(*(selective_scan_native(*m) for m in members), strict=True)]
    torch.testing.assert_close(together, tuple(alone))
    of_members = [torch.autograd.grad(loss(*selective_scan_native(*m)), m) for m in members]
    gradients = torch.autograd.grad(sum(loss(*(part[p] for part in together)) for p in range(3)), stacks)
    right = tuple(torch.stack(parts) for parts in zip(*of_members, strict=True))
    torch.testing.assert_close(gradients, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("exponent", "kept"), [(-1e4, 0.0), (-80.0, 0.0), (0.0, 1.0), (1e4, torch.inf)])
def test_a_decay_of_any_size(exponent: float, kept: float):
    one, nothing = torch.ones(1, 2, 3), torch.zeros(1, 2, 2)
    _, last = selective_scan_native(
        0 * one, one, torch.full((3, 2), exponent), nothing, nothing, torch.ones(1, 3, 2)
    )
    assert (last == kept).all()


def test_what_is_no_number_stays_so():
    x, *others = single(draw(2, 20, 3, 4))
    with torch.no_grad():
        x[0, 7, 1] = torch.nan
    y, last = selective_scan_native(x, *others)
    assert y[0, 7:, 1].isnan().all() and last[0, 1].isnan().all()
    assert not y[0, :7].isnan().any() and not y[0, :, 0].isnan().any() and not y[1].isnan().any()


def test_is_taken_on_a_cpu_in_single_precision_and_the_record_says_so():
    assert ran() == "native"
    inputs = draw(2, 5, 3, 4)
    assert "float32" in str(native.unfit(*inputs))
    assert "meta" in str(native.unfit(*(s.to("meta") for s in inputs)))


def test_the_check_of_a_process_is_not_that_of_its_caller():
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert native.absent() is None


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("there-is-none", "no C compiler: there-is-none is not installed"),
        ("false", "false cannot compile it"),
    ],
)
def test_without_a_compiler_torch_does_it(compiler: str, why: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CC", compiler)
    assert str(native.absent()).startswith(why)
    assert ran() == "fused_loop"


def test_what_does_not_compile_says_where(tmp_path: Path):
    source = tmp_path / "scan.c"
    source.write_text("int f(void) { return x; }")
    with pytest.raises(Missing, match=r"cannot compile it: .*scan\.c:1.* error: .*x"):
        library(source)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("u[d] * b", "u[d] + b"), ("p = p * f + 1.0f;", "p = p * f + 1.1f;"), ("dA[i] += own[i]", "dA[i] += 0")],
)
def test_a_library_that_computes_something_else_is_not_taken(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = native.SOURCE.read_text()
    assert right in text
    (tmp_path / "native.c").write_text(text.replace(right, wrong))
    monkeypatch.setattr(native, "SOURCE", tmp_path / "native.c")
    assert "off the form in torch" in str(native.absent())
    assert ran() == "fused_loop"


def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    assert native.absent() is None
    (made,) = folder().iterdir()
    written = made.stat().st_mtime_ns
    forget()
    assert native.absent() is None and made.stat().st_mtime_ns == written
    assert list(folder().iterdir()) == [made]


def test_a_home_that_cannot_be_written_and_a_torn_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert native.absent() is None
    (made,) = folder().iterdir()
    made.unlink()
    made.write_bytes(b"half of one")
    forget()
    assert native.absent() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    forget()
    assert native.absent() is None


def test_the_loop_in_torch_is_what_it_is_compared_with():
    inputs = single(draw(3, 40, 8, 4))
    torch.testing.assert_close(
        selective_scan_native(*inputs), selective_scan_fused_loop(*inputs), rtol=1e-5, atol=1e-5
    )
