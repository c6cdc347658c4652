"""Forms in C, compiled on this machine: the same values, and every way in which there is no library."""

import ctypes
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tests.command import ROOT, written
from tests.kernels.agreement import members_as_alone, results, upstreams_of
from tests.kernels.cases import SCANS, delta_rule, dplr_delta_rule, single
from tests.kernels.cases import gated_linear_attention as gated_attention
from tests.kernels.cases import gated_slot_attention as slot_attention
from tests.kernels.cases import selective_scan as scanned
from zoo.kernels import delta_rule as delta
from zoo.kernels import dplr_delta_rule as dplr
from zoo.kernels import gated_linear_attention as gla
from zoo.kernels import gated_slot_attention as slots
from zoo.kernels import selective_scan as scan
from zoo.kernels import short_conv as conv
from zoo.kernels.choice import kernels
from zoo.kernels.common.native import FLAGS, Missing, Native, _warn, folder, library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
OPS = {"scan": scan, "conv": conv, "gla": gla, "delta": delta, "dplr": dplr, "slots": slots}
LIBRARIES = SCAN, CONV, GLA, DELTA, DPLR, SLOTS = [op.native.NATIVE for op in OPS.values()]
NATIVES = pytest.mark.parametrize("native", LIBRARIES, ids=OPS)


def gated(length: int, per: str, strongest: float = 1.0) -> list[Tensor]:
    return gated_attention(length, per, strongest, True)


def slotted(length: int, strongest: float) -> list[Tensor]:
    """q, k, v, write, log_decay, and the slots' keys and values."""
    *inputs, state = slot_attention(length, strongest, True)
    return [*inputs, *state]


def convolved(B: int, T: int, C: int, K: int) -> list[Tensor]:
    """x, weight, bias, tail."""
    shapes = (B, T, C), (K, C), (C,), (B, K - 1, C)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def wider(inputs: list[Tensor], width: int) -> list[Tensor]:
    """Return the same with this many value channels, each another multiple of one of those given."""
    q, k, v, *others, S = inputs
    v, S = (x.repeat(1, 1, 1, width)[..., :width] * torch.linspace(0.5, 1, width) for x in (v, S))
    return [q, k, v.detach().requires_grad_(), *others, S.detach().requires_grad_()]


DECAYS = [(per, strongest) for per in ("head", "channel") for strongest in (1.0, 80.0)]
CASES = [
    *((gla, gated(length, *decays)) for length in (1, 16, 37) for decays in DECAYS),
    (gla, gated(20, "head")[:4]),
    (gla, [s.mT.contiguous().mT for s in gated(20, "channel")]),  # as other views lie
    *((delta, delta_rule(*case)) for case in ((1, True, True), (37, True, True), (20, False, False))),
    *((delta, delta_rule(19, True, True, writes, 80.0)) for writes in (2, 3)),
    *((dplr, dplr_delta_rule(*case)) for case in ((1, 1.0, True), (37, 80.0, True), (20, 1.0, False))),
    *(
        (op, wider(inputs, width))
        for width in (16, 32, 64)  # which have code of their own
        for op, inputs in (
            (delta, delta_rule(20, True, True, 2)),
            (dplr, dplr_delta_rule(20, 1.0, True)),
            (gla, gated(20, "head")),
        )
    ),
    *((slots, slotted(*case)) for case in ((16, 1.0), (37, 80.0))),
    (slots, slotted(20, 1.0)[:5]),
    *((scan, scanned(*s)) for s in (*SCANS, (3, 40, 37, 5))),
    *((conv, convolved(*s)) for s in ((3, 11, 21, 4), (2, 2, 5, 6), (2, 1, 4, 1))),
    *((conv, convolved(2, 7, 5, 3)[:given]) for given in (3, 2)),
]
EACH = pytest.mark.parametrize(
    ("op", "draw"),
    [
        (scan, lambda: scanned(2, 20, 3, 4)),
        (conv, lambda: convolved(2, 9, 5, 4)),
        (gla, lambda: gated(20, "head")),
        (delta, lambda: delta_rule(20, True, True, 2)),
        (dplr, lambda: dplr_delta_rule(20, 1.0, True)),
        (slots, lambda: slotted(20, 1.0)),
    ],
)


