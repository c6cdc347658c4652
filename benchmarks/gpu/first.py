"""The first half hour on a card, in order: what is worth most if it ends early comes first.

tests   8 min  every kernel's gpu tests, errors beside bounds
ops     6 min  the kernels that matter most beside torch's form and fla's: proved, timed in graphs
steps   3 min  a training step: eager, in a graph, by Triton; populations of 4 and 64
point   8 min  attention and Based at d_model 64, four learning rates, one worker: recorded, and archived
rest    5 min  what failed again, each with its whole story; compute-sanitizer over every kernel
"""

from collections.abc import Iterator

from benchmarks.gpu.commands import Command, Part, Place
from benchmarks.gpu.parts import CELL, PYTEST, TINY, WAYS, tests
from benchmarks.gpu.tested import write_tested

OPS = (
    "taylor_scan",
    "window_decode",
    "linear_cross_entropy",
    "se_attention",
    "gated_linear_attention",
    "delta_rule",
)
RATES = "lr=1e-4,4.6e-4,2.2e-3,1e-2"
POINT = ["task=mqar_based", "optim=zoology", "block=zoology", "mixer=based,attention", "d_model=64", RATES]


def ops(place: Place) -> Iterator[Command]:
    """Verdicts come first: they are what `kernels=auto` will go by."""
    home = place.folder("ops")
    if place.device == "cuda":
        yield Command("prove", ["zoo.kernels", "--prove", "--out", str(home / "verdicts.json")], share=0.4)
    names = OPS[:1] if place.small else OPS
    for i, name in enumerate(names):
        words = ["zoo.bench", "ops", place.trainer, "--ops", name, "--rounds", "1" if place.small else "5"]
        yield Command(name, [*words, "--out", str(home / name)], share=1 / (len(names) - i))


def steps(place: Place) -> Iterator[Command]:
    home = place.folder("steps")
    words = [place.trainer, *(TINY if place.small else CELL), "mixer=based"]
    for name in list(WAYS)[:1] if place.small else ("bf16", "bf16_triton"):
        forms = "eager" if place.device == "cpu" else "eager,graph"
        ends = ["--segments", "ends", "--forms", forms, "--rounds", "1", "--out", str(home / f"based_{name}")]
        yield Command(
            f"based {name}", ["benchmarks.gpu.step_forms", *ends, *words, *WAYS[name][1:]], share=0.4
        )
    bench = ["zoo.bench", "population", "-m", *words, "--rounds", "1", "--out", str(home)]
    yield Command("population", bench)


def point(place: Place) -> Iterator[Command]:
    home = place.folder("point")
    results = home / "results"
    asked = [*TINY, "lr=1e-2"] if place.small else [*POINT, "optim.max_epochs=8"]
    run = ["zoo.run", "-m", *asked, place.trainer, "hydra.launcher.n_workers=1", f"results={results}"]
    yield Command("run", run, share=0.9, may_stop=True)
    yield Command("archive", ["zoo.archive", str(results), "--out", str(home / "point.zip")])


def rest(place: Place) -> Iterator[Command]:
    """pytest knows what failed from its cache; where nothing did, it runs nothing."""
    report = f"--junitxml={place.folder('rest') / 'again.xml'}"
    if not place.small:
        again = ["--last-failed", "--last-failed-no-failures", "none", "tests", "-rA", "-vv", report]
        yield Command("again", [*PYTEST, *again], share=0.4)
    yield Command("sanitize", ["benchmarks.gpu.sanitize", "--device", place.device])


FIRST: dict[str, tuple[Part, float]] = {  # with its minutes
    "tests": (Part(tests, write_tested), 8),
    "ops": (Part(ops), 6),
    "steps": (Part(steps), 3),
    "point": (Part(point), 8),
    "rest": (Part(rest), 5),
}
