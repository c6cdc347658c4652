"""Make the outcome of a cell that has ended: its record, without the cell's identity and where it ran."""

import resource
import sys
from dataclasses import asdict
from typing import Any, cast

import torch

from zoo.common import interrupts
from zoo.common.checks import reason
from zoo.evaluation.decode_speed import decode_tokens_per_second
from zoo.evaluation.flops import cost, working_parameters
from zoo.mixers.state import peak
from zoo.model import SequenceModel
from zoo.model.low_rank import counted, merge
from zoo.results import weights
from zoo.results.outcome import UNSCORED
from zoo.results.record import Outcome
from zoo.tasks.coverage import coverage
from zoo.training.runs import Run


def conclude(run: Run, ran: dict[str, str], form: str | None) -> None:
    """Write metrics.csv and give the run its outcome, after its test or after it diverged.

    ran: which implementation of each op ran.  form: of the steps; None: this process took none.
    """
    run.write_metrics()
    run.outcome = _outcome(run, ran, form)
    run.finished(run.outcome)


def _outcome(run: Run, ran: dict[str, str], form: str | None) -> Outcome:
    sound, position = run.diverged is None, run.position
    adaptation = _adaptation(run)
    merge(run.model)
    run.model.to(run.cell.trainer.device)  # Lightning leaves the model on the CPU
    kinds = [(name, kind) for name, tally in run.tallies.items() if sound for kind in tally.by_group()]
    outcome = {
        "status": "ok" if sound else "diverged",
        "steps": position.step,
        "total_steps": run.total_steps,
        "epochs": run.epochs,
        "early_stopped": position.early_stopped,
        "diverged_step": run.diverged,
        "diverged_lr": None if run.diverged is None else run.lr_at(run.diverged - 1),
        "slices": _slices(run),
        "groups": [{"split": "test", "slice": name} | asdict(kind) for name, kind in kinds],
        "made_from": dict(run.task.made_from),
        "load_axis": run.task.load,
        **_sizes(run),
        **_measured(run),
        "kernels": ran,
        "step_form": form or position.step_form,
        **({"start": run.cell.start, "fresh": position.fresh} if run.cell.start else {}),
        **adaptation,
        "weights": weights.keep(sound and run.cell.keep_weights, run.folder, run.model),
    }
    return cast(Outcome, outcome)


def _adaptation(run: Run) -> dict[str, Any]:
    """Return the adaptation and the count of trained weights; must run before the adapters are merged."""
    if run.cell.adaptation is None:
        return {}
    count, recipe = counted(run.model), run.cell.choices.get("adaptation")
    trained = {"recipe": recipe, "trained": count.trained, "share": count.share}
    return {"adaptation": trained | asdict(run.cell.adaptation)}


def _slices(run: Run) -> list[dict[str, Any]]:
    """Return an entry for each slice of valid and test; without scores where the cell has diverged."""
    scores = {"valid": run.position.valid_scores, "test": run.scores()}
    in_view = None if run.model.sees_all(_seq_len(run)) else coverage(run.task, "test", run.model.visible)
    return [
        {"split": split, "slice": segment.slice, "coverage": (in_view or {}).get(segment.name, 1.0)}
        | {"chance": run.task.chance(segment)}
        | (UNSCORED if run.diverged else asdict(scores[split][segment.name]))
        for split in ("valid", "test")
        for segment in run.task.segments(split)
    ]


def _sizes(run: Run) -> dict[str, Any]:
    model, seq_len = run.model, _seq_len(run)
    whole = peak(model.state_size, seq_len)
    layer = peak(model.mixers[run.cell.chosen_layer].state_size, seq_len)
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


def _measured(run: Run) -> dict[str, Any]:
    position, device = run.position, run.cell.trainer.device
    speed, missing = (None, None) if run.diverged else _decode_speed(run.model, _seq_len(run), device)
    return {
        "wall_seconds": position.wall_seconds,
        "examples_per_second": position.examples / position.train_seconds if position.examples else None,
        "decode_tokens_per_second": speed,
        "decode_missing": missing,
        "operations": cost(run.cell, run.model).operations,
        "peak_memory_bytes": _peak_memory(device),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
    }


def _seq_len(run: Run) -> int:
    return max(segment.seq_len for segment in run.task.segments("test"))


def _decode_speed(model: SequenceModel, seq_len: int, device: str) -> tuple[float | None, str | None]:
    """Return the speed of decoding, or None and why.  The cell is tested: no error here may undo that."""
    try:
        return decode_tokens_per_second(model, seq_len, device), None
    except Exception as error:
        interrupts.check()  # the error may be a library's answer to an interrupt
        return None, reason(error)


def _peak_memory(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