def forms(op: ModuleType) -> tuple[Callable, Callable]:
    """Return the op's form in C and its definition."""
    both = op.OP.forms["native"], op.OP.forms["reference"]
    if op is not slots:
        return both
    return tuple(lambda *x, f=f: tree_leaves(f(*x[:5], x[5:] or None)) for f in both)  # states are pairs


@pytest.fixture(autouse=True, scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile each library once for all tests, but for those that use private_home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("native")))
        patch.delenv("CC", raising=False)
        forget()
        yield
    forget()


@pytest.fixture
def private_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Give the test an empty cache of libraries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    yield
    forget()


def forget() -> None:
    for native in LIBRARIES:
        native.library.cache_clear()
        native.absent.cache_clear()


def ran() -> str:
    """Return the forms that recurrences, a scan of several tokens and a convolution take."""
    with kernels("auto") as choice:
        delta.delta_rule(*single(delta_rule(5, True, True)))
        dplr.dplr_delta_rule(*single(dplr_delta_rule(5, 1.0, True)))
        gla.gated_linear_attention(*single(gated(5, "head")))
        slots.gated_slot_attention(*single(slotted(5, 1.0)[:5]))
        scan.selective_scan(*single(scanned(2, 5, 3, 4)))
        conv.short_conv(*single(convolved(2, 5, 3, 4)))
    return " ".join(form.partition(" (")[0] for form in choice.record().values())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("op", "inputs"), CASES)
def test_agrees_with_the_definition_in_double(op: ModuleType, inputs: list[Tensor], threads: int):
    native_form, definition = forms(op)
    upstreams = upstreams_of(definition, inputs)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        actual = results(native_form, single(inputs), upstreams)
    finally:
        torch.set_num_threads(before)
    for got, exact in zip(actual, results(definition, inputs, upstreams), strict=True):
        scale = max(float(exact.abs().max()), 1.0) if exact.numel() else 1.0
        torch.testing.assert_close(got.double(), exact, rtol=0, atol=1e-5 * scale)


@EACH
def test_stacked_members_are_as_each_alone(op: ModuleType, draw: Callable[[], list[Tensor]]):
    inputs = single(draw())
    members_as_alone(forms(op)[0], inputs, (0,) * len(inputs))


@pytest.mark.parametrize(("exponent", "expected"), [(-1e4, 0.0), (-100.0, 0.0), (0.0, 1.0), (1e4, torch.inf)])
def test_decays_of_any_size_are_exact(exponent: float, expected: float):
    one, nothing, A = torch.ones(1, 2, 3), torch.zeros(1, 2, 2), torch.full((3, 2), exponent)
    _, last = scan.OP.forms["native"](0 * one, one, A, nothing, nothing, torch.ones(1, 3, 2))
    assert (last == expected).all()


@pytest.mark.parametrize("per", ["head", "channel"])
def test_a_head_that_forgets_everything(per: str):
    *inputs, log_decay, _ = single(gated(20, per))
    gone = torch.full_like(log_decay, -torch.inf).requires_grad_()
    got = gla.OP.forms["native"](*inputs, gone)
    torch.testing.assert_close(got[0], (inputs[0] * inputs[1]).sum(-1, keepdim=True) * inputs[2])
    gradients = torch.autograd.grad(got[0].sin().sum() + got[1].sin().sum(), [*inputs, gone])
    assert all(g.isfinite().all() for g in gradients)


def test_a_nan_stays_where_it_belongs():
    x, *others = single(scanned(2, 20, 3, 4))
    with torch.no_grad():
        x[0, 7, 1] = torch.nan
    y, last = scan.OP.forms["native"](x, *others)
    assert y[0, 7:, 1].isnan().all() and last[0, 1].isnan().all()
    assert not y[0, :7].isnan().any() and not y[0, :, 0].isnan().any() and not y[1].isnan().any()


