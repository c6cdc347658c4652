"""The first half hour on a GPU: tests, times and a published point, the most valuable first.

tests   8 min  every kernel's gpu tests, errors beside bounds
ops     6 min  the kernels that matter most beside torch's form and fla's: proved, timed in graphs
steps   3 min  a training step: eager, in a graph, by Triton; populations
point   8 min  attention and Based at d_model 64, four learning rates, one worker: recorded, and archived
rest    5 min  what failed again, each with its whole story; compute-sanitizer over every kernel
"""

import json
import os
import shutil
import sys
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from zoo.bench.limited import Command, run, write_csv
from zoo.kernels.common.available import no_device

PYTHON = [sys.executable, "-m"]
PYTEST = [*PYTHON, "pytest", "-m", "gpu", "-W", "default"]  # what torch warns of on a GPU is no failure
LAWS = "tests/kernels/test_laws_gpu.py"
OPS = (
    "taylor_scan",
    "linear_cross_entropy",
    "se_attention",
    "gated_linear_attention",
    "delta_rule",
)
TINY = ["task=mqar_single", "task.seq_len=16", "task.num_kv_pairs=2", "task.vocab_size=64", "max_examples=64"]
TINY += ["optim.max_epochs=1", "optim.batch_size=16", "d_model=16"]
CELL = ["task=mqar_single", "task.seq_len=256", "task.num_kv_pairs=64", "task.vocab_size=8192"]
CELL += ["optim=zoology", "block=zoology", "optim.batch_size=256", "max_examples=60000"]
STEPS = "zoo bf16-mixed graph triton,zoo bf16-mixed triton,zoo bf16-mixed graph,zoo bf16-mixed"
POINT = ["task=mqar_based", "optim=zoology", "block=zoology", "mixer=based,attention", "d_model=64"]
POINT += ["lr=1e-4,4.6e-4,2.2e-3,1e-2", "optim.max_epochs=8"]
SANITIZER, WRONG = "compute-sanitizer", "9"  # and its exit code for a case that it found wrong
EVERY_KERNEL = "from zoo.bench.op_subjects import prove_all; print(*prove_all({!r}, small=True), sep='\\n')"
PACKED = "tables.zip"
SUFFIXES = (".csv", ".json", ".md", ".log", ".xml", ".png", ".zip")


@dataclass(frozen=True)
class Place:
    """The device and the folder of a run.  small: at tiny sizes, to see that every command runs."""

    device: str
    small: bool
    out: Path

    @property
    def rounds(self) -> list[str]:
        """Return the words for how often alternatives are timed."""
        return ["--rounds", "1" if self.small else "5"]

    def bench(self, what: str, *words: str) -> list[str]:
        """Return the command line that measures on this device."""
        return [*PYTHON, "zoo.bench", what, "--device", self.device, *words]


def first(place: Place) -> int:
    """Run every part within its minutes, and pack the tables after each; 1 where a command failed.

    A part that ends early leaves its minutes to the last.  ValueError: it cannot run here.
    """
    if place.device == "cuda" and (reason := no_device()):
        raise ValueError(f"--device (=cuda) cannot be had: {reason}; --rehearse runs the same on a CPU.")
    if not Path(LAWS).is_file():
        raise ValueError(f"first runs the tests, and {LAWS} is not here: run it in a checkout's folder.")
    failed, ends = 0, time.monotonic()
    for name, (commands, minutes) in PARTS.items():
        ends += 60 * minutes
        latest = ends if name == [*PARTS][-1] else min(ends, time.monotonic() + 60 * minutes)
        failed += run(name, commands(place), place.out, deadline=latest)
        if name == "tests":
            write_errors(place.out / name)
        pack(place.out)
    return 1 if failed else 0


def _tests(place: Place) -> Iterator[Command]:
    """The ops, eight files at a time, for compiling takes the time; then the mixers' laws through them."""
    files = sorted(str(path) for path in Path("tests").rglob("test_*.py") if "mark.gpu" in path.read_text())
    files.remove(LAWS)
    groups = {"ops": files[:1]} if place.small else {"ops": files, "laws": [LAWS]}
    many = ["-n", "8", "--dist", "load"] if find_spec("xdist") and not place.small else []
    for name, where in groups.items():
        report = f"--junitxml={place.out / 'tests' / name}.xml"
        yield Command(name, [*PYTEST, *where, "-rs", report, *many], share=0.7 if name == "ops" else 1.0)


