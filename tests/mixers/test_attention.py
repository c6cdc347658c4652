"""Forms of attention: limits, ties, sizes, numerics, and faults of public code."""

import pytest
import torch
from torch import Tensor

from tests.definitions.attention import positioned, project
from tests.mixers.built import X, built
from zoo.kernels.choice import kernels
from zoo.mixers import Attention, BigBird, DeepSeekSparseAttention, LlamaXL, ScatterBrain
from zoo.mixers.cases import Case, build
from zoo.mixers.positions import alibi_slopes, rotate
from zoo.mixers.se_attn import SEAttn

HEADS = {"d_model": 16, "num_heads": 4, "num_kv_heads": 2, "bias": False}


def test_dropout_is_for_training_and_leaves_whole_weights_out():
    mixer = Attention(d_model=8, dropout=0.5).double()
    with torch.no_grad():
        mixer.qkv.proj.weight.zero_()
        mixer.qkv.proj.bias.copy_(torch.ones(24))
        mixer.out_proj.weight.copy_(torch.eye(8))
        mixer.out_proj.bias.zero_()
    x = torch.zeros(4, 50, 8, dtype=torch.float64)
    with kernels("auto") as choice:
        y = mixer(x)  # token t: the sum of what is left of t + 1 equal weights, each doubled
        left = (y[..., 0] * torch.arange(1, 51) / 2).sum() / (4 * 50 * 51 / 2)
        assert choice.record() == {"attention": "reference"}
        torch.testing.assert_close(mixer.eval()(x), torch.ones_like(x))
        assert choice.record() == {"attention": "reference+sdpa"}
    assert 0.45 < left < 0.55


def test_a_sink_logit_far_below_is_none_and_far_above_takes_all():
    mixer, window = built("SinkLogit", **HEADS, window=6), built("SlidingWindow", **HEADS, window=6)
    mixer.load_state_dict(window.state_dict(), strict=False)
    torch.nn.init.constant_(mixer.sink, -1e4)
    torch.testing.assert_close(mixer(X), window(X))
    torch.nn.init.constant_(mixer.sink, 1e4)
    assert not mixer(X).any()


def test_rope_keeps_its_precision_and_its_dtype_far_out():
    x = torch.ones(1, 1, 4, 8, dtype=torch.bfloat16)
    assert rotate(x, 3001).dtype == torch.bfloat16
    exact = rotate(x.double(), 3001)
    torch.testing.assert_close(rotate(x, 3001).double(), exact, atol=0.01, rtol=0.01)


@pytest.mark.parametrize(
    ("num_heads", "exponents"),
    [(1, [8]), (2, [4, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8]), (3, [4, 8, 2]), (6, [2, 4, 6, 8, 1, 3])],
)
def test_alibi_slopes(num_heads: int, exponents: list[int]):
    assert alibi_slopes(num_heads).tolist() == [2.0**-e for e in exponents]


