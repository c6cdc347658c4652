# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Add your own mixer
#
# From an empty file to a point in the picture: write a mixer, let the laws look at it, train it beside two
# known ones, and see how much it recalls for the memory that it keeps. It takes ten minutes to read, and
# about one to run on one core.
#
# All files go to a temporary folder, so nothing here touches the checkout. Two are needed: a Python file with
# a class, and a yaml that names it. (To contribute a mixer, the same two go to `zoo/mixers/` and
# `conf/mixer/`.)

# %%
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from IPython.display import Code, Image

import analysis
from analysis.drawing import page
from analysis.pareto import pareto
from analysis.records import cells
from zoo.results.table import load

ROOT = Path(analysis.__file__).resolve().parent.parent
temporary = TemporaryDirectory()
HOME = Path(temporary.name)
CONF, RESULTS = HOME / "my_conf", HOME / "results"


def write(name: str, text: str) -> Code:
    """Put text into a file, and show it."""
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Code(text, language="python" if path.suffix == ".py" else "yaml")


def run(*words: str | Path, **settings: str) -> str:
    """What `python -m WORDS` prints in the checkout, with our folder on the path."""
    plain = {"TERM": "dumb", "PY_COLORS": "0", "COLUMNS": "100"}
    environment = os.environ | plain | {"PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"} | settings
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


# %% [markdown]
# ## The idea
#
# A matrix memory that fades. Each token writes the product of a key and a value into a matrix, and each
# token's query reads from it; whatever was there before loses a little at every step:
#
# $$S_t = \lambda S_{t-1} + k_t v_t^\top, \qquad y_t = W_o\, S_t^\top q_t .$$
#
# What it keeps of a sequence is $S$, and that has a size that we choose: `feature_dim` times `d_model`.
#
# ## The class
#
# A mixer has three methods. `extend(x, state)` mixes new tokens, one or many, after all that the state
# remembers, and returns the new state. `state_size(seq_len)` says how many scalars it keeps. `forward(x)`,
# the path of training, is `extend` from the start unless we write something faster.
#
# To go through time with a loop would be slow. Here a part of a sequence is mixed at once: tokens of the part
# see each other through a matrix of weights, which fade with distance, and what was before them through
# `before`. Look at how `extend` takes all that it needs of the past from `state`, and leaves all of it there.

# %%
MIXER = '''"""A matrix memory that fades: S_t = decay S_{t-1} + k_t v_t^T and y_t = W_o S_t^T q_t."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.state import StateSize


class State(NamedTuple):
    memory: Tensor  # [batch, feature_dim, d_model]


class FadingMemory(Mixer[State]):
    def __init__(self, d_model: int, feature_dim: int, decay: float) -> None:
        super().__init__()
        self.d_model, self.feature_dim, self.decay = d_model, feature_dim, decay
        self.query = nn.Linear(d_model, feature_dim, bias=False)
        self.key = nn.Linear(d_model, feature_dim, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        before = x.new_zeros(len(x), self.feature_dim, self.d_model) if state is None else state.memory
        q, k, v = F.normalize(self.query(x), dim=-1), F.normalize(self.key(x), dim=-1), self.value(x)
        t = torch.arange(x.shape[1], device=x.device).to(torch.promote_types(x.dtype, torch.float32))[:, None]
        weights = (q @ k.mT) * (self.decay ** (t - t.T).clamp(min=0)).tril()
        y = weights @ v + self.decay ** (t + 1) * (q @ before)
        memory = self.decay ** len(t) * before + (self.decay ** (len(t) - 1 - t) * k).mT @ v
        return self.out_proj(y), State(memory)

    def state_size(self, seq_len: int) -> StateSize:
        held = self.feature_dim * self.d_model
        return StateSize(paper=None, resident=held, touched=held)
'''
write("my_mixer.py", MIXER)

# %% [markdown]
# ## The yaml
#
# It names the class and its settings, and it is the registration: from now on the mixer can be asked for by
# the name of this file. `about` is for people and pictures: a label, a family (which gives the colour), the
# knob that trades memory for recall, how layers are stacked (a short convolution, then the mixer, as in the
# published figures), and further settings under which the laws should hold.

# %%
write(
    "my_conf/mixer/my_mixer.yaml",
    """_target_: my_mixer.FadingMemory
d_model: ${d_model}
feature_dim: 16
decay: 0.98

about:
  label: Fading memory
  family: linear
  knob: {feature_dim: [8, 16]}
  layers: [base_conv, mixer]
  variants:
    - {feature_dim: 5, decay: 0.5}
""",
)

