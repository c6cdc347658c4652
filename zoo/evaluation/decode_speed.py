"""Measure the speed of reading whole sequences and of decoding through `extend`, in tokens a second."""

import time
from statistics import median

import torch

from zoo.kernels.choice import Refused
from zoo.model import SequenceModel

BATCH = 32  # sequences at once
STEPS = 16  # timed steps, after as many steps of warm-up
ENOUGH_S = 0.5  # seconds after which a slow model stops early


@torch.no_grad()
def decode_tokens_per_second(
    model: SequenceModel, seq_len: int, device: torch.device | str, batch: int = BATCH
) -> float | None:
    """Return `batch` over the median time of a step of one token, at the end of `seq_len` tokens.

    The time covers embedding, layers and norms, but not the head, which is the same for every mixer.  It is
    taken in the dtype of the weights and includes other load of this machine: compare medians of one machine.
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
    """Return all tokens of `batch` sequences over the median time of `forward`, otherwise as for decoding.

    The caller must call `eval()` and choose the kernels."""
    tokens = torch.zeros(batch, seq_len, dtype=torch.long, device=device)
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < STEPS and sum(seconds) < ENOUGH_S):
        began = _now(device)
        model(tokens)
        seconds.append(_now(device) - began)
    return batch * seq_len / median(seconds[1:])


def _seconds(model: SequenceModel, seq_len: int, device: torch.device | str, batch: int) -> list[float]:
    """Return the seconds of each decoding step."""
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
