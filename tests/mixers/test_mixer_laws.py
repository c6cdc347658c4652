"""Every mixer keeps the laws of zoo.mixers.laws, and each law catches a mixer that breaks it.

No mixer is named: a new conf/mixer/*.yaml is tested on arrival.
"""

from pathlib import Path

import pytest

from tests.command import written
from tests.registry import cases
from zoo.mixers import laws
from zoo.mixers.__main__ import main
from zoo.mixers.cases import Case, build, mixer_yaml
from zoo.mixers.laws import LAWS, Law, title
from zoo.mixers.size_formula import evaluate


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_mixer_keeps_the_laws(case: Case):
    assert laws.broken(case) == []


YAML = "_target_: tests.toys.flawed.Flawed\nd_model: ${d_model}\nflaw: none\nabout: {state: d_model}\n"
FLAWS = {
    "its outputs are wider": laws.outputs_are_as_the_inputs_and_a_state_is_of_tensors,
    "its outputs are in double": laws.outputs_are_as_the_inputs_and_a_state_is_of_tensors,
    "its state has a dict": laws.outputs_are_as_the_inputs_and_a_state_is_of_tensors,
    "its size is a bare number": laws.outputs_are_as_the_inputs_and_a_state_is_of_tensors,
    "it forgets its state": laws.splitting_a_sequence_changes_nothing,
    "it is another one after 64 tokens": laws.chunks_inside_a_computation_are_not_seen,
    "it sees the future": laws.the_past_does_not_move_when_the_future_does,
    "it sees the length": laws.a_prefix_gives_the_same_outputs_as_the_whole,
    "it counts too little": laws.reported_size_is_what_the_state_holds,
    "it keeps what it never reads": laws.every_scalar_of_the_state_reaches_a_later_output,
    "it remembers more than it keeps": laws.the_past_acts_through_no_more_numbers_than_the_state_holds,
    "it keeps memory alive": laws.a_state_keeps_no_other_memory_alive,
    "it writes into its state": laws.a_state_can_go_on_twice,
    "it denies what it sees": laws.an_output_depends_on_what_is_visible_and_on_nothing_else,
    "it sees nothing of a long sequence": laws.the_view_of_one_output_is_cheap_in_a_long_sequence,
    "it makes noise": laws.evaluation_is_deterministic_and_rows_are_independent,
    "an idle parameter": laws.gradients_are_finite_and_every_parameter_is_used,
    "it branches on its input": laws.a_stacked_population_computes_what_its_members_compute,
    "a parameter that nobody draws": laws.initial_weights_are_the_mixers_own_and_depend_on_the_seed_alone,
    "it draws from torch's generator": laws.computing_leaves_torch_as_it_was,
}
IN_YAML = {  # what is added to it
    laws.settings_are_the_constructors_own_names: ("flaw: none", "flaw: none\nspare: 1"),
    laws.the_formula_of_the_state_is_what_the_state_holds: ("state: d_model", "state: 2 * d_model"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "mixer" / "flawed.yaml", YAML)
    written(tmp_path / "mixer" / "unreadable.yaml", "a: [")  # in nobody's way who does not name it
    return tmp_path


def test_a_sound_mixer_breaks_no_law(folder: Path):
    assert laws.broken(Case("flawed", {}, folder)) == []
    assert {*FLAWS.values(), *IN_YAML} == {*LAWS}, "each law catches something"


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_law_catches_a_mixer_that_breaks_it(flaw: str, folder: Path):
    lines = laws.broken(Case("flawed", {"flaw": flaw}, folder))
    assert [line for line in lines if line.startswith(f"{title(FLAWS[flaw])}: ")], lines


@pytest.mark.parametrize("law", IN_YAML, ids=title)
def test_a_law_catches_a_yaml_that_breaks_it(law: Law, folder: Path):
    (folder / "mixer" / "flawed.yaml").write_text(YAML.replace(*IN_YAML[law]))
    lines = laws.broken(Case("flawed", {}, folder))
    assert [line for line in lines if line.startswith(f"{title(law)}: ")], lines


def test_the_command_has_a_line_for_each_broken_law(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "mixer" / "flawed.yaml").write_text(YAML.replace("flaw: none", "flaw: it counts too little"))
    assert main(["--laws", "flawed", "--config-dir", str(folder)]) == 1
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == f"flawed: keeps {len(LAWS) - 3} of {len(LAWS)} laws"
    assert lines == [
        "    reported size is what the state holds: state_size(1).resident is 0, and the state holds 16",
        "    the formula of the state is what the state holds: about.state gives 16 after 1 tokens, "
        "and state_size 0",
        "    the past acts through no more numbers than the state holds: state_size(24).resident is 0, and 8 "
        "numbers or more act later",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("spare: 1", "spare is no argument of the constructor; no other law was tried"),
        ("d_model: wide", "in Flawed.__init__); no other law was tried"),
        ("about: {variants: [{spare: 1}]}", "about.variants of mixer=flawed names spare, no setting of it"),
    ],
)
def test_a_mixer_that_cannot_be_built_is_one_line(line: str, words: str, folder: Path, capsys):
    key = line.partition(":")[0]
    lines = [text for text in YAML.splitlines() if not text.startswith(key)]
    (folder / "mixer" / "flawed.yaml").write_text("\n".join([*lines, line]))
    assert main(["--laws", "flawed", "--config-dir", str(folder)]) == 1
    shown = [text for text in capsys.readouterr().out.splitlines() if text.startswith("    ")]
    assert len(shown) == 1 and words in shown[0]


