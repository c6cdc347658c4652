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
# # Add your own task
#
# From an empty file to a picture: write a task, look at its rows, let the laws look at it (first with a
# mistake in it), train three mixers on it, and see how far back each of them remembers. It takes ten
# minutes to read, and about one to run on one core.
#
# All files go to a temporary folder, so nothing here touches the checkout. Two are needed, as for a
# mixer: a Python file with a class, and a yaml that names it. (To contribute a task, the same two go to
# `zoo/tasks/` and `conf/task/`; the tests then run the laws over it.)

# %%
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from IPython.display import Code, Image

import analysis
from analysis.drawing import page
from analysis.drawing.style import SCREEN
from analysis.figures.gallery import Study, draw
from zoo.tasks.__main__ import main

ROOT = Path(analysis.__file__).resolve().parent.parent
temporary = TemporaryDirectory()
HOME = Path(temporary.name)
CONF, RESULTS = HOME / "my_conf", HOME / "results"
sys.path.insert(0, str(HOME))


def write(name: str, text: str) -> Code:
    """Put text into a file, and show it."""
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Code(text, language="python" if path.suffix == ".py" else "yaml")


def tasks(*words: str) -> None:
    """What `python -m zoo.tasks WORDS --config-dir my_conf` prints."""
    with suppress(SystemExit):
        main([*words, "--config-dir", str(CONF)])


# %% [markdown]
# ## The idea
#
# A row is random tokens with a mark somewhere among them, and a question in the last place: what stood just
# before the mark? The answer is one token, as far back as the mark is.
#
# ## The class
#
# `Mixture` reads the segments of the yaml. Three methods are left to write. `_rows` makes some examples
# of a segment: `path` is (seed, split, segment), and with `stream`, `bits` and `below` every random
# number is a hash of it and of the example's number. So no batch size, worker or device changes the data.
# `chance` is what the best guess scores that knows the task and not the row. `oracle` is an exact program
# that answers from what stands in a row; it never sees what comes after the place where it is asked.
#
# Look at `groups`: the task says how far back each answer stands, and scores are told apart by it.

# %%
TASK = '''"""What stood before the mark? Random tokens, a mark among them, a question in the last place."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.counter_rng import below, bits, stream
from zoo.tasks.base import Batch, Segment
from zoo.tasks.groups import Distance
from zoo.tasks.mixture import Load, Mixture

QUESTION, MARK, FIRST = 0, 1, 2  # FIRST: from it on, tokens of the row
TOKENS, PLACE = 0, 1  # streams of random numbers


class BeforeTheMark(Mixture):
    groups = {"distance": Distance()}

    def _rows(self, load: Load, path: tuple[int, ...], examples: Int[Tensor, " B"]) -> Batch:
        last = load.seq_len - 1
        drawn = bits(stream(*path, TOKENS), examples, load.seq_len)
        inputs = FIRST + below(drawn, self.vocab_size - FIRST)
        mark = 1 + below(bits(stream(*path, PLACE), examples, 1), last - 1)  # [B 1], in 1 .. last - 1
        inputs.scatter_(1, mark, MARK)
        inputs[:, last] = QUESTION
        asked = torch.full_like(mark, last)
        return Batch(inputs, asked, inputs.gather(1, mark - 1), {"distance": asked - (mark - 1)})

    def chance(self, segment: Segment) -> float:
        return 1 / (self.vocab_size - FIRST)

    def oracle(self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]) -> Int[Tensor, "B A"]:
        mark = (inputs == MARK).long().argmax(1, keepdim=True)
        return inputs.gather(1, (mark - 1).expand_as(positions))
'''
write("my_task.py", TASK)

# %% [markdown]
# ## The yaml
#
# It names the class, its settings and the segments of its three splits, and it is the registration: from
# now on `task=before_the_mark` asks for it. Training rows are 16 and 32 tokens long, test rows also 64.

# %%
YAML = """_target_: my_task.BeforeTheMark
seed: ${seed}
vocab_size: 34
data: stream
order: interleaved
train: [{seq_len: 16, num_examples: 9600}, {seq_len: 32, num_examples: 9600}]
valid: [{seq_len: 32, num_examples: 256}]
test: [{seq_len: 32, num_examples: 512}, {seq_len: 64, num_examples: 4096}]
"""
write("my_conf/task/before_the_mark.yaml", YAML)

# %% [markdown]
# Rows, with what is asked. Check one by hand: the token before `1` is the answer at the last place.

# %%
tasks("before_the_mark", "--show", "1")

# %% [markdown]
# ## The laws, on a mistake
#
# The laws hold for every task: the oracle is always right, and it is right from what stands before the
# question; a guess scores `chance`; the same bytes come whatever the batch; train, validation and test
# never meet; no row gives its answer away. They need no training.
#
# To see them bite, we draw the tokens from a stream that forgets its split and segment: `path[:1]` in the
# place of `path`. Every row still looks right, training would work, and test scores would be too good:
# the rows of the test are those of training.

# %%
write("my_wrong_task.py", TASK.replace("*path", "*path[:1]"))
write("my_conf/task/wrong.yaml", YAML.replace("my_task", "my_wrong_task"))
tasks("wrong", "--laws")

# %% [markdown]
# Now as it should be.

# %%
tasks("before_the_mark", "--laws")

# %% [markdown]
# ## Train on it
#
# Attention, which keeps every token; a window of 9, which sees eight tokens back; and Based, whose state
# has the same size however long the row is. The same command again would run nothing, because every cell
# is done.

# %%
write(
    "my_conf/experiment/marks.yaml",
    """# @package _global_
defaults:
  - override /task: before_the_mark
d_model: 32
lr: 0.01
optim: {max_epochs: 2}
hydra:
  sweeper:
    grids:
      - {mixer: attention}
      - {mixer: sliding_window, mixer.window: 9}
      - {mixer: based, mixer.feature_dim: 4}
""",
)

# %%
plain = {"TERM": "dumb", "COLUMNS": "100", "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
words = [
    "-m",
    "--config-dir",
    str(CONF),
    "experiment=marks",
    f"results={RESULTS}",
    "hydra.launcher.n_workers=1",
]
command = [sys.executable, "-m", "zoo.run", *words]
done = subprocess.run(command, cwd=ROOT, env=os.environ | plain, capture_output=True, text=True)
assert "accuracy on" in done.stdout, done.stdout + done.stderr
print(done.stdout[done.stdout.index("accuracy on") :])

# %% [markdown]
# ## How far back
#
# The picture asks the rows of 64 tokens, twice as long as any in training, by distance. The window is
# right up to its edge and at chance beyond it. The two others are right at every distance: a single answer
# is little to keep, even for a state of a few hundred scalars.

# %%
picture = draw("distance", Study(RESULTS), SCREEN)
Image(page.png(picture.figure), width=900)

# %% [markdown]
# ## What this is, and what not
#
# One seed, one learning rate and 600 steps show that the task can be learned. For a claim:
#
# - `seed=0,1,2` and `lr=1e-3,3e-3,1e-2`; the rate is then chosen on the validation split.
# - a load beside the length: `ar_single.py` in `zoo/tasks/` is a task of one file whose segments say how
#   many pairs a row holds, and pictures then draw accuracy against it.
# - `python -m zoo.evaluate results evaluation=extrapolation` asks the trained cells for rows up to 16
#   times as long.

# %%
temporary.cleanup()
