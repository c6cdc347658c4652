"""A mixer that fails in the way asked for, when it is run and not before; or only takes its time."""

import os
import signal
import sys
import time
from typing import Literal, NamedTuple

from torch import nn

from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize

HEALED = "ZOO_TOYS_HEALED"  # in the environment: nothing fails any more, as after a bug is removed
PACE = "ZOO_TOYS_PACE"  # in the environment: a factor on the time it takes, as on another machine


class State(NamedTuple):
    seen: int


class Faulty(Mixer[State]):
    def __init__(
        self, d_model: int, way: Literal["none", "raise", "exit", "kill", "diverge"], seconds: float
    ) -> None:
        super().__init__()
        self.way = "none" if HEALED in os.environ else way
        self.seconds = seconds * float(os.environ.get(PACE, "1"))
        self.proj = nn.Linear(d_model, d_model)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        time.sleep(self.seconds)
        if self.way == "raise":
            raise RuntimeError("this mixer\nalways fails")
        if self.way == "exit":
            sys.exit(0)
        if self.way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        y = self.proj(x)
        return (y * float("nan") if self.way == "diverge" else y), State(x.shape[1])

    def state_size(self, seq_len: int) -> StateSize:
        return StateSize(paper=None, resident=0, touched=0)
