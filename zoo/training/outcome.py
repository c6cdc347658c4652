"""What a cell that has ended comes to: its record, but for who it is and where it ran."""

import resource
import sys

import torch

from zoo import interrupts
from zoo.evaluation.decode_speed import decode_tokens_per_second
from zoo.evaluation.flops import cost, working_parameters
from zoo.model import SequenceModel
from zoo.results import weights
from zoo.results.outcome import Outcome, reason
from zoo.state import peak
from zoo.tasks.coverage import coverage
from zoo.training.train_state import Begun


def outcome(begun: Begun, ran: dict[str, str], form: str | None) -> Outcome:
    """Of a cell that has been tested, or that has diverged.

    ran: which implementation of each op.  form: of the steps; None: this run took none.
    """
    model, task, position = begun.model, begun.task, begun.position
    seq_len, device = max(segment.seq_len for segment in task.segments("test")), begun.cell.trainer.device
    sound = begun.diverged is None
    model.to(device)  # Lightning leaves it on the CPU
    tested = begun.tallies if sound else {}
    speed, missing = _decode_speed(model, seq_len, device) if sound else (None, None)
    return Outcome(
        status="ok" if sound else "diverged",
        diverged_step=begun.diverged,
        diverged_lr=None if begun.diverged is None else begun.lr_at(begun.diverged - 1),
        steps=position.step,
        total_steps=begun.total_steps,
        epochs=begun.epochs,
        early_stopped=position.early_stopped,
        scores={"valid": position.valid_scores, "test": begun.scores()} if sound else {},
        groups={name: tally.by_group() for name, tally in tested.items()},
        coverage=None if model.sees_all(seq_len) else coverage(task, "test", model.visible),
        state_seq_len=seq_len,
        state_model=peak(model.state_size, seq_len),
        state_mixer=peak(model.mixers[begun.cell.chosen_layer].state_size, seq_len),
        layers=[type(mixer).__name__ for mixer in model.mixers],
        parameters=sum(p.numel() for p in model.parameters()),
        parameters_without_embedding=working_parameters(model),
        causal=model.causal,
        exact_decode=model.exact_decode,
        wall_seconds=position.wall_seconds,
        examples_per_second=position.examples / position.train_seconds if position.examples else None,
        decode_tokens_per_second=speed,
        decode_missing=missing,
        operations=cost(begun.cell, model).operations,
        peak_memory_bytes=_peak_memory(device),
        kernels=ran,
        step_form=form or position.step_form,
        weights=weights.keep(sound and begun.cell.keep_weights, begun.folder, model),
    )


def _decode_speed(model: SequenceModel, seq_len: int, device: str) -> tuple[float | None, str | None]:
    """And why there is none.  The cell is trained and tested by now: no error of a timing may undo that."""
    try:
        return decode_tokens_per_second(model, seq_len, device), None
    except Exception as error:
        interrupts.check()  # some library's answer to an interrupt
        return None, reason(error)


def _peak_memory(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
