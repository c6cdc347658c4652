"""Compile every Triton kernel for GPUs that are not here, and read what the compiler made of it.

  python -m benchmarks.kernels_offline [--op NAME ...] [--arch 90 80] [--few] [--jobs N] [--note] [--out FILE]

Our own wrappers run on tensors without memory (device "meta") and each launch stops after its compilation,
so what is compiled is what a GPU would be given.  Exit code 1 where a kernel spills registers, multiplies
matrices without a tensor-core instruction or wants more shared memory than there is.  Nothing here is a time.
--note writes down the source of each op that was found fit: make test compiles an op whose source is another.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from zoo.kernels.choice import TRITON, names_with
from zoo.kernels.verdicts import source

SHARED = {80: 163 * 1024, 90: 227 * 1024}  # bytes a block can have
MMA = {80: "HMMA", 90: "HGMMA"}
BLOCKS = ("OWN", "OTHER", "CHUNK", "BLOCK")  # constants that say how a kernel is cut
NOTE = Path(__file__).parent / "tables" / "kernels_compiled.json"


@dataclass(frozen=True)
class Compiled:
    """One kernel in one configuration.  blocks: its integer constants.  products: it is made of them."""

    op: str
    kernel: str
    case: str
    dtype: str
    blocks: str
    arch: int
    registers: int
    stack: int
    mma: int
    shared: int
    products: bool

    @property
    def wrong(self) -> list[str]:
        """What keeps it from being fit to launch."""
        found = [f"spills {self.stack} bytes a thread"] if self.stack else []
        found += [f"has no {MMA[self.arch]}"] if self.products and not self.mma else []
        return found + (
            [f"wants {self.shared} bytes of shared memory"] if self.shared > SHARED[self.arch] else []
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", nargs="+", type=int, choices=SHARED, default=list(SHARED))
    parser.add_argument("--op", nargs="+", help="these alone (default: every op with a Triton form)")
    parser.add_argument("--few", action="store_true", help="a quick choice of the configurations")
    parser.add_argument("--jobs", type=int, default=1, help="ops at the same time (default: 1)")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    parser.add_argument("--note", action="store_true", help="where all are fit, note their source")
    args = parser.parse_args()
    names = names_with(TRITON)
    if unknown := sorted(set(args.op or []) - set(names)):
        parser.error(f"--op (={' '.join(unknown)}) must be of {' '.join(names)}.")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        found = list(compiled(args.arch, args.few, args.op or names, args.jobs))
    text = table(found, [word for word in sys.argv[1:] if word not in ("--out", str(args.out))])
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    wrong = [f"{k.op} {k.kernel} ({k.case}, {k.dtype}, sm_{k.arch}): {w}" for k in found for w in k.wrong]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    if wrong or not found:
        return 1
    if args.note:
        noted = {op: made_of(op) if op in {k.op for k in found} else text for op, text in notes().items()}
        NOTE.write_text(json.dumps(noted, indent=2) + "\n")
    return 0


def notes() -> dict[str, str]:
    """Of every op: what its kernels were made of when they were last found fit; "" where they never were."""
    found = json.loads(NOTE.read_text()) if NOTE.exists() else {}
    return {op: found.get(op, "") for op in names_with(TRITON)}


def made_of(op: str) -> str:
    """A hash of the op's source and of all of ours that it imports, and the compiler."""
    import triton

    return f"{source(f'zoo.kernels.{op}.triton')}, triton {triton.__version__}"


def compiled(archs: list[int], few: bool, names: list[str], jobs: int) -> Iterator[Compiled]:
    """Every distinct kernel that these ops launch, forward and backward; says what is done as it goes."""
    tasks = list(product(archs, names))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        parts = (
            pool.map(partial(compiled_of, few), tasks) if jobs > 1 else map(partial(compiled_of, few), tasks)
        )
        for (arch, name), kernels in zip(tasks, parts, strict=True):
            print(f"sm_{arch} {name}: {len(kernels)} kernels", file=sys.stderr, flush=True)
            yield from kernels


def compiled_of(few: bool, task: tuple[int, str]) -> list[Compiled]:
    """Of one op, for one architecture."""
    arch, op = task
    module, found, seen = import_module(f"zoo.kernels.{op}.triton"), [], set()
    for case, dtype, call in module.cases(few):
        with launches(arch) as launched:
            call()
        for name, made, options in launched:
            if id(made) not in seen:
                seen.add(id(made))
                words = str(dtype).removeprefix("torch.")
                products = name not in module.WITHOUT_PRODUCTS
                found.append(read(op, name, case, words, made, options, arch, products))
    return found


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


def read(
    op: str, kernel: str, case: str, dtype: str, made: Any, options: dict[str, Any], arch: int, products: bool
) -> Compiled:
    """From the machine code, by the tools that come with Triton."""
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
    constants = [f"{name} {value}" for name, value in options.items() if name in BLOCKS]
    return Compiled(
        op=op,
        kernel=kernel,
        case=case,
        dtype=dtype,
        blocks=", ".join([*constants, f"{options['num_warps']} warps", f"{options['num_stages']} stages"]),
        arch=arch,
        registers=numbers["REG"],
        stack=numbers["STACK"] + numbers["LOCAL"],
        mma=len(re.findall(rf"\b{MMA[arch]}\b", code)),
        shared=made.metadata.shared,
        products=products,
    )


def table(found: list[Compiled], words: list[str]) -> str:
    import triton

    heads = (
        "op",
        "kernel",
        "sizes",
        "dtype",
        "blocks",
        "sm",
        "registers",
        "stack",
        "tensor-core",
        "shared KB",
    )
    rows = [(k.op, k.kernel, k.case, k.dtype, k.blocks, k.arch, k.registers, k.stack) for k in found]
    ends = [(f"{k.mma} {MMA[k.arch]}" if k.products else "-", f"{k.shared / 1024:.0f}") for k in found]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(map(str, row + end))} |" for row, end in zip(rows, ends, strict=True)]
    command = " ".join(["python -m benchmarks.kernels_offline", *words])
    return "\n".join([*lines, "", f"`{command}`; triton {triton.__version__}.  Compiled, not run: no GPU."])


if __name__ == "__main__":
    sys.exit(main())
