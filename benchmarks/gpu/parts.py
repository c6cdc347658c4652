"""The parts and their commands, at real sizes on a card and at tiny ones to see that they run."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.commands import GRACE_S, Command, Part, Place
from benchmarks.gpu.tested import write_tested
from zoo.bench.__main__ import SUBJECTS
from zoo.bench.op_subjects import subjects

TINY = ["task=mqar_single", "task.seq_len=16", "task.num_kv_pairs=2", "task.vocab_size=64", "max_examples=64"]
TINY += ["optim.max_epochs=1", "optim.batch_size=16", "d_model=16"]
CELL = ["task=mqar_based", "optim=zoology", "block=zoology", "optim.max_epochs=1", "max_examples=60000"]
PYTEST = ["pytest", "-m", "gpu", "-W", "default"]  # what a card's torch warns of is no failure
LAWS = "tests/kernels/test_laws_gpu.py"
LAYERS = ["based", "attention", "sliding_window", "mamba", "mamba2", "gla", "deltanet"]
LONG, HEADS, CHUNK, BLOCK, TOP_K = 65536, 16, 512, 32, 8  # SE-Attn's own comparison
WAYS = {  # forms of a step, and further words of its cell
    "bf16": ["eager,graph,compile", "trainer.precision=bf16-mixed"],
    "bf16_triton": ["eager,graph", "trainer.precision=bf16-mixed", "kernels=triton"],
    "float32": ["eager,graph", "trainer.precision=32-true"],
}
SPAN = CHUNK + BLOCK * TOP_K  # what a token sees at most


def tests(place: Place) -> Iterator[Command]:
    """The ops, eight at a time, for compiling takes the time; then the mixers' laws through them."""
    files = sorted(str(path) for path in Path("tests").rglob("test_*.py") if "mark.gpu" in path.read_text())
    files.remove(LAWS)
    if place.small:
        yield Command("ops", [*PYTEST, files[0], "-rs", _report(place, "ops")])
        return
    many = ["-n", "8", "--dist", "load"] if find_spec("xdist") else []
    for name, where, share in (("ops", files, 0.7), ("laws", [LAWS], 1.0)):
        words = [*PYTEST, *where, "-rs", _report(place, name), *many]
        yield Command(name, words, share=share)


def _report(place: Place, name: str) -> str:
    return f"--junitxml={place.folder('tests') / name}.xml"


def ops(place: Place) -> Iterator[Command]:
    names = list(dict.fromkeys(subject.op for subject in subjects(place.small)))
    for i, name in enumerate(names[:1] if place.small else names):
        out = str(place.folder("ops") / name)
        words = ["zoo.bench", "ops", place.trainer, "--ops", name, "--rounds", _rounds(place), "--out", out]
        yield Command(name, words, share=2 / (len(names) - i + 1))


def layers(place: Place) -> Iterator[Command]:
    """Layers of equal widths; then SE-Attn, attention and a window with the same projections."""
    out, rounds = place.folder("layers"), ["--rounds", _rounds(place)]
    if place.small:
        yield Command("prefill based", ["zoo.bench", "prefill", place.trainer, *TINY, *rounds,
                                        "--seq-lens", "32", "--out", str(out / "prefill")])  # fmt: skip
        return
    for what, lengths in (("prefill", "512,4096"), ("decode", "1024")):
        for mixer in LAYERS:
            words = ["zoo.bench", what, place.trainer, f"mixer={mixer}", "d_model=1024", *rounds]
            yield Command(
                f"{what} {mixer}",
                [*words, "--seq-lens", lengths, "--out", str(out / f"{what}_{mixer}")],
                share=0.2,
            )
    for mixer, own in long_mixers().items():
        words = ["zoo.bench", "prefill", place.trainer, f"mixer={mixer}", "d_model=1024", *own, *rounds]
        yield Command(
            f"long {mixer}", [*words, "--seq-lens", str(LONG), "--out", str(out / f"long_{mixer}")], share=0.4
        )


def long_mixers() -> dict[str, list[str]]:
    heads = f"mixer.num_heads={HEADS}"
    blocks = [f"mixer.chunk_size={CHUNK}", f"mixer.block_size={BLOCK}", f"mixer.top_k={TOP_K}"]
    return {
        "attention": [heads],
        "sliding_window": [heads, f"mixer.window={SPAN}"],
        "se_attn": [heads, *blocks, "mixer.selection=first"],
    }


def steps(place: Place) -> Iterator[Command]:
    """One cell, as Figure 2 trains it, each way of taking a step; then populations beside one at a time."""
    home, rounds = place.folder("steps"), ["--rounds", _rounds(place)]
    words = [place.trainer, *(TINY if place.small else CELL)]
    for mixer in ["based"] if place.small else ["attention", "based", "mamba2"]:
        for name, how in list(WAYS.items())[:1] if place.small else WAYS.items():
            forms = "eager" if place.device == "cpu" else how[0]
            ends = ["--segments", "ends", "--forms", forms, "--out", str(home / f"{mixer}_{name}")]
            run = ["benchmarks.gpu.step_forms", *ends, *rounds, *words, f"mixer={mixer}", *how[1:]]
            yield Command(f"{mixer} {name}", run, share=0.25)
    if "population" in SUBJECTS:
        mixers = "mixer=based" if place.small else "mixer=attention,based,mamba2"
        bench = ["zoo.bench", "population", "-m", *words, mixers, *rounds, "--out", str(home)]
        yield Command("population", bench)


def tune(place: Place) -> Iterator[Command]:
    """Ends by itself before its time is over; it starts processes that a signal to it would not reach."""
    where = ["--device", place.device, *(["--small"] if place.small else [])]
    seconds = ["--seconds", str(max(1, int(60 * place.minutes - GRACE_S)))]
    yield Command("tune", ["benchmarks.gpu.tune", *where, *seconds, "--out", str(place.folder("tune"))])


def sweep(place: Place) -> Iterator[Command]:
    home = place.folder("sweep")
    results = home / "results"
    figure = ["sweep=based_fig2"]
    if place.small:
        figure = [*TINY, "task.seq_len=16,32", "lr=1e-2"]
    run = ["zoo.run", "-m", *figure, place.trainer, f"results={results}"]
    yield Command("run", run, share=0.85, may_stop=True)
    yield Command("archive", ["zoo.archive", str(results), "--out", str(home / "based_fig2.zip")])
    yield Command("draw", ["analysis.pareto", str(results)])


def _rounds(place: Place) -> str:
    return "1" if place.small else "5"


PARTS = {
    "tests": Part(tests, write_tested),
    "ops": Part(ops),
    "layers": Part(layers),
    "steps": Part(steps),
    "sweep": Part(sweep),
    "tune": Part(tune),
}