# %% [markdown]
# ## The laws, on a mistake
#
# There are laws that every mixer must keep, whatever it computes: cut a sequence anywhere, and nothing
# changes; what `state_size` says is what the state holds; every scalar of it matters to some later output; no
# output moves when the future does; and more.
#
# To see them bite, we first forget something: the old memory is to fade by as many steps as there were new
# tokens, and now it does not. No single call shows that. Training would work, its loss would fall, and only
# decoding would be another model than the one that was trained. Look at which laws say so, and under which
# settings.


# %%
def laws() -> str:
    """What the laws say of our mixer: how many it keeps, and a line for each that it breaks."""
    return run("zoo.mixers", "--laws", "my_mixer", "--config-dir", CONF)


write("my_mixer.py", MIXER.replace("self.decay ** len(t) * before", "before"))
print(laws())

# %% [markdown]
# Now as it should be.

# %%
write("my_mixer.py", MIXER)
print(laws())

# %% [markdown]
# ## Train it beside two others
#
# Which cells to train is a yaml too. The task is associative recall: a sequence of 32 tokens shows 4 keys
# with their values, then asks for each key again. It is small, width 32 and 300 steps, so that a cell takes
# a few seconds. We set ourselves beside attention, which keeps every token, and linear attention, which is
# of our kind: a matrix too, but one that does not fade, with features that are never negative and a sum to
# divide by. Grids of settings make five cells.

# %%
write(
    "my_conf/experiment/first.yaml",
    """# @package _global_
# python -m zoo.run -m --config-dir my_conf experiment=first
defaults:
  - mini_load
task: {train_examples: 4800, valid_examples: 256, test_examples: 256}
d_model: 32
hydra:
  sweeper:
    grids:
      - {mixer: my_mixer, mixer.feature_dim: [8, 16]}
      - {mixer: linear_attention, mixer.feature_dim: [8, 16]}
      - {mixer: attention}
""",
)

# %% [markdown]
# The same command typed again would run nothing, because every cell is done; killed in between, it would go
# on where it stopped.

# %%
said = run("zoo.run", "-m", "--config-dir", CONF, "experiment=first", f"results={RESULTS}")
assert "accuracy on" in said, said
print(said[said.index("accuracy on") :])

# %% [markdown]
# ## The picture
#
# Up is better, left is cheaper. Our two points stand in it under the label from the yaml, in the colour of
# their family. Look at three things: whether ours lie on the frontier (the grey stair: nothing is better
# and at most as large); what the larger matrix buys; and the distance to linear attention, up or down, at
# nearly the same memory. The broken line at the left is no model but a rule of thumb, what a matrix of so
# many scalars holds at best: after so short a training all of us are far from it.


# %%
shown = pareto(load(RESULTS))
Image(page.png(shown.picture()), width=900)

# %%
columns = ["series", "knobs", "state_resident", "accuracy", "on_frontier"]
shown.points.loc[:, columns].sort_values("state_resident").round(3).set_index(["series", "knobs"])

# %% [markdown]
# Check one number by hand. The state of the whole model is that of its two layers: the convolution keeps the
# last tokens that it still needs, and ours the matrix, `feature_dim` times `d_model`. Nothing else is kept,
# and the laws have counted it on live tensors.

# %%
mine = cells.identify(load(RESULTS)).query("mixer == 'my_mixer'").drop_duplicates("run_id")
mine[["mixer.feature_dim", "d_model", "state_mixer_resident", "state_resident"]].set_index(
    "mixer.feature_dim"
)

# %% [markdown]
# ## What this is, and what not
#
# One seed, one learning rate and 300 steps show that the mixer works. They are no result. For one:
#
# - `seed=0,1,2` and `lr=1e-3,3e-3,1e-2` on the same command line; the learning rate is then chosen on a
#   validation split, and the picture shows the spread over seeds.
# - the loads of the published figures: `python -m zoo.run -m sweep=mini_based_fig2 mixer=my_mixer`, with
#   `--config-dir`, sets it beside all that has been measured there.
# - to contribute it: a formula of the state and the paper in `about`, and its equations once more, naively,
#   in `tests/definitions/`.
#
# `anatomy_of_a_state.ipynb` shows what the laws do, by hand.

# %%
temporary.cleanup()
