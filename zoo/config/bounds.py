"""Refuse numbers that no setting may have, whatever its meaning; each part then checks rules of its own.

No setting may be infinite: `null` stands for "none" or "no bound".  A number beyond the bounds is a slip of
the finger, and would lead to a hang, a crash or a useless record.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

SEEDS = 2**32  # torch takes 64 bits, and a step draws at seed * 2**32 + step
REAL = 1e12
WHOLE = 2**24
MOST = {  # the bounds of whole numbers that have one of their own
    **{"d_model": 2**16, "n_layers": 1000, "batch_size": 2**16, "eval_batch_size": 2**16, "threads": 1024},
    # zoo.common.counter_rng: slots of an example, and a range of integers
    **{"seq_len": 2**20, "vocab_size": 2**22},
    **dict.fromkeys(("num_examples", "train_examples", "valid_examples", "test_examples"), 2**40),
    **dict.fromkeys(("max_examples", "checkpoint_every"), 2**40),
    "doublings": 20,  # of one token: the longest row that seq_len allows
}


def out_of_bounds(config: Mapping[str, Any]) -> list[str]:
    """Return a line for each number out of bounds: dotted keys, as on the command line.

    If a top key is wrong, only top keys are reported, since parts refer to them (task.seed is seed).
    """
    numbers = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    return _refused(numbers) or _refused(config)


def _refused(config: Mapping[str, Any]) -> list[str]:
    return [line for path, value in _numbers("", config) if (line := refusal(path, value))]


def refusal(path: str, value: float) -> str | None:
    """Return one line that says why this number is refused; None: it is allowed."""
    key = path.rpartition(".")[2]
    if not isinstance(value, int):
        if not math.isfinite(value):
            return f"{path} (={value}) must be a finite number."
        return f"{path} (={value:g}) must lie between -1e12 and 1e12." if abs(value) > REAL else None
    if key == "seed" or key.endswith("_seed"):
        return None if 0 <= value < SEEDS else f"{path} (={value}) must be at least 0 and below {SEEDS}."
    most = MOST.get(key, WHOLE)
    return None if value <= most else f"{path} (={value}) must be at most {most}."


def _numbers(path: str, node: Any) -> Iterator[tuple[str, float]]:
    """Yield the dotted key and value of every number below a node, except in `about`."""
    if isinstance(node, Mapping | list):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if key != "about":
                yield from _numbers(f"{path}.{key}" if path else str(key), value)
    elif type(node) in (int, float):
        yield path, node
