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
# # Anatomy of a state
#
# A model that reads a sequence token by token can answer from two places only: the token in front of it,
# and what it has kept of the earlier ones. What it has kept is its **state**, and the size of the state is
# the horizontal axis of every picture here. So it should be no matter of opinion what belongs to it.
#
# In this notebook we take three mixers in hand, feed them one token after the other, open what they keep,
# count it, throw it away, change single numbers in it and look at what that does. Nothing is trained: all
# of it holds for any weights.

# %%
from typing import Any

import matplotlib
import pandas as pd
import torch
from IPython.display import Image
from torch import Tensor

from analysis.drawing import page
from analysis.drawing.style import SCREEN, rc
from zoo.launch.state_table import held
from zoo.mixers import Attention, LinearAttention, SlidingWindow
from zoo.mixers.feature_maps import PosElu
from zoo.model import seeded

torch.set_num_threads(1)  # nothing here is large
matplotlib.rcParams.update(rc(SCREEN))
D_MODEL, WINDOW, FEATURE_DIM = 8, 6, 4
TOKENS = 20

# %% [markdown]
# Three ways to remember. Attention keeps every token's key and value. A sliding window keeps those of the
# last few. Linear attention adds each token's key, times its value, to a matrix, and keeps the matrix.
#
# In float64, so that "the same" can mean the same.

# %%
with seeded(0, "mixers"):
    MIXERS = {
        "attention": Attention(d_model=D_MODEL),
        "sliding window": SlidingWindow(d_model=D_MODEL, num_heads=1, window=WINDOW),
        "linear attention": LinearAttention(
            d_model=D_MODEL, num_heads=1, feature_dim=FEATURE_DIM, feature_map=PosElu
        ),
    }
for mixer in MIXERS.values():
    mixer.double().requires_grad_(False)
rng = torch.Generator().manual_seed(0)
x = torch.randn(1, TOKENS, D_MODEL, dtype=torch.float64, generator=rng)  # batch, time, width

# %% [markdown]
# ## Step by hand
#
# Every mixer has one method that matters: `y, state = mixer.extend(x, state)`. It mixes the tokens of `x`
# after all that `state` remembers; `None` is the start of a sequence. Let us give it one token at a time
# and open the state after the first, the second and the tenth.
#
# Look at the shapes (batch, heads, tokens, channels; for linear attention features in the place of tokens):
# attention's grow by one token a step, the window's grow and then stop, and those of linear attention never
# move.

# %%
COUNTERS = "a count of tokens, no memory"


def opened(state: Any) -> dict[str, str]:
    """Field -> its shape."""
    fields = state._asdict()  # every state is a NamedTuple
    return {key: str([*part.shape]) if isinstance(part, Tensor) else COUNTERS for key, part in fields.items()}


rows = []
for name, mixer in MIXERS.items():
    state = None
    for t in range(10):
        y, state = mixer.extend(x[:, t : t + 1], state)
        if t + 1 in (1, 2, 10):
            rows += [(name, field, t + 1, shape) for field, shape in opened(state).items()]
shapes = pd.DataFrame(rows, columns=["mixer", "field", "tokens", "shape"])
by_tokens = shapes.pivot(index=["mixer", "field"], columns="tokens", values="shape")
by_tokens.reindex([*MIXERS], level="mixer").rename_axis(columns="tokens read:")

# %% [markdown]
# ## Count it
#
# `state_size(n).resident` is what a mixer says that it keeps after `n` tokens, in scalars per sequence. We
# need not believe it: `held` counts the elements of the tensors in our hands. (A plain Python integer, such
# as the number of tokens read, is no memory of what they were, and does not count.)
#
# Look at the last column: the two counts agree at every length. This is a test in this project, for every
# mixer and at every length where something could change.

# %%
rows = []
for name, mixer in MIXERS.items():
    state = None
    for t in range(TOKENS):
        y, state = mixer.extend(x[:, t : t + 1], state)
        rows.append((name, t + 1, held(state), mixer.state_size(t + 1).resident))
