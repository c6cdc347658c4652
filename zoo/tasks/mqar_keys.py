"""MQAR with separate numbers of keys and values, where MQAR halves its vocabulary.

With few keys a memory may hold a place for every possible key, like a table, instead of telling the keys of
a row apart; with few values a short vector identifies the value.  Here each count is set by itself.
"""

from typing import Any

from zoo.common.checks import at_least
from zoo.tasks.context import Pairs
from zoo.tasks.mqar import MQAR


class KeysMQAR(MQAR):
    """MQAR whose numbers of keys and values are set apart.  Args, besides those of MQAR:

    num_keys: tokens 1..num_keys are keys, all above are values.
    """

    def __init__(self, *, num_keys: int, vocab_size: int, **settings: Any):
        at_least("task.num_keys", num_keys, 1)
        at_least("task.vocab_size", vocab_size, num_keys + 2)
        self._num_keys = num_keys
        super().__init__(vocab_size=vocab_size, **settings)

    @property
    def num_keys(self) -> int:
        """Return how many tokens can be a key."""
        return self._num_keys

    @property
    def num_values(self) -> int:
        """Return how many tokens can be a value."""
        return self.vocab_size - 1 - self.num_keys

    def _check_tokens(self, where: str, load: Pairs) -> None:
        for name, count in (("keys", self.num_keys), ("values", self.num_values)):
            if count < load.num_kv_pairs:
                raise ValueError(
                    f"task.vocab_size (={self.vocab_size}) with task.num_keys (={self.num_keys}) has {count} "
                    f"{name}, too few for {where}.num_kv_pairs (={load.num_kv_pairs}); use more {name} or "
                    "fewer pairs."
                )
