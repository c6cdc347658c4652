"""A command that cannot run is refused in one line (rule, value, fix), with exit code 2, before it starts."""

import re
from pathlib import Path

import pytest

from hydra_plugins.zoo_plugins import sweeps
from tests.command import SMALL, TOYS, Zoo, refusal, written
from zoo.config.compose import composer
from zoo.run import run_one

WINDOW = "mixer=sliding_window"

BAD = [
    ([WINDOW, "mixer.windw=16"], "unknown key mixer.windw; did you mean mixer.window?"),
    ([WINDOW, "+mixer.windw=16"], "unknown key mixer.windw; did you mean mixer.window?"),
    ([WINDOW, "model.layers=[{mixer: {windw: 2}}]"], "unknown key mixer.windw; did you mean mixer.window?"),
    ([WINDOW, "mixer.topk=2"], "unknown key mixer.topk; there are mixer.bias, "),
    (["mixer=basde"], "unknown mixer basde; did you mean based?"),
    ([WINDOW, "adaptation={recipe: lora}"], "key adaptation takes a name first, adaptation=NAME; then"),
    ([WINDOW, "trainer.callbacks={_target_: a.B}"], "trainer.callbacks must be a list, [..], if it is one"),
    (["mixr=based"], "unknown key mixr; did you mean mixer?"),
    ([WINDOW, "windw=16"], "unknown key windw; did you mean mixer.window?"),
    (["+extra=1"], "unknown key extra"),
    (["experiment=smok"], "unknown experiment smok; did you mean smoke?"),
    ([WINDOW, "mixer={windw: 3}"], "unknown key mixer.windw; did you mean mixer.window?"),
    ([WINDOW, "model.layers=[]"], "model.layers (=[]) must be a list of mixers"),
    ([WINDOW, "model.layers=[{a:{x:1},b:{}}]"], "must be a mixer's name or one {name: {key: value}}"),
    ([WINDOW, "d_model=${d_modl}"], "d_model=${d_modl}: unknown key d_modl; did you mean d_model?"),
    ([WINDOW, "learning_rate=0.1"], "unknown key learning_rate; there are adaptation, "),
    ([WINDOW, "model.layers=[base_cnv, mixer]"], "unknown layer base_cnv; did you mean base_conv?"),
    ([WINDOW, "d_model=abc"], "d_model (='abc') must be an integer."),
    ([WINDOW, "d_model=0"], "d_model (=0) must be positive"),
    ([WINDOW, "mixer.window=wide"], "mixer.window (='wide') must be an integer."),
    ([WINDOW, "mixer.d_model=32"], "mixer.d_model (=32) must equal d_model (=16): set d_model alone."),
    ([WINDOW, "mixer.num_heads=3"], "d_model (=16) must be a positive multiple of num_heads (=3)."),
    ([WINDOW, "n_layers=0"], "n_layers (=0) must be positive"),
    (
        [WINDOW, "n_layers=1"],
        "n_layers (=1) never reaches mixer in model.layers (=base_conv,mixer): set n_layers",
    ),
    ([WINDOW, "model.layers=[attention]"], "model.layers lacks mixer=sliding_window: put mixer into"),
    ([WINDOW, "mixer.about.layers=[base_conv]"], "model.layers lacks mixer=sliding_window"),
    ([WINDOW, "lr=inf"], "lr (=inf) must be positive and finite"),
    ([WINDOW, "lr=fast"], "lr (='fast') must be a number."),
    ([WINDOW, "optim.betas=[0.9]"], "optim.betas (=[0.9]) must be two numbers"),
    ([WINDOW, "loss=some"], "loss (='some') must be one of answers, all."),
    ([WINDOW, "max_examples=0"], "max_examples (=0) must be at least 1."),
    ([WINDOW, "task=mqar_single", "task.num_kv_pairs=17"], "must be at most seq_len (=64)"),
    ([WINDOW, "task.vocab_size=8"], "task.vocab_size (=8)"),
    ([WINDOW, "task.filler=none"], "task.filler (='none') must be one of safe, random, blank"),
    (["mixer=se_attn", "mixer.block_size=3"], "multiple of"),
    ([WINDOW, "model.learned_positions=8"], "model.learned_positions (=8)"),
    ([WINDOW, "~mixer.window"], "mixer.window must be given"),
    ([WINDOW, "kernels=fast"], "kernels (='fast') must be one of auto, reference, triton, package."),
    ([WINDOW, "kernels=triton"], "kernels (=triton) needs trainer.accelerator=gpu, and it is cpu: use"),
    ([WINDOW, "kernels=package"], "kernels (=package) needs trainer.accelerator=gpu, and it is cpu: use"),
    ([WINDOW, "lr=["], "cannot read lr=["),
    ([WINDOW, "results="], "results (='') must name a folder, such as results/demo."),
    ([WINDOW, "results=/proc/zoo"], "results (=/proc/zoo) must be a folder that can be written to"),
]

