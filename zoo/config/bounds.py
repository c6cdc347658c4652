"""Refuse numbers that no setting may have, whatever it stands for; each part then states its own rule.

Nothing here means anything at infinity: `null` says "none" or "no bound".  Beyond the bounds there is only a
slip of the finger, and behind it silence, a crash or a record of no use.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

SEEDS = 2**32  # torch takes 64 bits, and a step draws at seed * 2**32 + step
REAL = 1e12
WHOLE = 2**24
MOST = {  # of whole numbers that have a bound of their own
    **{"d_model": 2**16, "n_layers": 1000, "batch_size": 2**16, "eval_batch_size": 2**16, "threads": 1024},
    # zoo.common.counter_rng: slots of an example, and a range of integers
    **{"seq_len": 2**20, "vocab_size": 2**22},
    **dict.fromkeys(("num_examples", "train_examples", "valid_examples", "test_examples"), 2**40),
    **dict.fromkeys(("max_examples", "checkpoint_every"), 2**40),
    "doublings": 20,  # of one token: the longest row
}


def out_of_bounds(config: Mapping[str, Any]) -> list[str]:
    """A line for each number that is beyond them: dotted keys, as on the command line.

    First of all the config's own: what a part holds follows them (task.seed is seed).
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
    """Every number below a node, but for `about`, which is for people."""
    if isinstance(node, Mapping | list):
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if key != "about":
                yield from _numbers(f"{path}.{key}" if path else str(key), value)
    elif type(node) in (int, float):
        yield path, node
