"""What a cell that has ended comes to: its record, but for who it is and where it ran."""

import resource
import sys
from dataclasses import asdict
from typing import Any, cast

import torch

from zoo import interrupts
from zoo.adaptation.low_rank import merge
from zoo.adaptation.recipe import counted
from zoo.evaluation.decode_speed import decode_tokens_per_second
from zoo.evaluation.flops import cost, working_parameters
from zoo.model import SequenceModel
from zoo.results import weights
from zoo.results.outcome import UNSCORED, reason
from zoo.results.record import Outcome
from zoo.state import peak
from zoo.tasks.coverage import coverage
from zoo.training.train_state import Begun


def outcome(begun: Begun, ran: dict[str, str], form: str | None) -> Outcome:
    """Of a cell that has been tested, or that has diverged.

    ran: which implementation of each op.  form: of the steps; None: this run took none.
    """
    sound, position = begun.diverged is None, begun.position
    adaptation = _adaptation(begun)
    merge(begun.model)
    begun.model.to(begun.cell.trainer.device)  # Lightning leaves it on the CPU
    found = {
        "status": "ok" if sound else "diverged",
        "steps": position.step,
        "total_steps": begun.total_steps,
        "epochs": begun.epochs,
        "early_stopped": position.early_stopped,
        "diverged_step": begun.diverged,
        "diverged_lr": None if begun.diverged is None else begun.lr_at(begun.diverged - 1),
        "slices": _slices(begun),
        "groups": _groups(begun) if sound else [],
        "made_from": dict(begun.task.made_from),
        "load_axis": begun.task.load,
        **_sizes(begun),
        **_measured(begun),
        "kernels": ran,
        "step_form": form or position.step_form,
        **({"start": begun.cell.start, "fresh": position.fresh} if begun.cell.start else {}),
        **adaptation,
        "weights": weights.keep(sound and begun.cell.keep_weights, begun.folder, begun.model),
    }
    return cast(Outcome, found)


def _adaptation(begun: Begun) -> dict[str, Any]:
    """Before the adapters are merged."""
    if begun.cell.adaptation is None:
        return {}
    found = counted(begun.model)
    said = {"recipe": begun.cell.choices.get("adaptation"), "trained": found.trained, "share": found.share}
    return {"adaptation": said | asdict(begun.cell.adaptation)}


def _slices(begun: Begun) -> list[dict[str, Any]]:
    """One entry for each slice of valid and test; without scores where the cell has diverged."""
    scores = {"valid": begun.position.valid_scores, "test": begun.scores()}
    seen = (
        None if begun.model.sees_all(_seq_len(begun)) else coverage(begun.task, "test", begun.model.visible)
    )
    return [
        {"split": split, "slice": segment.slice, "coverage": (seen or {}).get(segment.name, 1.0)}
        | {"chance": begun.task.chance(segment)}
        | (UNSCORED if begun.diverged else asdict(scores[split][segment.name]))
        for split in ("valid", "test")
        for segment in begun.task.segments(split)
    ]


def _groups(begun: Begun) -> list[dict[str, Any]]:
    return [
        {"split": "test", "slice": name} | asdict(kind)
        for name, tally in begun.tallies.items()
        for kind in tally.by_group()
    ]


def _sizes(begun: Begun) -> dict[str, Any]:
    model, seq_len = begun.model, _seq_len(begun)
    whole = peak(model.state_size, seq_len)
    layer = peak(model.mixers[begun.cell.chosen_layer].state_size, seq_len)
    return {
        "causal": model.causal,
        "exact_decode": model.exact_decode,
        "layers": [type(mixer).__name__ for mixer in model.mixers],
        "parameters": sum(p.numel() for p in model.parameters()),
        "parameters_without_embedding": working_parameters(model),
        **{f"state_{key}": value for key, value in asdict(whole).items()},
        **{f"state_mixer_{key}": value for key, value in asdict(layer).items()},
        "state_seq_len": seq_len,
    }


def _measured(begun: Begun) -> dict[str, Any]:
    position, device = begun.position, begun.cell.trainer.device
    speed, missing = (None, None) if begun.diverged else _decode_speed(begun.model, _seq_len(begun), device)
    return {
        "wall_seconds": position.wall_seconds,
        "examples_per_second": position.examples / position.train_seconds if position.examples else None,
        "decode_tokens_per_second": speed,
        "decode_missing": missing,
        "operations": cost(begun.cell, begun.model).operations,
        "peak_memory_bytes": _peak_memory(device),
    }


def _seq_len(begun: Begun) -> int:
    return max(segment.seq_len for segment in begun.task.segments("test"))


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