COMMANDS = [
    ([WINDOW, "hydra/launcher=slurm"], "hydra/launcher=slurm is for sweeps, and one cell would run in this"),
    ([WINDOW, "hydra/launcher=lokal"], "unknown hydra/launcher lokal; did you mean local?"),
    ([WINDOW, "hydra.launcher.n_worker=1"], "did you mean hydra.launcher.n_workers?"),
    ([WINDOW, "lr=0"], "lr (=0) must be positive"),
    ([WINDOW, "-m", "lr=0,1"], "lr (=0) must be positive"),  # -m may stand anywhere
    ([WINDOW, "mixer.window=2,4"], "mixer.window=2,4 names several values: add -m to run a cell for each."),
    (["based"], "cannot read based: a word is key=value, such as mixer=based;"),
    (["mixer=based,"], "cannot read mixer=based,: a word is key=value"),
    (["mixer="], "unknown mixer ''. (there are: "),
    # what Hydra would answer
    ([WINDOW, "-m", "adaptation={recipe: lora}"], "key adaptation takes a name first, adaptation=NAME; then"),
    ([WINDOW, "-m", "seed=0,1", "--cfg", "job"], "--cfg shows one cell: leave out -m"),
    ([WINDOW, "-m", "hydra.launcher._target_=os.system"], "launcher._target_ (=os.system) must name a plug"),
    (
        [WINDOW, "-m", "hydra.sweeper._target_=os.system"],
        "sweeper._target_ (=os.system) must name a plugin of Hydra",
    ),
]
GRIDS = "hydra.sweeper.grids="
GRID = "# @package hydra.sweeper\ngrids:\n  - "  # how the yaml of a sweep begins

