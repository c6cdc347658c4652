"""Speed of reading and decoding: tokens a second, in whole sequences and one by one through `extend`."""

import time
from statistics import median

import torch

from zoo.kernels.choice import Refused
from zoo.model import SequenceModel

BATCH = 32  # sequences at once
STEPS = 16  # timed, after as many that warm up
ENOUGH_S = 0.5  # a slow model makes fewer steps


@torch.no_grad()
def decode_tokens_per_second(
    model: SequenceModel, seq_len: int, device: torch.device | str, batch: int = BATCH
) -> float | None:
    """`batch` over the median time of a step of one token, at the end of sequences of `seq_len` tokens.

    Embedding, layers and norms; without the head, which is the same for every mixer.  In the dtype of the
    weights, on whatever else this machine is doing: compare it within one machine, and by its median.
    None: the model has no exact decoding, or the kernels asked for have none.
    """
    if not model.exact_decode:
        return None
    training = model.training
    model.eval()
    try:
        seconds = _seconds(model, seq_len, device, batch)
    except Refused:
        return None
    finally:
        model.train(training)
    return batch / median(seconds[len(seconds) // 2 :]) if seconds else None


@torch.no_grad()
def prefill_tokens_per_second(
    model: SequenceModel, seq_len: int, device: torch.device | str, batch: int = BATCH
) -> float:
    """All tokens of `batch` sequences over the median time of `forward`; otherwise as for decoding.

    `eval()` and the kernels are the caller's.
    """
    tokens = torch.zeros(batch, seq_len, dtype=torch.long, device=device)
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < STEPS and sum(seconds) < ENOUGH_S):
        began = _now(device)
        model(tokens)
        seconds.append(_now(device) - began)
    return batch * seq_len / median(seconds[1:])


def _seconds(model: SequenceModel, seq_len: int, device: torch.device | str, batch: int) -> list[float]:
    """Return the seconds of each step."""
    tokens = torch.zeros(batch, seq_len, dtype=torch.long, device=device)
    prefix = max(1, seq_len - 2 * STEPS)
    _, state = model.extend(tokens[:, :prefix])
    seconds = []
    for t in range(prefix, seq_len):
        began = _now(device)
        _, state = model.extend(tokens[:, t : t + 1], state)
        seconds.append(_now(device) - began)
        if sum(seconds) > ENOUGH_S:
            break
    return seconds


def _now(device: torch.device | str) -> float:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
