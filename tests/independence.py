"""Each mixer against a statement of its definition that shares no code with it, and against other packages.

    python -m tests.independence > docs/independence.md

tests/definitions/FILE.py belongs to zoo/mixers/FILE.py.  Its `definition(mixer, x)` writes the paper's
equations down once more, naively, and reads nothing but the mixer's weights; `package(mixer, x)`, where there
is one, computes the same through another package's reference.
"""

import importlib
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import torch
from torch import Tensor

from tests.registry import cases
from zoo.config.paths import CONF
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, build, mixer_yaml

FOLDER = Path(__file__).parent / "definitions"
MODULES = {"fla-core": "fla"}  # a distribution's name -> what it is imported as
LENGTHS = (1, 37, 150)  # one token; a prime; more than any chunk
Computes = Callable[[Mixer, Tensor], Tensor]
Module = TypeVar("Module", bound=torch.nn.Module)


@dataclass(frozen=True)
class Errors:
    """The largest difference, over the largest value of what is compared."""

    outputs: float
    gradients: float


def file_of(case: Case) -> str:
    """The stem of the python file that the mixer stands in."""
    return mixer_yaml(case.name, case.folder)["_target_"].split(".")[-2]


@cache
def statement(stem: str) -> ModuleType | None:
    exists = (FOLDER / f"{stem}.py").exists()
    return importlib.import_module(f"tests.definitions.{stem}") if exists else None


def package_of(module: ModuleType) -> Computes | None:
    """The comparison with another package, where there is one and the package is installed."""
    computes = vars(module).get("package")
    name = _source(module).split(":")[0]
    installed = importlib.util.find_spec(MODULES.get(name, name)) is not None if name else False
    return _quiet(computes) if computes and installed else None


def _quiet(computes: Computes) -> Computes:
    """Packages for GPUs warn when they find none."""

    def quietly(mixer: Mixer, x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return computes(mixer, x)

    return quietly


def moved(case: Case) -> Mixer:
    """The mixer in float64, every parameter off its initial value, so that none is neutral."""
    return off_neutral(build(case), seed=7, by=1 / 4)


@torch.no_grad()
def off_neutral(module: Module, seed: int, by: float) -> Module:
    """With a draw of this spread added to every parameter."""
    rng = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter += torch.randn(parameter.shape, generator=rng, dtype=parameter.dtype) * by
    return module


def compared(case: Case, other: Computes, seq_len: int) -> Errors:
    mixer = moved(case)
    rng = torch.Generator().manual_seed(seq_len)
    x, grad = (torch.randn(2, seq_len, WIDTH, generator=rng, dtype=torch.float64) for _ in range(2))
    ours, theirs = (_run(mixer, computes, x, grad) for computes in (Mixer.__call__, other))
    pairs = zip(ours[1:], theirs[1:], strict=True)
    seen = [(a, b) for a, b in pairs if a.abs().max() > 1e-12 or b.abs().max() > 1e-5]  # 0 but for rounding
    return Errors(difference(ours[0], theirs[0]), max(difference(a, b) for a, b in seen))


def _run(mixer: Mixer, computes: Computes, x: Tensor, grad: Tensor) -> list[Tensor]:
    """The outputs, then the gradients with respect to the input and every parameter."""
    x = x.clone().requires_grad_()
    wanted = [x, *(p for p in mixer.parameters() if p.requires_grad)]
    y = computes(mixer, x)
    found = torch.autograd.grad(y, wanted, grad.to(y.dtype), allow_unused=True)
    filled = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    return [y.detach(), *filled]


def difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-3))


def worst(of: list[Case], computes: Computes) -> Errors:
    found = [compared(case, computes, seq_len) for case in of for seq_len in LENGTHS]
    return Errors(max(e.outputs for e in found), max(e.gradients for e in found))


def main() -> None:
    here = [name for name, module in MODULES.items() if importlib.util.find_spec(module)]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in here)
    print(HEAD.format(torch=torch.__version__, packages=versions))
    found: dict[str, list[Errors]] = {"definitions": [], "other packages": []}
    lacking = []
    for stem in sorted({file_of(case) for case in cases(CONF)}):
        of = [case for case in cases(CONF) if file_of(case) == stem]
        names = ", ".join(dict.fromkeys(f"`{case.name}`" for case in of))
        module = statement(stem)
        if module is None:
            lacking.append(names)
            continue
        said = (module.__doc__ or "").splitlines()[0].rstrip(".")
        ways = (said, module.definition), (f"`{_source(module)}`", package_of(module))
        for kind, (source, computes) in zip(found, ways, strict=True):
            if computes:
                e = worst(of, computes)
                found[kind].append(e)
                print(f"| {names} | {len(of)} | {source} | {e.outputs:.0e} | {e.gradients:.0e} |", flush=True)
    print("\n" + "\n".join(_summary(found, lacking)))


def _summary(found: dict[str, list[Errors]], lacking: list[str]) -> list[str]:
    lines = [
        f"- {len(errors)} rows against {kind}: outputs to {max(e.outputs for e in errors):.0e}, "
        f"gradients to {max(e.gradients for e in errors):.0e} at most."
        for kind, errors in found.items()
        if errors
    ]
    return lines + [f"- Nothing to check against yet: {', '.join(lacking)}."] * bool(lacking)


def _source(module: ModuleType) -> str:
    return vars(module).get("PACKAGE", "")


HEAD = """# What each mixer was checked against

Written by `python -m tests.independence > docs/independence.md`; `tests/mixers/test_independence.py` holds
every row to its tolerance.

This page lists what each mixer was checked against, and the largest difference. Each mixer is computed a
second time by code that shares only the weights with it: its equations, written down once more and naively
in `tests/definitions/`, and the reference of another package where one exists. The checks run in float64
(torch {torch}; {packages}), with every parameter moved off its initial value, for 1, 37 and 150 tokens.

- settings: those of the yaml and its `variants`, which the laws test too.
- outputs, gradients: the largest difference, divided by the largest value. Gradients are with respect to the
  input and every parameter. A package that computes in float32 inside shows 1e-7 or more, and up to 2e-3
  where a gradient is nearly 0 (of one token behind a norm); one that is 0 but for rounding is left out.

| mixers | settings | against | outputs | gradients |
|---|---|---|---|---|"""


if __name__ == "__main__":
    main()