def _ops(place: Place) -> Iterator[Command]:
    """Verdicts come first: kernels=auto goes by them."""
    home = place.out / "ops"
    if place.device == "cuda":
        prove = [*PYTHON, "zoo.kernels", "--prove", "--out", str(home / "verdicts.json")]
        yield Command("prove", prove, share=0.4)
    names = OPS[:1] if place.small else OPS
    for i, name in enumerate(names):
        words = place.bench("ops", "--ops", name, *place.rounds, "--out", str(home / name))
        yield Command(name, words, share=1 / (len(names) - i))


def _steps(place: Place) -> Iterator[Command]:
    words = [*(TINY if place.small else CELL), "mixer=based", "--out", str(place.out / "steps")]
    forms = "zoo" if place.device == "cpu" else STEPS
    yield Command("based", place.bench("train", "--forms", forms, *place.rounds, *words), share=0.6)
    yield Command("population", place.bench("population", "--rounds", "1", *words))


def _point(place: Place) -> Iterator[Command]:
    home = place.out / "point"
    trainer = "trainer=gpu" if place.device == "cuda" else "trainer=cpu"
    cells = [*TINY, "lr=1e-2"] if place.small else POINT
    words = ["zoo.run", "-m", *cells, trainer, "hydra.launcher.n_workers=1", f"results={home / 'results'}"]
    yield Command("run", [*PYTHON, *words], share=0.9, may_stop=True)
    archive = ["zoo.archive", str(home / "results"), "--out", str(home / "point.zip")]
    yield Command("archive", [*PYTHON, *archive])


def _rest(place: Place) -> Iterator[Command]:
    """pytest knows what failed from its cache; where nothing did, it runs nothing."""
    home = place.out / "rest"
    if not place.small:
        report = f"--junitxml={home / 'again.xml'}"
        again = ["--last-failed", "--last-failed-no-failures", "none", "tests", "-rA", "-vv", report]
        yield Command("again", [*PYTEST, *again], share=0.4)
    tool = shutil.which(SANITIZER, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/local/cuda/bin")
    if tool is None and place.device == "cuda":
        print(f"rest sanitize: {SANITIZER} is not here; it comes with CUDA's toolkit", flush=True)
        return
    watched = [tool, "--target-processes", "all", "--error-exitcode", WRONG] if tool else []
    slow = f"XDG_CACHE_HOME={home / 'cache'}"  # a verdict on what is watched must not be remembered
    code = EVERY_KERNEL.format(place.device)
    yield Command("sanitize", ["env", slow, *watched, sys.executable, "-c", code])


PARTS: dict[str, tuple[Callable[[Place], Iterator[Command]], float]] = {  # with its minutes
    "tests": (_tests, 8),
    "ops": (_ops, 6),
    "steps": (_steps, 3),
    "point": (_point, 8),
    "rest": (_rest, 5),
}


def write_errors(folder: Path) -> None:
    """Write errors.csv from pytest's reports: how every test ended, and each error beside its bound."""
    if rows := [row for report in sorted(folder.glob("*.xml")) for row in errors(report)]:
        write_csv(folder / "errors.csv", rows)


def errors(report: Path) -> Iterator[dict[str, str]]:
    """Yield a row for each error that tests/kernels/conftest.py noted, or one for a test without any."""
    for case in ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in case}
        end = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        about = {"test": f"{case.get('classname')}::{case.get('name')}", "end": end}
        noted = [each.get("value") for each in case.iter("property") if each.get("name") == "distances"]
        held = [one for text in noted for one in json.loads(text or "[]")]
        for what, error, bound in held or [("", None, None)]:
            numbers = {"error": error, "bound": bound}
            yield about | {"of": what} | {k: "" if n is None else f"{n:.3g}" for k, n in numbers.items()}


def pack(out: Path) -> None:
    """Put all tables, logs and archives into one file; records and checkpoints are in the archive."""
    with zipfile.ZipFile(out / PACKED, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(out.rglob("*")):
            wanted = path.suffix in SUFFIXES and path.name != PACKED
            if wanted and not (path.parent / "result.json").exists():
                file.write(path, path.relative_to(out))