counts = pd.DataFrame(rows, columns=["mixer", "tokens", "counted", "reported"])
counts["agree"] = counts["counted"] == counts["reported"]
counts[counts["tokens"].isin([1, 5, 10, 20])].set_index(["mixer", "tokens"])

# %%
assert all(counts["agree"])
figure = page.new(6.0, 3.2)
ax = figure.add_subplot()
for name, group in counts.groupby("mixer", sort=False):
    (line,) = ax.plot(group["tokens"], group["counted"], marker="o", markersize=3)
    last = group.iloc[-1]
    ax.annotate(
        str(name),
        (last["tokens"], last["counted"]),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=line.get_color(),
    )
ax.set(xlabel="tokens read", ylabel="scalars kept", xlim=(0, TOKENS * 1.35), ylim=(0, None))
ax.set_xticks(range(0, TOKENS + 1, 5))
Image(page.png(figure), width=600)

# %% [markdown]
# For the first two tokens linear attention keeps the most of the three! A fixed state is no small state; it
# is one that does not grow. Where the lines cross depends on the sizes, and that is why our pictures have
# an axis for it.
#
# ## Nothing else is remembered: the split law
#
# Is the state really all there is? Cut the sequence anywhere, give the second part nothing but the state
# that the first part left, and compare with reading it in one go. If a mixer kept anything elsewhere, or
# looked ahead, the two would differ.
#
# The left columns carry the state across the cut: nothing but rounding, wherever the cut is. The right ones
# throw it away (`None` in its place) and are far off, even where only one token is left to be read.


# %%
def difference(mixer, cut: int, carry: bool) -> float:
    """The largest difference, in any output after the cut, from reading all in one go."""
    _, state = mixer.extend(x[:, :cut])
    tail, _ = mixer.extend(x[:, cut:], state if carry else None)
    return (tail - mixer(x)[:, cut:]).abs().max().item()


cuts = {
    (what, name): {cut: difference(mixer, cut, carry) for cut in range(1, TOKENS)}
    for what, carry in (("state carried", True), ("state thrown away", False))
    for name, mixer in MIXERS.items()
}
law = pd.DataFrame(cuts).rename_axis("cut after token")
assert law["state carried"].to_numpy().max() < 1e-12
law.loc[[1, 5, 10, 15, 19]].map("{:.0e}".format)

# %% [markdown]
# ## Every number in it is alive
#
# A state could also be padded: zeros that are carried along, or keys that nobody will ever look at. They
# would make a mixer look larger than it is. So we change one scalar of the state, go on reading, and see
# how far the later outputs move. What moves none is no memory and must not be kept.
#
# Below, on the left, the matrix of linear attention: every square is one of its scalars, and the darker it
# is the further the next ten outputs move when it changes. None is white. On the right the keys of the
# sliding window after seven tokens, of which it keeps five; and, as an experiment, we have smuggled in the
# one before those. It is white: the next token sees itself and five others, so a window of six has no use
# for a sixth key. It is dead, and to count it would be a mistake of one token. (The published counts of
# sliding windows make it.)


# %%
def reach(mixer, state, field: str) -> Tensor:
    """For each scalar of a field: how far the next ten outputs move when it grows by a tenth."""
    part, after = getattr(state, field), x[:, 10:]
    before, _ = mixer.extend(after, state)
    moved = torch.zeros(part[0].numel(), dtype=torch.float64)
    for i in range(len(moved)):
        bump = torch.zeros_like(moved)
        bump[i] = 0.1
        changed = state._replace(**{field: part + bump.view_as(part)})
        moved[i] = (mixer.extend(after, changed)[0] - before).abs().max()
    return moved.view_as(part)


