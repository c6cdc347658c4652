"""DeepSeek sparse attention: what it becomes in the limit, its ties, and what trains its indexer."""

import torch

from zoo.mixers import Attention, DeepSeekSparseAttention

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
HEADS = {"d_model": 16, "num_heads": 4, "num_kv_heads": 2, "bias": False}


def test_a_choice_of_all_is_attention():
    mixer, other = DeepSeekSparseAttention(**HEADS, top_k=30).double(), Attention(**HEADS).double()
    other.load_state_dict(mixer.state_dict(), strict=False)
    torch.testing.assert_close(mixer(X), other(X))


def test_of_equal_scores_the_latest_is_chosen():
    """An indexer of zeros, as ReLU often is, leaves a window and not the first tokens."""
    mixer = DeepSeekSparseAttention(**HEADS, top_k=3).double()
    chosen = mixer._chosen(torch.zeros(1, 30, 30, dtype=torch.float64))[0]
    assert torch.equal(chosen, torch.ones(30, 30).tril().triu(-2).bool())


def test_relu_and_weights_change_the_order_of_several_heads():
    """fla's reference says that they do not."""
    mixer = DeepSeekSparseAttention(**HEADS, top_k=3, index_heads=4).double()
    parts = torch.randn(2, 30, 4 * 8 + 4, dtype=torch.float64)
    index = torch.randn(2, 30, 8, dtype=torch.float64)
    plain = (parts[..., :32].unflatten(-1, (4, 8)).sum(2)) @ index.mT
    assert not torch.equal(mixer._chosen(mixer._scores(parts, index)), mixer._chosen(plain))


def test_the_indexer_learns_from_its_own_loss_alone_and_moves_nothing_else():
    grads = []
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        mixer = DeepSeekSparseAttention(**HEADS, top_k=5, aux_weight=weight).double()
        mixer(X).square().sum().backward()
        grads.append({name: p.grad for name, p in mixer.named_parameters()})
    assert grads[0]["index_proj.weight"] is None and grads[1]["index_proj.weight"].any()
    for name in ("qkv.proj.weight", "out_proj.weight"):
        assert torch.equal(grads[0][name], grads[1][name])


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
