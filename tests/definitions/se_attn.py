"""SE-Attn: decoding token by token, past blocks in lists, Nunez et al. 2024 (arXiv 2412.13328), section 3.

The paper scores with the queries of the whole chunk (`chunk`); the causal selections, the other summaries,
the cap and the gate are defined in zoo/mixers/span_rule.py.  Random blocks follow a splitmix64 hash.
"""

import math

import torch
from torch import Tensor

from tests.definitions.attention import heads, positioned, project
from tests.test_counter_rng import golden, stream_by_hand
from zoo.mixers.se_attn import SEAttn


def definition(mixer: SEAttn, x: Tensor, starts: list[int] | None = None) -> Tensor:
    """starts: of the chunks (None: chunks of the one size of evaluation)."""
    plain, turned = (stacked(*parts) for parts in (heads(mixer.qkv, x), positioned(mixer.qkv, x)))
    scoring = plain if mixer.rule.score_rope == "unrotated" else turned
    starts = [*range(0, x.shape[1], mixer.eval_chunk_size)] if starts is None else starts
    rows = [decoded(mixer, starts, *(part[b] for part in (*turned, *scoring[:2]))) for b in range(len(x))]
    return project(mixer.out_proj, torch.stack(rows))


def stacked(q: list[Tensor], k: list[Tensor], v: list[Tensor]) -> list[Tensor]:
    """[B T H C] each; every query head has its group's keys and values."""
    shared = len(q) // len(k)
    k, v = ([part for part in parts for _ in range(shared)] for parts in (k, v))
    return [torch.stack(parts, dim=2) for parts in (q, k, v)]


def decoded(
    mixer: SEAttn, starts: list[int], q: Tensor, k: Tensor, v: Tensor, score_q: Tensor, score_k: Tensor
) -> Tensor:
    """One sequence, [T H C] each -> [T D]."""
    rule, size = mixer.rule, mixer.block_size
    if not rule.gated:
        score_q, score_k = score_q.detach(), score_k.detach()
    summaries, rows = [], []
    before = running = torch.zeros_like(score_q[0])
    frozen = []
    for t in range(len(q)):
        number = max(i for i, start in enumerate(starts) if start <= t)
        start, end = [*starts, len(q)][number : number + 2]
        if t == start:
            before, running = running, torch.zeros_like(running)
        running = running + score_q[t]
        asking = {"token": score_q[t], "first": score_q[start], "prefix": running, "prev": before}
        asking["chunk"] = score_q[start:end].sum(0)
        oldest = 0 if rule.max_blocks is None else max(0, start // size - rule.max_blocks)
        admissible = list(range(oldest, start // size))
        if t == start or rule.selection in ("token", "prefix"):
            frozen = chosen(mixer, asking.get(rule.selection), summaries, admissible, t - start + 1, number)
        row = []
        for one_set, (blocks, biases) in enumerate(frozen):
            mine = members(mixer, one_set)
            seen = [s for j in blocks for s in range(j * size, (j + 1) * size)] + list(range(start, t + 1))
            bias = torch.stack(
                [b for b in biases for _ in range(size)] + [torch.zeros_like(q[0, 0, 0])] * (t + 1 - start)
            )
            logits = (k[seen][:, mine] * q[t, mine]).sum(-1) / math.sqrt(q.shape[-1]) + bias[:, None]
            weights = torch.exp(logits - logits.max())
            row.append((weights[..., None] * v[seen][:, mine]).sum(0) / weights.sum(0)[:, None])
        rows.append(torch.cat(row).flatten())
        if (t + 1) % size == 0:
            block = slice(t + 1 - size, t + 1)
            summaries.append(summary(mixer, score_q[block], score_k[block], v[block]))
    return torch.stack(rows)


def chosen(
    mixer: SEAttn,
    asking: Tensor | None,
    summaries: list[Tensor],
    admissible: list[int],
    summed: int,
    chunk: int,
) -> list[tuple[list[int], list[Tensor]]]:
    """For each index set: the best blocks by (score, lowest id), and the bias of each."""
    rule, found = mixer.rule, []
    for one_set in range(mixer.index_sets):
        mine, gate = members(mixer, one_set), {}
        if rule.selection == "none":
            found.append(([], []))
            continue
        if asking is None:
            score = {j: drawn(rule.seed, one_set, chunk, j) for j in admissible}
        else:
            dots = {j: (asking[mine] * summaries[j][mine]).sum() for j in admissible}
            score = {j: dot.item() for j, dot in dots.items()}
            if rule.gated and admissible:
                mean = summed if rule.selection == "prefix" else 1
                width = len(mine) * asking.shape[-1]
                logits = torch.stack([dots[j] for j in admissible]) / mean / math.sqrt(width)
                gate = dict(zip(admissible, torch.log(logits.softmax(0)), strict=True))
        best = sorted(admissible, key=lambda j, score=score: (-score[j], j))[: rule.top_k]
        zero = mixer.out_proj.weight.new_zeros(())
        found.append((best, [gate.get(j, zero) for j in best]))
    return found


def members(mixer: SEAttn, one_set: int) -> list[int]:
    """The query heads that share an index set."""
    return [h for h in range(mixer.qkv.num_heads) if h * mixer.index_sets // mixer.qkv.num_heads == one_set]


def summary(mixer: SEAttn, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Of a block, [S H C] each -> [H C]."""
    kind, qkv, landmark = mixer.rule.summary, mixer.qkv, mixer.choice.summaries.landmark
    if kind == "mean_key":
        return k.sum(0) / len(k)
    if kind == "landmark" and landmark is not None:
        q = torch.stack([part[0, 0] for part in heads(qkv, landmark[None, None])[0]])[None]
        q, v = (q, v) if mixer.rule.gated else (q.detach(), v.detach())
    read = k if kind == "attn_key" else v if mixer.rule.gated else v.detach()
    outputs = []
    for one in q:
        weights = torch.exp((k * one).sum(-1) / math.sqrt(k.shape[-1]))
        outputs.append((weights[..., None] * read).sum(0) / weights.sum(0)[:, None])
    return sum(outputs) / len(outputs)


def drawn(seed: int, one_set: int, chunk: int, block: int) -> int:
    """The 52 leading bits of a hash of all four (Steele, Lea and Flood 2014, with Stafford's mix 13)."""
    return golden(stream_by_hand(seed, one_set), chunk, block) >> 12
