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
# # How much recall does a scalar of memory buy?
#
# Every model here reads a sequence token by token and keeps a memory of what it has read. Some memories
# grow with the sequence (attention keeps every key and value), some never do (linear attention and
# state-space models keep a fixed number of scalars). The task asks for something said earlier. So the
# question of this notebook is: **how many of the questions does a model answer, and how large a memory
# did it need for that?**
#
# It opens on the records of `make demo`. To look at others, set the environment variable `ZOO_RESULTS` to
# the folder that `python -m zoo.run` wrote to.

# %%
import os
from pathlib import Path

from IPython.display import Image, Markdown

import analysis
from analysis import cells, curves, figure, learning_rate, page
from analysis.pareto import pareto
from zoo.results import load, load_metrics

ROOT = Path(analysis.__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("ZOO_RESULTS", ROOT / "results" / "demo"))

# %% [markdown]
# ## The records
#
# `load` gives one row for each cell (one training run), split and slice. A *slice* is one difficulty: so
# many pairs to remember in a sequence of such a length. The columns to know:
#
# - `accuracy`: of all answers asked for in this slice, the share that was right;
# - `state_resident`: the most scalars that decoding must keep for a sequence of `state_seq_len` tokens,
#   summed over all layers. This is the memory we pay for;
# - `state_touched`: the part of it that one decoding step reads. For most mixers that is all of it;
# - `coverage`: the share of the answers that the model can see at all. A sliding window forgets what has
#   left it, and no training can bring that back;
# - `status`: `diverged` marks a cell whose loss stopped being a number. It stays in the data.

# %%
table = cells.identify(load(RESULTS))
columns = ["mixer", "lr", "seed", "status", "split", "slice", "accuracy", "coverage", "state_resident"]
table[columns].head(8)

# %%
runs = table.drop_duplicates("run_id")
Markdown(
    f"**{len(runs)} cells**, {(runs['status'] == 'diverged').sum()} of them diverged: "
    f"{runs['point'].nunique()} points of {runs['mixer'].nunique()} mixers, "
    f"{runs['lr'].nunique()} learning rates, {runs['seed'].nunique()} seeds."
)

# %% [markdown]
# ## A learning rate for each point
#
# A comparison in which one model was tuned and another was not says nothing. So each point (a mixer, with
# its settings and its width) gets the learning rate whose **validation** accuracy, averaged over seeds,
# is best; a seed that diverged counts as 0. The test split is not asked. Where the best is the lowest or
# the highest that was tried, the true best may lie outside the grid, and the point is flagged.

# %%
names = runs.drop_duplicates("point").set_index("point")[["series", "d_model", "knobs"]]
profile = learning_rate.profile(table).join(names, on="point")
profile.pivot(index=["series", "d_model", "knobs"], columns="lr", values="valid_accuracy").round(3)

# %%
chosen = learning_rate.choose(table).join(names, on="point")
chosen[["series", "d_model", "knobs", "lr", "lrs", "lr_edge", "diverged_in_grid"]]

# %% [markdown]
# ## The frontier
#
# A point is on the frontier when no other point is at least as accurate with at most its memory. Only
# models that are causal, and whose decoding computes what training computed, take part.

# %%
shown = pareto(load(RESULTS))
shown.points.loc[
    shown.points["on_frontier"], ["series", "d_model", "knobs", "state_resident", "accuracy"]
].round(3)

# %% [markdown]
# ## The picture
#
# Up is better, left is cheaper. The grey stair is the frontier: the best accuracy to be had with that
# much memory. Thin lines join the points of one mixer while one knob is turned; the small numbers say to
# what. A dash is a window's coverage: a point above its dash would be a bug.

# %%
picture = figure.one_panel(shown.points, list(shown.by_slice))
Image(page.png(picture), width=900)

# %% [markdown]
# ## One slice at a time
#
# An average hides where a memory fills up. Below, each panel is one slice: with few pairs many models
# remember everything, and with more pairs a small memory gives way first.

# %%
Image(page.png(figure.small_multiples(shown.by_slice)), width=900)

# %% [markdown]
# ## How they learned
#
# Validation accuracy while training, for the points on the frontier: the first seed at the chosen
# learning rate. A curve that still climbs at its end says that the point is short of training, and not of
# memory.

# %%
on_frontier = shown.points.loc[shown.points["on_frontier"], ["point", "lr"]]
some = runs.merge(on_frontier, on=["point", "lr"]).sort_values("seed").drop_duplicates("point")
Image(page.png(curves.picture(curves.learning_curves(load_metrics(RESULTS)), some)), width=900)

# %% [markdown]
# ## Where to go from here
#
# - The same pictures as files: `python -m analysis.pareto RESULTS`, with `--slice`, `--axis` and
#   `--where` to choose.
# - Another axis: `pareto(load(RESULTS), axis="touched")` asks what one decoding step must read.
# - More points: `python -m zoo.run -m mixer=based,mamba d_model=64,128 lr=1e-3,3e-3,1e-2 seed=0,1,2
#   results=RESULTS`. Cells that are done are not done again.
