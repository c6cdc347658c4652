"""What README says of adding a mixer, done: one file and one yaml in a folder of one's own, no more."""

import inspect
import sys
from pathlib import Path

import pytest

from tests import test_mixer_laws as laws
from tests.command import SMALL, Zoo, finish, start
from tests.registry import cases
from zoo import results

CODE = '''
"""An exponential moving average: y_t = out(s_t), s_t = decay * s_{t-1} + (1 - decay) * x_t."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.state import StateSize


class State(NamedTuple):
    s: Tensor


class Average(Mixer[State]):
    def __init__(self, d_model: int, decay: float) -> None:
        super().__init__()
        self.d_model, self.decay = d_model, decay
        self.out_proj = nn.Linear(d_model, d_model)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        s = torch.zeros_like(x[:, 0]) if state is None else state.s
        states = []
        for t in range(x.shape[1]):
            s = self.decay * s + (1 - self.decay) * x[:, t]
            states.append(s)
        return self.out_proj(torch.stack(states, dim=1)), State(s)

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(paper=None, resident=self.d_model, touched=self.d_model)
'''

YAML = """
_target_: my_mixer.Average
d_model: ${d_model}
decay: 0.9

about:
  label: Moving average
  family: ssm
  knob: {d_model: [16, 32]}
  layers: [base_conv, mixer]
  variants: [{decay: 0.5}]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_conf" / "mixer").mkdir(parents=True)
    (tmp_path / "my_mixer.py").write_text(CODE)
    (tmp_path / "my_conf" / "mixer" / "my_mixer.yaml").write_text(YAML)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_mixer", raising=False)
    monkeypatch.setattr("tests.command.TOYS", tmp_path / "my_conf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_runs_and_stands_in_the_results_under_its_label(mine: Path):
    code, out, err = finish(start(*SMALL, "mixer=my_mixer", cwd=mine, python_path=str(mine)))
    assert code == 0, err
    assert "Average(decay=0.9)" in out
    frame = results.load(mine / "results")
    assert set(zip(frame.mixer, frame.label, frame.family, strict=True)) == {
        ("my_mixer", "Moving average", "ssm")
    }
    assert set(frame["mixer.decay"]) == {0.9}


def test_a_glob_finds_it(mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    zoo = Zoo(monkeypatch, capfd)
    code, _, err = zoo("-m", *SMALL, "mixer=glob([my_*,sliding*])")
    assert code == 0, err
    assert set(results.load(mine / "results").label) == {"Moving average", "Sliding window"}


def test_the_laws_run_on_it(mine: Path):
    found = cases(mine / "my_conf")
    assert [str(case) for case in found] == ["my_mixer", "my_mixer[decay=0.5]"]
    tests = [law for name, law in inspect.getmembers(laws, inspect.isfunction) if name.startswith("test_")]
    assert len(tests) >= 9
    for case in found:
        for law in tests:
            law(case)


def test_the_laws_catch_a_mistake_in_it(mine: Path):
    (mine / "my_mixer.py").write_text(CODE.replace("else state.s", "else 0.9 * state.s"))
    with pytest.raises(AssertionError, match="cuts that disagree"):
        laws.test_splitting_a_sequence_changes_nothing(cases(mine / "my_conf")[0])


def test_a_misspelt_setting_of_it_is_met_with_its_own(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    code, _, err = Zoo(monkeypatch, capfd)(*SMALL, "mixer=my_mixer", "mixer.decai=0.5")
    assert (code, err) == (2, "unknown key mixer.decai; did you mean mixer.decay?\n")
