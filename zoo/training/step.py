"""Take one training step: eagerly, replayed from a recording, or compiled (`trainer.step`).

auto: recorded on a GPU where the step allows it, eager elsewhere.  The form changes no number, except for the
last bits under compile.  The record names the form, and the reason where a step could not be recorded.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zoo.training.cuda_graphs import Recorded, Restorable

Loss = Callable[..., Tensor]  # from a batch's tensors


class Stepper:
    """Takes the steps of `model`; the property `form` says how.

    form, as an argument: trainer.step.  loss: from the tensors of a batch.  optimizer: one of torch's.
    ValueError, here or at a step: the step cannot be taken in that form.
    """

    def __init__(
        self, form: str, model: nn.Module, optimizer: Optimizer, loss: Loss, grad_clip: float | None
    ) -> None:
        self.asked, self.model, self.optimizer, self.grad_clip = form, model, optimizer, grad_clip
        self._loss = compiled(loss) if form == "compile" else loss
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        device = self._parameters[0].device.type
        able = "capturable" in optimizer.defaults
        if form == "graph" and not able:
            name = type(optimizer).__name__
            raise ValueError(f"trainer.step (=graph) cannot record {name}: use trainer.step=auto.")
        changing = Restorable(model, lambda: held(optimizer))
        self._take = Recorded(self._step, changing, device, form if able else "eager")
        if able and (device != "cpu" or self._take.recorded):
            recordable(optimizer)

    @property
    def form(self) -> str:
        """Name the form for the record: "eager", "graph", "compile", "compile graph"; after "eager" or
        "compile", in brackets, why it is not recorded."""
        words = ["compile"] if self.asked == "compile" else []
        words += ["graph"] if self._take.recorded else [] if words else ["eager"]
        return " ".join([*words, *([f"({self._take.why})"] if self._take.why else [])])

    def __call__(self, batch: tuple[Tensor, ...], rate: float) -> Tensor:
        """Take one step at this learning rate; return its loss, on the device."""
        set_rate(self.optimizer, rate)
        return self._take(*batch)

    def _step(self, *batch: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = self._loss(*batch)
        with torch.autocast(loss.device.type, enabled=False):  # the backward keeps the forward's precision
            loss.backward()
            if self.grad_clip is not None:
                nn.utils.clip_grad_norm_(self._parameters, self.grad_clip)
            self.optimizer.step()
        return loss.detach()


def recordable(optimizer: Optimizer) -> None:
    """Make the update of one of torch's optimizers read its learning rate from the device's memory."""
    for group in optimizer.param_groups:
        device = group["params"][0].device
        exact = torch.float64 if device.type == "cpu" else torch.float32  # as torch's kernels read it
        group["lr"] = torch.as_tensor(group["lr"], dtype=exact, device=device).clone()
        group["capturable"] = True


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate, in place where a recorded step reads it from a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def state_of(optimizer: Optimizer, rate: float) -> dict[str, Any]:
    """Return the state_dict() of an optimizer that made its last step at `rate`, `recordable` or not."""
    state = optimizer.state_dict()
    plain = {"lr": rate, "capturable": False}
    groups = [{key: plain.get(key, value) for key, value in g.items()} for g in state["param_groups"]]
    return state | {"param_groups": groups}


def held(optimizer: Optimizer) -> Iterator[Tensor]:
    """Yield the tensors of the optimizer's state that exist so far."""
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


def compiled(loss: Loss) -> Loss:
    """Return the loss with its forward and backward through torch.compile."""
    return partial(_quietly, _quietly(torch.compile, loss))


def _quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without torch's warnings about what its compiler does itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def uncompilable() -> str | None:
    """Return in one line why torch.compile cannot work here: no C++ compiler; None: it can."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler):
        return None
    return (
        f"trainer.step (=compile) needs a C++ compiler, and {compiler} is not here: "
        "install one, name it in CXX, or use trainer.step=eager."
    )
