"""Record a training step once for each shape of its batch and replay it: one launch in place of hundreds.

On a GPU the recording is a CUDA graph of the whole step (forward, backward, clipping, update).  A graph reads
and writes fixed memory: each batch is copied into the buffers that the step was recorded on, and what the
step changes (weights, the optimizer's state) is changed in place.  Graphs of all shapes share one pool of
memory, so the next replay overwrites what a replay returned: the result is copied.

A recording fits a step that does the same each time.  A step that waits for the device, draws random numbers
on the CPU or counts in Python cannot be recorded: `Unrecordable` says why, and the attempt is undone.  Random
numbers drawn on the device (dropout) are drawn anew in each replay, from the state of torch's generator then.
"""

import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Step = Callable[..., Tensor]  # from a batch's tensors to the result of the step, detached
WARM_UPS = 3  # runs before the recording, as torch advises: for autotuning, Triton's compiling, first state


class Unrecordable(Exception):
    """This step cannot be recorded; the message says why, in one line."""


class Recorder(Protocol):
    """Records and replays steps on a device.  Both methods take a step without arguments."""

    def warm_up(self, step: Callable[[], Tensor]) -> None:
        """Run the step WARM_UPS times.  Unrecordable: it does something that no recording can hold."""
        ...

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Return a function that runs the step and returns the same memory each time; nothing runs now."""
        ...


class Graphs:
    """A step that is recorded for each shape of batch; called with a batch's tensors, as `step` would be.

    step: changes nothing but what `changing` holds.
    """

    def __init__(self, step: Step, changing: "Restorable", recorder: Recorder) -> None:
        self._step, self._changing, self._recorder = step, changing, recorder
        self._recorded: dict[Any, tuple[list[Tensor], Callable[[], Tensor]]] = {}

    def __call__(self, *batch: Tensor) -> Tensor:
        """Take one step.  Unrecordable: no step was taken, and nothing has changed."""
        shape = tuple((x.shape, x.dtype) for x in batch)
        if shape not in self._recorded:
            self._recorded[shape] = self._record(batch)
        buffers, replay = self._recorded[shape]
        for buffer, x in zip(buffers, batch, strict=True):
            buffer.copy_(x)
        return replay().clone()

    def _record(self, batch: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], Tensor]]:
        buffers = [x.clone() for x in batch]
        step = partial(_afresh, self._step, buffers)
        with self._changing.undone(), _without_draws_on_the_cpu():
            self._recorder.warm_up(step)
        return buffers, self._recorder.record(step)


def _afresh(step: Step, batch: Sequence[Tensor]) -> Tensor:
    """Take a step without autocast's cache of rounded weights, which would be stale after an update."""
    torch.clear_autocast_cache()
    try:
        return step(*batch)
    finally:
        torch.clear_autocast_cache()


class Recorded:
    """A step that is replayed from recordings where the device supports it, and else runs as it is.

    form: trainer.step.  why: the reason why it is not recorded although that was tried; "" otherwise.
    """

    def __init__(self, step: Step, changing: "Restorable", device: str, form: str) -> None:
        self._step, self._asked, self.why = step, form, ""
        wanted = form != "eager" and device in RECORDERS
        self._graphs = Graphs(step, changing, RECORDERS[device]()) if wanted else None

    @property
    def recorded(self) -> bool:
        """Return whether steps are recorded and replayed."""
        return self._graphs is not None

    def __call__(self, *batch: Tensor) -> Tensor:
        """Take one step.  ValueError: trainer.step=graph, and the step cannot be recorded."""
        if self._graphs is not None:
            try:
                return self._graphs(*batch)
            except Unrecordable as error:
                if self._asked == "graph":
                    raise ValueError(
                        f"trainer.step (=graph) cannot record this step: {error}.  Use trainer.step=auto."
                    ) from error
                self._graphs, self.why = None, str(error)
        return self._step(*batch)


class Restorable:
    """All that a step may change, with a way to undo it.

    model: its parameters and buffers.  others: further tensors, as far as they exist already; those that a
    first step makes (an optimizer's state) are set back to zero.
    """

    def __init__(self, model: nn.Module, others: Callable[[], Iterable[Tensor]]) -> None:
        self.model, self.others = model, others

    @contextmanager
    def undone(self):
        """Undo all changes made inside the context.  Unrecordable: the model counts outside of tensors."""
        tensors = (*self.model.parameters(), *self.model.buffers(), *self.others())
        before = [(x, x.detach().clone()) for x in tensors]
        counts = _counts(self.model)
        try:
            yield
            counted = [name for name, count in _counts(self.model).items() if not _same(count, counts[name])]
        finally:
            self._put_back(before)
            for name, count in counts.items():
                self.model.get_submodule(name).set_extra_state(count)
        if counted:
            raise Unrecordable(f"{counted[0]} counts its steps outside of tensors")

    @torch.no_grad()
    def _put_back(self, before: list[tuple[Tensor, Tensor]]) -> None:
        for x, value in before:
            x.copy_(value)
        known = {id(x) for x, _ in before}
        for x in self.others():
            if id(x) not in known:
                x.zero_()


def _counts(model: nn.Module) -> dict[str, Any]:
    """Return the extra state of modules beside tensors, by the module's name."""
    return {
        name: module.get_extra_state()
        for name, module in model.named_modules()
        if type(module).get_extra_state is not nn.Module.get_extra_state
    }


def _same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, Tensor) else a == b


@contextmanager
def _without_draws_on_the_cpu():
    """Forbid draws of random numbers on the CPU inside the context, and restore torch's generators."""
    before = torch.get_rng_state()
    on_device = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    try:
        yield
        drawn = not torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_rng_state(before)
        if on_device is not None:
            torch.cuda.set_rng_state(on_device)
    if drawn:
        raise Unrecordable("a step draws random numbers on the CPU")


class CudaGraphs:
    """CUDA graphs, all on one side stream and in one pool of memory."""

    def __init__(self) -> None:
        self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def warm_up(self, step: Callable[[], Tensor]) -> None:
        """Run the step once as usual, then with an error for anything that waits for the device.

        Even after an error the usual stream waits for this one, because it then puts the weights back.
        """
        usual = torch.cuda.current_stream()
        self._stream.wait_stream(usual)
        try:
            with torch.cuda.stream(self._stream):
                step()
                with _refusing_to_wait():
                    for _ in range(WARM_UPS - 1):
                        step()
        finally:
            usual.wait_stream(self._stream)

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Return a function that replays the step.  Unrecordable: something in it cannot be recorded."""
        graph, usual = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                result = step()
        except RuntimeError as error:
            raise Unrecordable(message_of(error)) from error
        finally:
            torch.cuda.set_stream(usual)  # torch does not do this where the end of the capture fails

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


@contextmanager
def _refusing_to_wait():
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        except RuntimeError as error:
            raise Unrecordable(message_of(error)) from error
        finally:
            torch.cuda.set_sync_debug_mode(mode)


def message_of(error: BaseException) -> str:
    """Return the error's first line, and the last place outside of torch in its traceback."""
    torchs = str(Path(torch.__file__).parent)
    ours = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(torchs)]
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    lines = str(error).strip().splitlines()
    return f"{lines[0] if lines else type(error).__name__}{where}"


RECORDERS: dict[str, Callable[[], Recorder]] = {"cuda": CudaGraphs}  # by the kind of device
