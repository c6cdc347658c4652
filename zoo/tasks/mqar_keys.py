"""MQAR with as many keys and values as asked for, where MQAR halves its vocabulary.

With few keys a memory may hold a place for each key that there is, as a table does, instead of telling the
keys of a row apart; with few values a short vector says which it was.  Here each count is set alone.
"""

from typing import Any

from zoo.common.checks import at_least
from zoo.tasks.context import Pairs
from zoo.tasks.mqar import MQAR


class KeysMQAR(MQAR):
    """Args, beside those of MQAR:

    num_keys: tokens 1..num_keys are keys, all above are values.
    """

    def __init__(self, *, num_keys: int, vocab_size: int, **settings: Any):
        at_least("task.num_keys", num_keys, 1)
        at_least("task.vocab_size", vocab_size, num_keys + 2)
        self._num_keys = num_keys
        super().__init__(vocab_size=vocab_size, **settings)

    @property
    def num_keys(self) -> int:
        """Tokens of which a question is one."""
        return self._num_keys

    @property
    def num_values(self) -> int:
        """Tokens of which an answer is one."""
        return self.vocab_size - 1 - self.num_keys

    def _check_tokens(self, where: str, load: Pairs) -> None:
        for name, count in (("keys", self.num_keys), ("values", self.num_values)):
            if count < load.num_kv_pairs:
                raise ValueError(
                    f"task.vocab_size (={self.vocab_size}) with task.num_keys (={self.num_keys}) has {count} "
                    f"{name}, too few for {where}.num_kv_pairs (={load.num_kv_pairs}); use more {name} or "
                    "fewer pairs."
                )
