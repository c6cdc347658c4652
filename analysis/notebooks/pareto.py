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
# The records that it opens on come with the project: `docs/results/mini_based_fig2.zip`, three learning
# rates and three seeds, made by one command, which can be killed and typed again:
#
#     python -m zoo.run -m sweep=mini_based_fig2 results=results/mini
#
# To look at records of your own, set the environment variable `ZOO_RESULTS` to their folder (`make demo`
# writes to `results/demo`), or to an archive that `python -m zoo.archive` made of one.

# %%
import os
from pathlib import Path

from IPython.display import Image, Markdown

import analysis
from analysis.drawing import curves, figure, page
from analysis.drawing.style import SCREEN
from analysis.figures.gallery import Study, draw
from analysis.pareto import pareto
from analysis.records import cells
from analysis.statistics import learning_rate
from zoo.results.table import load, load_metrics

ROOT = Path(analysis.__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("ZOO_RESULTS", ROOT / "docs" / "results" / "mini_based_fig2.zip"))

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
#
# Look at how wide the profiles are. A point that recalls well at a single learning rate was lucky, or asks
# for a finer grid; one whose ring stands at an end of its line, with an arrow outwards, may do better yet.


# %%
def profiles() -> Image | Markdown:
    """The picture, where there is something to choose from."""
    if len(set(runs["lr"])) == 1:
        return Markdown("These cells have one learning rate. Nothing was tuned: no claim can rest on them.")
    return Image(page.png(draw("lr_profiles", Study(RESULTS), SCREEN).figure), width=1100)


profiles()

# %%
names = runs.drop_duplicates("point").set_index("point")[["series", "d_model", "knobs"]]
chosen = (
    learning_rate.choose(table).merge(learning_rate.good_range(table), on="point").join(names, on="point")
)
chosen[["series", "d_model", "knobs", "lr", "lr_edge", "good_low", "good_high", "diverged_in_grid"]]

# %% [markdown]
# ## The frontier
#
# A point is on the frontier when no other point is at least as accurate with at most its memory. Only
# models that are causal, and whose decoding computes what training computed, take part.
#
# Seeds differ, so three columns say how sure that is. `low` to `high` is the interval of the accuracy: of
# three seeds or more a bootstrap of 95 %, of two their range. `frontier_share` is how often the point is on
# the frontier when the seeds of all points are drawn again. Look at those with a share near a half: whether
# they belong there is not settled.

# %%
shown = pareto(load(RESULTS))
columns = [
    "series",
    "d_model",
    "knobs",
    "state_resident",
    "accuracy",
    "low",
    "high",
    "seeds",
    "frontier_share",
]
shown.points.loc[shown.points["on_frontier"], columns].sort_values("state_resident").round(3)

# %% [markdown]
# ## The picture
#
# Up is better, left is cheaper. The grey stair is the frontier: the best accuracy to be had with that
# much memory. Thin lines join the points of one mixer while one knob is turned; the small numbers say to
# what. Upright bars are the intervals. A dash is a window's coverage. What no model can do stands at the
# left, or in the legend where it is too far off: recall takes bits, and a scalar has 32 of them. Where some
# mixer reads less for one token than it keeps, a second panel asks the same of what it reads.
#
# A point above what is possible would be a mistake of the model or of our count. Every cell is tested for
# that. The list below the picture is of those that fail, and must be empty.

# %%
Image(page.png(shown.picture()), width=900)

# %%
list(shown.wrong)

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
# - Mixers against each other, seed by seed and at equal state; areas, capacities, exponents:
#   `python -m analysis.statistics RESULTS`.
# - Everything on one page to click through: `python -m analysis.report RESULTS`.
# - More points: `python -m zoo.run -m mixer=based,mamba d_model=64,128 lr=1e-3,3e-3,1e-2 seed=0,1,2
#   results=RESULTS`. Cells that are done are not done again. A mixer of your own:
#   `add_your_own_mixer.ipynb`.