def test_it_runs_on_a_cpu_in_single_precision_and_is_recorded():
    assert ran() == " ".join(["native"] * len(OPS))
    for unfit, inputs in (
        (scan.native.unfit, scanned(2, 5, 3, 4)),
        (conv.native.unfit, convolved(2, 5, 3, 4)),
    ):
        assert "float32" in str(unfit(*inputs))
        assert "meta" in str(unfit(*(s.to("meta") for s in single(inputs))))
    halves = [s.bfloat16() for s in convolved(2, 5, 3, 4)]
    assert "float32" in str(conv.native.unfit(*halves))


@NATIVES
def test_the_check_of_a_process_is_not_that_of_its_caller(native: Native):
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert native.absent() is None


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("there-is-none", "no C compiler: there-is-none is not installed"),
        ("false", "false cannot compile it"),
        (" ", "CC (=' ') names no compiler"),
        ('gcc -DX="', "CC (='gcc -DX=\"') is no command: No closing quotation"),
        ("true", "true wrote no library"),
        ("SCRIPT: printf '\\033[2J\\377'; printf rubbish > $last", "cannot be loaded: "),
        ("SCRIPT: echo 'int nothing;' | cc -x c -shared -fPIC - -o $last", "has no function scan_forward"),
    ],
)
def test_without_a_library_torch_runs_and_the_record_has_the_reason(
    compiler: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    if compiler.startswith("SCRIPT:"):
        (script := tmp_path / "cc.sh").write_text(
            f"#!/bin/sh\n[ $1 = --version ] && exit\nfor last; do :; done\n{compiler[7:]}\n"
        )
        script.chmod(0o700)
        compiler = str(script)
    monkeypatch.setenv("CC", compiler)
    assert why in str(SCAN.absent())
    assert ran() == "chunked chunked chunked chunked fused_loop shifted"
    with kernels("auto") as choice:
        scan.selective_scan(*single(scanned(2, 5, 3, 4)))
    assert choice.record() == {"selective_scan": f"fused_loop (no native: {SCAN.absent()})"}


def test_a_failed_compilation_names_the_line(tmp_path: Path):
    source = tmp_path / "an error" / "scan.c"  # a path that says so is no message
    source.parent.mkdir()
    source.write_text("int f(void) { return x; }")
    with pytest.raises(Missing, match=r"cannot compile it: .*scan\.c:1.* error: .*x"):
        library(source)


@pytest.mark.parametrize(
    ("native", "right", "wrong"),
    [
        (SCAN, "u[d] * b", "u[d] + b"),
        (SCAN, "power_of_two(rate[d] * a[d])", "power_of_two(rate[d] * a[0])"),
        (SCAN, "dA[i] += own[i]", "dA[i] += 0"),
        (GLA, "to_decay += left * past[d]", "to_decay += left * s[d]"),
        (GLA, "y_[d] += query * s[d]", "y_[d] += key * s[d]"),
        (DELTA, "decay * p[d] + step", "p[d] + step"),
        (DELTA, "read[d] = decay * to_error[d]", "read[d] = to_error[d]"),
        (DELTA, "(t + 1) % n == 0", "t % n == 0"),
        (DPLR, "erased * u[d]", "key * u[d]"),
        (DPLR, "to_a += p[d] * du[d]", "to_a += g[d] * du[d]"),
        (SLOTS, "sum += q_[d] * s[d]", "sum += k_[d] * s[d]"),
        (SLOTS, "dk_[d] += here * share", "dk_[d] += here * decay"),
        (CONV, "at_most(K - 1, t + lead)", "at_most(K - 2, t + lead)"),
        (CONV, "dbias[c] += own_bias[c]", "dbias[c] += 0"),
    ],
)
def test_a_library_that_computes_something_else_is_not_taken(
    native: Native, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = native.source.read_text()
    assert right in text
    written(tmp_path / "common" / "native.h", (native.source.parents[1] / "common" / "native.h").read_text())
    monkeypatch.setattr(native, "source", written(tmp_path / "op" / "native.c", text.replace(right, wrong)))
    monkeypatch.setattr("zoo.kernels.common.native.FLAGS", tuple(f.replace("-O3", "-O0") for f in FLAGS))
    forget()
    assert "off the form in torch" in str(native.absent())
    assert ran().count("native") == len(OPS) - (2 if native is GLA else 1)  # slots' values pass GLA
    forget()


def made() -> Path:
    """Return the one library in the cache."""
    (path,) = folder().glob("*.so")
    return path


@pytest.mark.usefixtures("private_home")
def test_it_is_compiled_once():
    assert SCAN.absent() is None
    written = made().stat().st_mtime_ns
    forget()
    assert SCAN.absent() is None and made().stat().st_mtime_ns == written
    assert sorted(folder().iterdir()) == [made(), made().with_name(f"{made().name}.sha256")]


LOADED_FROM = """
import os, sys
from zoo.kernels.selective_scan.native import NATIVE
for os.environ["XDG_CACHE_HOME"] in sys.argv[1:]:
    NATIVE.library.cache_clear()
    NATIVE.absent.cache_clear()
    print(NATIVE.absent())
"""
HARMS = "cut", "changed", "no checksum", "no library"


@pytest.mark.usefixtures("private_home")
def test_a_damaged_library_is_compiled_again(tmp_path: Path):
    """Another process loads them: a truncated library would end this one by SIGBUS."""
    assert SCAN.absent() is None
    path, homes = made(), [tmp_path / harm for harm in HARMS]
    whole = path.read_bytes()
    for harm, home in zip(HARMS, homes, strict=True):
        shutil.copytree(path.parent, home / "zoo" / "native")
        copy = home / "zoo" / "native" / path.name
        copy.write_bytes(whole[:4096] if harm == "cut" else whole + b"x")
        if harm.startswith("no"):
            (copy if harm == "no library" else copy.with_name(f"{path.name}.sha256")).unlink()
    words = [sys.executable, "-c", LOADED_FROM, *map(str, homes)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, len(HARMS) * "None\n"), done.stderr
    for home in homes:
        copy = home / "zoo" / "native" / path.name
        sums = copy.with_name(f"{path.name}.sha256").read_text()
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == sums
        assert copy.read_bytes() not in (whole[:4096], whole + b"x")


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize("loose", ["folder", "library", "owner"])
def test_a_library_that_another_user_could_have_written_is_not_loaded(
    loose: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert SCAN.absent() is None
    _warn.cache_clear()
    if loose == "owner":
        monkeypatch.setattr("zoo.kernels.common.private.os.geteuid", lambda: 12345)
    else:
        (folder() if loose == "folder" else made()).chmod(0o777)
    loaded: list[str] = []
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: loaded.append(name) or load(name))
    forget()
    assert SCAN.absent() is None
    assert loaded and not any(Path(name).is_relative_to(folder()) for name in loaded)
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and "this process makes its own" in stderr


@pytest.mark.usefixtures("private_home")
def test_a_home_that_cannot_be_written_or_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert SCAN.absent() is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    nobody = Mock(side_effect=RuntimeError("Could not determine home directory."))
    monkeypatch.setattr(Path, "home", nobody)
    forget()
    assert SCAN.absent() is None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    forget()
    assert "no place for a library" in str(SCAN.absent())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@EACH
def test_other_dtypes_are_refused_or_converted(
    op: ModuleType, draw: Callable[[], list[Tensor]], dtype: torch.dtype
):
    inputs, (native_form, definition) = [s.detach().to(dtype) for s in draw()], forms(op)
    if op is scan and dtype == torch.bfloat16:  # in passes of the scan itself
        right = definition(*(s.float() for s in inputs))
        torch.testing.assert_close([s.float() for s in native_form(*inputs)], [*right], rtol=0.02, atol=0.02)
        return
    with pytest.raises(ValueError, match="native computes in float32 on a CPU, and one is"):
        native_form(*inputs)