def test_in_training_no_gradient_crosses_into_the_segment_before():
    mixer = LlamaXL(d_model=8, num_heads=2, segment_len=4).double()
    x = torch.randn(1, 11, 8, dtype=torch.float64)
    x.requires_grad_()
    y = mixer(x)
    for t in range(11):
        (grad,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        reached = (grad[0] != 0).any(-1).nonzero().flatten().tolist()
        assert reached == list(range(t // 4 * 4, t + 1))
    torch.testing.assert_close(y, mixer.eval()(x))


@torch.no_grad()
@pytest.mark.parametrize("scale", [1, 30])
def test_weights_sum_to_one(scale: float):
    """Equal values come out as they are.  Two softmaxes, each by itself, would give twice that (zoology)."""
    mixer = ScatterBrain(d_model=8, num_heads=2, window=4, num_features=6).double()
    x = torch.randn(2, 300, 8).double()
    mixer.qkv.proj.weight[:16] *= scale
    mixer.out_proj.weight.copy_(torch.eye(8))
    q_k_v = mixer.qkv.forward
    mixer.qkv.forward = lambda *given, **named: (
        *q_k_v(*given, **named)[:2],
        torch.ones(2, 2, x.shape[1], 4).double(),
    )
    y, state = mixer.extend(x)
    torch.testing.assert_close(y, torch.ones_like(y))
    torch.testing.assert_close(mixer.extend(x, state)[0], torch.ones_like(y))


def test_features_that_vanish_do_not_disturb_the_window():
    """Keys far out have features of zero in float32: no weight, no NaN, rows that still sum to one."""
    mixer, x = ScatterBrain(d_model=8, num_heads=1, window=3, num_features=4), 1000 * torch.randn(1, 60, 8)
    x.requires_grad_()
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert (y[0, 10:].abs().amax(-1) > 1).all()


def test_the_pattern_is_a_function_of_seed_and_position_alone():
    """zoology draws its random entries anew at every call, in evaluation too."""
    make = {"d_model": 8, "num_heads": 1, "window": 3, "num_global": 2, "num_random": 6, "max_len": 40}
    torch.manual_seed(1)
    first = BigBird(**make)
    torch.manual_seed(2)
    again, other = BigBird(**make), BigBird(**make, seed=1)
    assert first.columns == again.columns != other.columns
    assert len(set(first.columns)) == 6 and min(first.columns) >= 2 and max(first.columns) < 40
    whole, part = (first.visible(torch.eye(n, dtype=torch.bool)) for n in (40, 25))
    assert torch.equal(whole[:25, :25], part)


def test_every_position_is_drawn_equally_often():
    make = {"d_model": 8, "num_heads": 1, "window": 1, "num_global": 1, "num_random": 5, "max_len": 11}
    with torch.device("meta"):  # no weights
        columns = [BigBird(**make, seed=seed).columns for seed in range(200)]
    counts = torch.tensor(columns).flatten().bincount(minlength=11)
    assert counts[0] == 0
    assert counts[1:].min() > 65 and counts[1:].max() < 135  # 100 expected, 7 a standard deviation


def test_a_whole_sequence_s_mask_is_made_once_and_those_of_other_lengths_stay():
    """A recorded step reads the memory that it was recorded on again."""
    mixer = BigBird(d_model=8, num_heads=2, window=4, num_global=1, num_random=2, max_len=16)
    x = torch.randn(1, 12, 8)
    first = mixer._places(0, 12, x.device)
    mixer(x[:, :7])
    parts = [
        mixer(x),
        torch.cat([(head := mixer.extend(x[:, :5]))[0], mixer.extend(x[:, 5:], head[1])[0]], 1),
    ]
    assert all(a is b for a, b in zip(first, mixer._places(0, 12, x.device), strict=True))
    torch.testing.assert_close(parts[0], parts[1])


def test_of_equal_scores_the_latest_is_chosen():
    """An indexer of zeros, as ReLU often is, leaves a window and not the first tokens."""
    mixer = DeepSeekSparseAttention(**HEADS, top_k=3).double()
    chosen = mixer._chosen(torch.zeros(1, 30, 30, dtype=torch.float64))[0]
    assert torch.equal(chosen, torch.ones(30, 30).tril().triu(-2).bool())


def test_an_indexer_trained_by_its_loss_chooses_what_attention_reads():
    torch.manual_seed(0)
    mixer = DeepSeekSparseAttention(d_model=16, num_heads=1, top_k=6).double()
    with torch.no_grad():
        mixer.qkv.proj.weight *= 4

    def covered() -> float:
        q, k, _ = mixer.qkv(X)
        weights = (q @ k.mT / 4).masked_fill(~torch.ones(30, 30).tril().bool(), -torch.inf).softmax(-1)[:, 0]
        parts = mixer.index_proj(X)
        chosen = mixer._chosen(mixer._scores(parts[..., 8:], mixer.index_norm(parts[..., :8])))
        return (weights * chosen).sum(-1).mean().item()

    before = covered()
    optimizer = torch.optim.Adam([*mixer.index_proj.parameters(), *mixer.index_norm.parameters()], lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        (0 * mixer(X).sum()).backward()
        optimizer.step()
    assert covered() > before + 0.1


def mixture(mixer: SEAttn, x: Tensor, size: int, k: int) -> Tensor:
    """Lu et al. 2025 (arXiv 2502.13189), Eqs. 2 to 6, one query at a time.  k counts the own block.

    Each of a head's blocks has the affinity q . mean(K); blocks to come have none, the own one the highest.
    """
    rows = []
    for heads in zip(*positioned(mixer.qkv, x), strict=True):
        q, keys, values = heads
        row = []
        for t in range(x.shape[1]):
            means = [keys[:, i : i + size].mean(1) for i in range(0, t - t % size, size)]
            affinity = [(q[:, t] * mean).sum(-1) for mean in means] + [torch.full_like(q[:, t, 0], torch.inf)]
            chosen = torch.stack(affinity).topk(min(k, len(affinity)), dim=0).indices  # blocks by batch
            visible = (torch.arange(t + 1) // size == chosen.T[..., None]).any(1)
            logits = (q[:, None, t] * keys[:, : t + 1]).sum(-1) / q.shape[-1] ** 0.5
            weights = logits.masked_fill(~visible, -torch.inf).softmax(-1)
            row.append((weights[..., None] * values[:, : t + 1]).sum(1))
        rows.append(torch.stack(row, dim=1))
    return project(mixer.out_proj, torch.stack(rows, dim=2).flatten(2))


@pytest.mark.parametrize("top_k", [1, 3, 99])
@pytest.mark.parametrize("position", ["none", "rope"])
def test_moba_is_the_papers_mixture_of_blocks(top_k: int, position: str):
    mixer = build(Case("moba", {"num_heads": 4, "position": position, "top_k": top_k}))
    assert isinstance(mixer, SEAttn)
    x = torch.randn(2, 61, 16, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), mixture(mixer, x, size=8, k=top_k + 1), rtol=1e-10, atol=1e-12)
