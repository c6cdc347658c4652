"""What the process that proves a kernel is asked, and what it answers."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Request:
    """package: of the op.  usual: the form in torch that the kernel would replace.  inputs: the cell's own,
    on their device.  autocast: its dtype where it is on.  limit: seconds, after which SIGALRM ends it all.
    """

    package: str
    kernel: str
    usual: str
    inputs: list[Any]
    autocast: torch.dtype | None
    limit: int

    @property
    def device(self) -> str:
        return self.inputs[0].device.type


@dataclass(frozen=True)
class Answer:
    """As in a Verdict; end "": nothing can be said of the kernel, for a reason that is not its own."""

    end: str
    why: str = ""
    worst: str = ""
    error: float = 0.0
    bound: float = 0.0
    seconds: float | None = None
    usual_seconds: float | None = None