BAD_SWEEPS = [
    (["sweep=nope"], "unknown sweep nope. (there are: "),
    ([WINDOW, "lr=0", "seed=1,2", "seed=1,2"], "lr (=0) must be positive and finite. [2 cells;"),
    ([WINDOW, "results=a,b"], "results must have one value in a sweep, as no run id tells it: give a comma"),
    ([WINDOW, "keep_weights=true,false", "seed=1,2"], "keep_weights must have one value in a sweep"),
    ([WINDOW, "rerun=true,false"], "rerun must have one value in a sweep"),
    ([WINDOW, "hydra.launcher.n_workers=1,2"], "n_workers=1,2 names several values: all cells share it"),
    (["sweep=based_fg2"], "unknown sweep based_fg2; did you mean based_fig2?"),
    (["sweep=based_fig2,state_scaling"], "sweep=based_fig2,state_scaling names several sweeps: give one a"),
    ([WINDOW, "seed=range(0)"], "seed=range(0) has no values: give one, or leave the key out."),
    ([GRIDS + "[{mixer: []}]"], "mixer in grid 1 has no values: give one, or leave the key out."),
    ([GRIDS + "[{mixer: based, seed: 'range(0)'}]"], "seed in grid 1 has no values"),
    ([GRIDS + "[{mixer: []}]", WINDOW], "mixer in grid 1 has no values"),
    (["hydra.sweeper.grid=[{mixer: based}]"], "unknown key hydra.sweeper.grid; did you mean"),
    ([GRIDS + "3"], "grids (=3) must be a list of {key: values}."),
    ([WINDOW, "hydra.sweeper.exclude=[{mixer: sliding_window}]"], "exclude removes all 1 cells of the sweep"),
    ([WINDOW, "seed=1,2", "seed=3"], "seed is given twice, the second time as seed=3: give its values"),
    (
        [GRIDS + "[{mixer: based, zip: {seed: [1, 2], lr: [0.1]}}]"],
        "zip in grid 1 needs keys with equally many values: seed has 2, lr has 1.",
    ),
    (
        [GRIDS + "[{mixer: based, seed: [1, 2], zip: {seed: [1, 2], lr: [0.1, 0.2]}}]"],
        "seed stands twice in grid 1: an axis is swept or zipped, and once.",
    ),
    (
        [GRIDS + "[{mixer: based, zip: {seed: [1, 2], lr: [0.1, 0.2]}}]", "seed=1,2,3"],
        "seed is zipped with lr: give 2 values, or one, or all of these keys.",
    ),
    (
        [WINDOW, "hydra.sweeper.exclude=[{sed: 1}]", "seed=1,2"],
        "unknown axis sed; did you mean seed? [exclude]",
    ),
]
COMMANDS += [(["-m", *words], message) for words, message in BAD_SWEEPS]
COMMANDS += [
    (["-m", WINDOW, f"hydra.launcher.n_workers={n}"], f"n_workers (={n}) must be a positive integer or auto.")
    for n in ("0", "many", "1.5")
]
COMPOSER = composer(TOYS)


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_cell_is_refused_in_one_line(cwd: Path, words: list[str], message: str):
    with refusal(message):
        run_one(COMPOSER, [*small(words), *words])
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize(("words", "message"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_a_bad_command_is_refused_and_starts_nothing(zoo: Zoo, cwd: Path, words: list[str], message: str):
    assert message in zoo.refused(*small(words), *words)
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("words", [["--mixer", "based"], ["mixer=based", "--lr=1"]], ids=" ".join)
def test_a_setting_with_dashes_is_refused(zoo: Zoo, words: list[str], capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        zoo(*words)
    (line,) = capfd.readouterr().err.splitlines()
    assert re.search(r"^--(mixer|lr=1) is no option: a setting has no dashes, (mixer|lr)=VALUE\.$", line)


def small(words: list[str]) -> list[str]:
    other_task = any(word.startswith("task=") for word in words)
    return [word for word in SMALL if not (other_task and word.startswith("task."))]


def test_a_sweep_lists_every_bad_cell_and_starts_none(zoo: Zoo, tmp_path: Path):
    code, _, err = zoo("-m", *SMALL, WINDOW, "d_model=15,16", "mixer.num_heads=1,4", "lr=0,1e-3")
    assert code == 2
    cell = "experiment=smoke d_model=15 task.vocab_size=128 mixer=sliding_window"
    assert sorted(err.splitlines()) == [
        f"d_model (=15) must be a positive multiple of num_heads (=4). [{cell} mixer.num_heads=4 lr=0.001]",
        f"lr (=0) must be positive and finite. [4 cells; the first: {cell} mixer.num_heads=1 lr=0]",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_missing_gpu_is_refused(zoo: Zoo, cwd: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    message = "trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."
    assert message in zoo.refused("-m", *SMALL, WINDOW, "trainer=cpu,gpu")
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("mode", [[], ["-m", "seed=0,1"]])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("last.ckpt", '{"schema": 1, "run', "delete it"),
        ("result.json", '{"schema": 1, "run', "move its folder away"),
        ("result.json", '{"schema": 0}', "has schema 0, this version reads schema 2 and 3: keep it, and"),
    ],
)
def test_a_damaged_or_old_file_is_refused(zoo: Zoo, mode: list[str], name: str, text: str, message: str):
    """The file is neither read as a result nor overwritten."""
    path = written(composer().cell([*SMALL, WINDOW]).folder / name, text)
    err = zoo.refused(*mode, *SMALL, WINDOW)
    assert str(path) in err and message in err
    assert [*path.parent.iterdir()] == [path] and path.read_text() == text


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("mixer", "- a", "mixer/bad.yaml must hold {key: value}"),
        ("mixer", "a: &x [*x]", "something in it holds itself"),
        ("mixer", "!!python/object:os.system {}", "could not determine a constructor"),
        ("mixer", "a: [", "bad.yaml, line 2: "),
        ("experiment", "# @package _global_\noptim: {max_epoch: 1}\nsead: 1", "key sead; did you mean seed?"),
        ("sweep", f"{GRID}{{mixer: based, dmodel: [16, 32]}}", "unknown key dmodel; did you mean d_model?"),
        (
            "sweep",
            "# @package hydra.sweeper\naxis: {seed: [0, 1]}",
            "unknown key hydra.sweeper.axis; did you mean hydra.sweeper.axes?",
        ),
        ("sweep", "axes: {seed: 1}", "the first line of sweep/NAME.yaml must be '# @package _global_'."),
        (
            "sweep",
            "# @package hydra.sweeper\ngrids: {seed: [1]}",
            "config: Cannot merge DictConfig with ListConfig: a list",
        ),
        ("sweep", "# @package _global_\ndefaults: [/experiment: smoke]", "write `- /experiment/NAME`"),
        ("sweep", f"{GRID}{{mixer: based", "bad.yaml, line 4: expected"),
    ],
)
def test_a_broken_yaml_is_refused(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str, message: str
):
    written(tmp_path / kind / "bad.yaml", text + "\n")
    monkeypatch.setattr(sweeps, "SWEEPS_PATH", f"zoo-sweeps://{tmp_path / 'sweep'}")
    mode = ["-m"] if kind == "sweep" else []
    assert message in zoo.refused("--config-dir", str(tmp_path), *mode, *SMALL, f"{kind}=bad")