linear, local = MIXERS["linear attention"], MIXERS["sliding window"]
_, memory = linear.extend(x[:, :10])
_, view = local.extend(x[:, :7])
# query, key and value of token 2, which the window has dropped
oldest = local.get_submodule("qkv")(x[:, 1:2])
padded = view._replace(k=torch.cat([oldest[1], view.k], 2), v=torch.cat([oldest[2], view.v], 2))
alive = {
    "the matrix of linear attention": reach(linear, memory, "kv")[0, 0],
    "keys of a sliding window, and one more": reach(local, padded, "k")[0, 0].flip(0),
}
{what: f"{int((moved > 0).sum())} of {moved.numel()} scalars are alive" for what, moved in alive.items()}

# %%
figure, images = page.new(7.5, 2.8), []
for ax, (what, moved) in zip(figure.subplots(1, 2), alive.items(), strict=True):
    images.append(ax.imshow(moved.log10().clamp(min=-5), cmap="Greys", vmin=-5, vmax=-2))
    numbers = range(1, len(moved) + 1)
    ax.set_yticks(range(len(moved)), [str(n) for n in numbers])
    ax.set(title=what, xlabel="channel", ylabel="feature" if "matrix" in what else "tokens ago", xticks=[])
    ax.grid(False)
figure.colorbar(images[0], ax=figure.axes, label="log10 of how far outputs move", shrink=0.8)
Image(page.png(figure), width=760)

# %% [markdown]
# ## What a window forgets
#
# The same experiment on the inputs: put another token at place s, and see how far output t moves.
# Attention's outputs depend on all that came before them. The window's depend on its last six tokens and not
# at all on what lies behind: no training brings that back, and this is what the column `coverage` in the
# records says of each slice. Linear attention depends on everything, but all of it has to share one matrix.
#
# The red line is `mixer.visible`, asked for each output alone: what the mixer declares that it can see.
# Everything above it is white: nothing looks ahead.


# %%
def influence(mixer) -> Tensor:
    """[t, s]: how far output t moves when token s is another."""
    others = x.repeat(TOKENS, 1, 1)  # row s is the sequence with another token s
    others[range(TOKENS), range(TOKENS)] = torch.randn(TOKENS, D_MODEL, dtype=torch.float64, generator=rng)
    return (mixer(others) - mixer(x)).abs().amax(-1).T


figure, images = page.new(9.0, 3.2), []
box, ticks = (0.5, TOKENS + 0.5, 0.5, TOKENS + 0.5), [1, 5, 10, 15, 20]
for ax, (name, mixer) in zip(figure.subplots(1, 3, sharey=True), MIXERS.items(), strict=True):
    found, seen = influence(mixer), mixer.visible(torch.eye(TOKENS) > 0)
    assert seen.equal(found > 1e-12)  # what is below is rounding
    images.append(ax.imshow(found.log10().clamp(min=-3).flip(0), cmap="Greys", vmin=-3, vmax=0, extent=box))
    edges = seen.double().repeat_interleave(50, 0).repeat_interleave(50, 1)
    ax.contour(edges, levels=[0.5], colors="tab:red", linewidths=1, extent=box)
    ax.set(title=name, xlabel="token s", xticks=ticks, yticks=ticks, ylim=(TOKENS + 0.5, 0.5))
    ax.grid(False)
figure.axes[0].set_ylabel("output t")
figure.colorbar(images[0], ax=figure.axes, label="log10 of how far it moves", shrink=0.8)
Image(page.png(figure), width=900)

# %% [markdown]
# ## What this buys
#
# - Counted, not declared: `state_resident` in every record is the number of scalars that we have just had
#   in our hands. `python -m zoo.plan 'mixer=glob(*)'` prints it for every mixer, formula and count.
# - The three experiments (cut it, count it, change it) are the laws in `tests/test_mixer_laws.py`. They run
#   on every mixer without knowing its name. `add_your_own_mixer.ipynb` runs them on one of yours.
# - What the size of a state does to recall: `pareto.ipynb`.
