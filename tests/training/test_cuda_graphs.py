"""CudaGraphs leaves the streams in order around a step that fails; torch.cuda is replaced."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from zoo.training.cuda_graphs import CudaGraphs, Unrecordable


class Stream:
    def __init__(self, name: str = "side") -> None:
        self.name, self.waits_for = name, ""

    def wait_stream(self, other: "Stream") -> None:
        self.waits_for = other.name


class Cuda:
    """A replacement of torch.cuda; work goes to the stream `current`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.usual = self.current = Stream("usual")
        for name in ("current_stream", "set_stream", "stream", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
        for name in ("graph_pool_handle", "get_sync_debug_mode", "set_sync_debug_mode"):
            monkeypatch.setattr(torch.cuda, name, lambda *given: 0)

    def current_stream(self) -> Stream:
        return self.current

    def set_stream(self, stream: Stream) -> None:
        self.current = stream

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, graph: object, pool: object, stream: Stream) -> Iterator[None]:
        """Capture as torch does: after a failure the process stays on the side stream."""
        self.current = stream
        yield
        self.current = self.usual


def fails() -> Tensor:
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize("fails_at", [1, 2])
def test_the_usual_stream_waits_for_a_warm_up_that_fails(monkeypatch: pytest.MonkeyPatch, fails_at: int):
    cuda, taken = Cuda(monkeypatch), []

    def step() -> Tensor:
        taken.append(cuda.current.name)
        return fails() if len(taken) == fails_at else torch.zeros(1)

    graphs = CudaGraphs()
    with pytest.raises((RuntimeError, Unrecordable)):
        graphs.warm_up(step)
    assert taken == ["side"] * fails_at
    assert cuda.current is cuda.usual and cuda.usual.waits_for == "side"


@pytest.mark.parametrize("step", [fails, lambda: torch.zeros(1)])
def test_a_capture_restores_the_usual_stream(monkeypatch: pytest.MonkeyPatch, step: Callable[[], Tensor]):
    cuda = Cuda(monkeypatch)
    if step is fails:
        with pytest.raises(Unrecordable, match="not permitted"):
            CudaGraphs().record(step)
    else:
        CudaGraphs().record(step)
    assert cuda.current is cuda.usual
