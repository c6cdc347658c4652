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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from zoo.kernels.choice import TRITON, names_with
from zoo.kernels.common.verdicts import source

SHARED = {80: 163 * 1024, 90: 227 * 1024}  # bytes a block can have
MMA = {80: "HMMA", 90: "HGMMA"}
NOTE = Path(__file__).parent / "compiled.json"


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
        """Whether it can be launched, and is worth it."""
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
        found = list(compiled(op, arch, args.few))
        unfit += not found or not all(one.fit for one in found)
        for one in found:
            print(one, "" if one.fit else "  <- UNFIT", flush=True)
    if args.note and not unfit:
        noted = {op: made_of(op) if op in args.op else text for op, text in notes().items()}
        NOTE.write_text(json.dumps(noted, indent=2) + "\n")
    return 1 if unfit else 0


def notes() -> dict[str, str]:
    """Return what each op's kernels were made of when they were last found fit; "" where they never were."""
    found = json.loads(NOTE.read_text()) if NOTE.exists() else {}
    return {op: found.get(op, "") for op in names_with(TRITON)}


def made_of(op: str) -> str:
    """Hash the op's source with all of ours that it imports, and name the compiler."""
    import triton

    return f"{source(f'zoo.kernels.{op}.triton')}, triton {triton.__version__}"


def compiled(op: str, arch: int, few: bool) -> Iterator[Compiled]:
    """Compile every distinct kernel that the op launches, forward and backward."""
    module, seen = import_module(f"zoo.kernels.{op}.triton"), set()
    for case, dtype, call in module.cases(few):
        with launches(arch) as launched:
            call()
        for kernel, made, options in launched:
            if id(made) not in seen:
                seen.add(id(made))
                cut = ", ".join(
                    f"{k} {v}" for k, v in options.items() if isinstance(v, int) and v is not True
                )
                name = f"sm_{arch} {op} {kernel} ({case}, {str(dtype).removeprefix('torch.')}; {cut})"
                yield read(name, made, arch, kernel not in module.WITHOUT_PRODUCTS)


@contextmanager
def launches(arch: int) -> Iterator[list[tuple[str, Any, dict[str, Any]]]]:
    """Inside, a launch compiles for `arch` and is noted; it launches nothing."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Absent:
        """What the compiler asks of a driver."""

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", arch, 32)

        def get_current_device(self) -> int:
            return arch  # kernels are kept by device

        def get_current_stream(self, device: int) -> int:
            return 0

    found: list[tuple[str, Any, dict[str, Any]]] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        made = run(self, *args, grid=grid, warmup=True, **options)
        found.append((self.__name__.lstrip("_"), made, options))
        return made

    driver.set_active(Absent())  # pyright: ignore[reportArgumentType]
    JITFunction.run = compile_only
    try:
        yield found
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