def test_an_unknown_reference_in_a_yaml_is_refused(folder: Path):
    (folder / "mixer" / "flawed.yaml").write_text(YAML + "decay: ${nope}\n")
    with pytest.raises(SystemExit, match="error: Interpolation key 'nope' not found"):
        main(["--laws", "flawed", "--config-dir", str(folder)])


def test_the_command_refuses_an_unknown_mixer():
    with pytest.raises(SystemExit, match=r"error: unknown mixer manba; did you mean mamba\?"):
        main(["--laws", "manba"])


MIXER = build(Case("sliding_window", {"window": 5}))


@pytest.mark.parametrize(
    ("formula", "size"),
    [
        ("2 * qkv.head_dim * min(seq_len, window - 1)", 2 * 16 * 4),
        ("seq_len // window + seq_len % window - max(window, 2 ** 3)", 20 + 2 - 8),
        ("d_model if window == 5 else 0", 16),
        ("popcount(seq_len)", 4),
        ("(1 if window < 5 else 2) + (1 if window > 4 else 2)", 3),
    ],
)
def test_a_formula_may_hold_numbers_names_and_arithmetic(formula: str, size: int):
    assert evaluate(formula, MIXER, 102) == size


@pytest.mark.parametrize("formula", ["abs(window)", "[window]", "window / 2", "not window"])
def test_a_formula_with_anything_else_is_refused(formula: str):
    with pytest.raises(ValueError, match=r"about\.state \(=.*may not hold"):
        evaluate(formula, MIXER, 1)


def test_a_formula_for_another_mixer_is_an_error():
    with pytest.raises(AttributeError, match="feature_dim"):
        evaluate("feature_dim * 2", MIXER, 1)


@pytest.mark.parametrize(
    "case",
    [
        Case("moba", {"selection": "prev"}),
        Case("se_attn_capped", {"selection": "prefix"}),
        Case("se_attn_lm", {"summary": "attn_value"}),
    ],
    ids=str,
)
def test_a_setting_that_changes_the_state_is_in_the_formula(case: Case):
    mixer, formula = build(case), mixer_yaml(case.name)["about"]["state"]
    for n in range(1, 50):
        assert evaluate(formula, mixer, n) == mixer.state_size(n).resident, f"after {n}"
