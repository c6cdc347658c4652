"""Compile every Triton kernel for GPUs that are not here, and read what the compiler made of it.

  python -m tests.kernels.compiled [--op NAME ...] [--arch 90 80] [--few] [--note]

Our own wrappers run on tensors without memory (device "meta") and each launch stops after its compilation,
so what is compiled is what a GPU would be given.  Prints a line a kernel and configuration; exit code 1 where
one spills registers, multiplies matrices without a tensor-core instruction or wants more shared memory than
there is.  --note writes the source of each op that was found fit into compiled.json: test_interpreted.py
compiles the ops whose source is another.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from tests.kernels.agreement import outputs_of
from tests.kernels.test_block_choice_gpu import Call as Choices
from tests.kernels.test_block_choice_gpu import block_choice_triton
from tests.kernels.test_block_choice_gpu import inputs as choices
from tests.kernels.triton_cases import KERNELS
from zoo.kernels.choice import TRITON, names_with
from zoo.kernels.common.verdicts import source

SHARED = {80: 163 * 1024, 90: 227 * 1024}  # bytes a block can have
MMA = {80: "HMMA", 90: "HGMMA"}
NOTE = Path(__file__).parent / "compiled.json"
DTYPES = (torch.float32, torch.bfloat16)
WITHOUT_PRODUCTS = {  # kernels that have no use for tensor cores: one token or query makes no matrix
    **dict.fromkeys(names_with(TRITON), frozenset[str]()),
    "block_choice": frozenset({"merged"}),
    "diagonal_scan": frozenset({"forward", "backward"}),
    "selective_scan": frozenset({"scan_forward", "scan_backward"}),
    "taylor_scan": frozenset({"step", "picks"}),
}


@dataclass(frozen=True)
class Compiled:
    """One kernel in one configuration.  stack: spilt bytes a thread; mma: None where it has no products."""

    name: str
    arch: int
    registers: int
    stack: int
    mma: int | None
    shared: int

    def __str__(self) -> str:
        made = f"{self.registers} registers, {self.stack} bytes spilt, {self.shared / 1024:.0f} KB shared"
        return f"{self.name}: {made}" + ("" if self.mma is None else f", {self.mma} {MMA[self.arch]}")

    @property
    def fit(self) -> bool:
        """Return whether it can be launched, and is worth it."""
        return not self.stack and self.mma != 0 and self.shared <= SHARED[self.arch]


def main() -> int:
    names = names_with(TRITON)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", nargs="+", type=int, choices=SHARED, default=list(SHARED))
    parser.add_argument("--op", nargs="+", choices=names, default=names, help="(default: all)")
    parser.add_argument("--few", action="store_true", help="a quick choice of the configurations")
    parser.add_argument("--note", action="store_true", help="where all are fit, note their source")
    args = parser.parse_args()
    unfit = 0
    for arch, op in product(args.arch, args.op):
        kernels = list(compiled(op, arch, args.few))
        unfit += not kernels or not all(one.fit for one in kernels)
        for one in kernels:
            print(one, "" if one.fit else "  <- UNFIT", flush=True)
    if args.note and not unfit:
        noted = {op: made_of(op) if op in args.op else text for op, text in notes().items()}
        NOTE.write_text(json.dumps(noted, indent=2) + "\n")
    return 1 if unfit else 0


def notes() -> dict[str, str]:
    """Return what each op's kernels were made of when they were last found fit; "" where they never were."""
    noted = json.loads(NOTE.read_text()) if NOTE.exists() else {}
    return {op: noted.get(op, "") for op in names_with(TRITON)}


def made_of(op: str) -> str:
    """Hash the op's source with all of ours that it imports, and name the compiler."""
    import triton

    return f"{source(f'zoo.kernels.{op}.triton')}, triton {triton.__version__}"


def compiled(op: str, arch: int, few: bool) -> Iterator[Compiled]:
    """Compile every distinct kernel that the op launches, forward and backward."""
    known = set()
    for size, dtype, call in calls(op, few):
        with launches(arch) as launched:
            call()
        for kernel, made, options in launched:
            if id(made) not in known:
                known.add(id(made))
                cut = ", ".join(
                    f"{k} {v}" for k, v in options.items() if isinstance(v, int) and v is not True
                )
                name = f"sm_{arch} {op} {kernel} ({size}, {str(dtype).removeprefix('torch.')}; {cut})"
                yield read(name, made, arch, kernel not in WITHOUT_PRODUCTS[op])


def calls(op: str, few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Yield calls on tensors without memory that reach every kernel in every configuration, or a few."""
    if op == "block_choice":
        for width, top_k, dtype, rows in product((16, 128), (1, 8, 32, 64), DTYPES, (128, 65536)):
            if not few or (width, top_k) == (128, 8):
                given = choices(Choices(2, 4, 2, 2, rows, 2048, width, 32, 0, top_k, None), "meta", dtype)
                yield f"{width} {top_k} {rows}", dtype, partial(both_ways, block_choice_triton, given)
        return
    kernel = next(kernel for kernel in KERNELS if kernel.op == op)
    for size, dtype in product(kernel.compiled[:2] if few else kernel.compiled, DTYPES):
        given = kernel.draw(*size, "meta", dtype)
        if op == "se_attention" and dtype == torch.float32 and size[1] > 64:
            continue  # refused: a head as wide would spill registers
        yield " ".join(map(str, size)), dtype, partial(both_ways, kernel.function, given)


def both_ways(function: Callable[..., Any], given: list[Any]) -> None:
    outputs = [y for y in outputs_of(function, given) if y.requires_grad]
    if outputs:
        torch.autograd.backward([y.sum() for y in outputs])


@contextmanager
def launches(arch: int) -> Iterator[list[tuple[str, Any, dict[str, Any]]]]:
    """Inside, a launch compiles for `arch` and is noted; it launches nothing."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Absent:
        """Answer the compiler's questions to a driver."""

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", arch, 32)

        def get_current_device(self) -> int:
            return arch  # kernels are kept by device

        def get_current_stream(self, device: int) -> int:
            return 0

    launched: list[tuple[str, Any, dict[str, Any]]] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        made = run(self, *args, grid=grid, warmup=True, **options)
        launched.append((self.__name__.lstrip("_"), made, options))
        return made

    driver.set_active(Absent())  # pyright: ignore[reportArgumentType]
    JITFunction.run = compile_only
    try:
        yield launched
    finally:
        JITFunction.run = run


def read(name: str, made: Any, arch: int, products: bool) -> Compiled:
    """Read the machine code by the tools that come with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        usage, code = (
            subprocess.run([tool, flag, file.name], capture_output=True, text=True, check=True).stdout
            for flag in ("--dump-resource-usage", "--dump-sass")
        )
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return Compiled(
        name=name,
        arch=arch,
        registers=numbers["REG"],
        stack=numbers["STACK"] + numbers["LOCAL"],
        mma=len(re.findall(rf"\b{MMA[arch]}\b", code)) if products else None,
        shared=made.metadata.shared,
    )


if __name__ == "__main__":
    sys.exit(main())
