"""Load a trained cell: its model with the final weights, its task and its config."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import at_least, nearest, reason
from zoo.common.foreign import visible
from zoo.config.cell import Cell, as_named_today
from zoo.evaluation.coded_state import CodedState, StateCoder, coder_for
from zoo.evaluation.scores import Tally
from zoo.kernels.choice import kernels
from zoo.kernels.linear_cross_entropy import answer_scores
from zoo.model import ModelState, SequenceModel, build_model, outline, picked
from zoo.model.codecs.codec import Form
from zoo.results import weights
from zoo.results.home import WEIGHTS, Home, cells, opened, shown
from zoo.results.outcome import Score
from zoo.results.reading import configured, is_done, parsed
from zoo.results.source import check_trusted
from zoo.tasks.base import Batch, Task
from zoo.tasks.build import task_of


@dataclass(frozen=True)
class Trained:
    """A trained cell, as `zoo.load` returns it.

    The model is in evaluation mode and on the CPU; `model.cuda()` moves all of it.

    cell: from the record's config.yaml.  record: result.json.
    coder: rounds the state after each token, see `with_state`; None: the state is not rounded.
    """

    model: SequenceModel
    task: Task
    cell: Cell = field(repr=False)
    record: dict[str, Any] = field(repr=False)
    coder: StateCoder | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Return the config as plain nested dicts."""
        return self.cell.config

    @property
    def device(self) -> torch.device:
        """Return the device of the weights; inputs must be on it too."""
        return self.model.embedding.device

    def logits(
        self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"] | None = None
    ) -> Float[Tensor, "B T V"] | Float[Tensor, "B A V"]:
        """Return the logits of the token after each token, or only after those at `positions`."""
        with self.at_work():
            return self.model.logits(self._hidden(inputs, positions))

    def greedy(self, inputs: Int[Tensor, "B T"], steps: int, stop: int | None = None) -> Int[Tensor, "B S"]:
        """Return the `steps` most likely next tokens, each decoded from the state that the one before left.

        stop: after this token a row only repeats it; the result is shorter if all rows stop earlier.
        ValueError: the model has no exact decoding, or the sequence would be too long for the model.
        """
        at_least("steps", steps, 1)
        self._check_decodes()
        self._check_rows(inputs, None)
        self.model.check_length(inputs.shape[1] + steps - 1)
        last = -1 if stop is None else stop  # no token is -1
        tokens, state = [inputs], None
        over = torch.zeros_like(inputs[:, :1], dtype=torch.bool)
        with self.at_work():
            while len(tokens) <= steps and not over.all():
                hidden, state = self.extend(tokens[-1], state)
                tokens.append(self.model.logits(hidden[:, -1:]).argmax(-1).masked_fill(over, last))
                over = tokens[-1] == last
        return torch.cat(tokens[1:], dim=1)

    def with_state(
        self,
        *,
        format: str,
        scale: str = "key",
        rounding: str = "nearest",
        zero_point: bool = False,
        residual: str = "bf16",
        rotate: bool = False,
        every: int = 1,
        block: int = 32,
        seed: int = 0,
    ) -> "Trained":
        """Return the same cell with a rounded state: `greedy`, `score` and every evaluation then read token
        by token.  The rounding replaces the cell's own `model.state_codec`.

        The settings are those of `zoo.model.codecs.codec.Form`.  seed: for stochastic rounding.
        ValueError: the model has no exact decoding, or there is no such form.
        """
        self._check_decodes()
        form = Form(format, scale, rounding, zero_point, residual, rotate, every, block)
        return replace(self, coder=coder_for(self.model, [form], seed))

    def extend(
        self, inputs: Int[Tensor, "B T"], state: ModelState | CodedState | None = None
    ) -> tuple[Float[Tensor, "B T D"], ModelState | CodedState]:
        """Read more tokens after a state that an earlier call returned; None: the start of a sequence."""
        if self.coder is None:
            return self.model.extend(inputs, state if isinstance(state, ModelState) else None)
        return self.coder.extend(self.model, inputs, state if isinstance(state, CodedState) else None)

    def score(self, batch: Batch) -> Score:
        """Score the answers of a batch of the task."""
        tally = Tally(self.task.groups)
        self.add(tally, batch)
        return tally.score()

    def add(self, tally: Tally, batch: Batch) -> None:
        """Add the answers of a batch, worked out by `answered`, to a tally."""
        tally.add(batch, *self.answered(batch))

    def refuses(self, seq_len: int) -> str:
        """Return why the model cannot take sequences of this length; "": it can."""
        try:
            self.model.check_length(seq_len)
        except ValueError as error:
            return str(error)
        return ""

    def answered(self, batch: Batch) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
        """Return the cross-entropy of each answer and the most likely token in its place, N = B A, with the
        arithmetic of the cell's own test."""
        with self.at_work():
            states = self._hidden(batch.inputs, batch.positions).flatten(0, 1)
            return answer_scores(states, self.model.head_weight, batch.answers.flatten())

    def _hidden(self, inputs: Tensor, positions: Tensor | None) -> Tensor:
        """Return the hidden states that the head reads; with a rounded state, by decoding."""
        self._check_rows(inputs, positions)
        if self.coder is None:
            return self.model(inputs, positions)
        hidden = self.extend(inputs)[0]
        return hidden if positions is None else picked(hidden, positions)

    def _check_decodes(self) -> None:
        if not self.model.exact_decode:
            raise ValueError(f"{self.record['mixer']} has no exact decoding: use `logits` of a whole row.")

    def _check_rows(self, inputs: Tensor, positions: Tensor | None) -> None:
        """Raise ValueError unless these are rows of tokens that the model knows, with places in the rows."""
        tokens = len(self.model.embedding) if self.model.stacked is None else math.inf
        for name, x, end in (("inputs", inputs, tokens), ("positions", positions, inputs.shape[-1])):
            if x is None:
                continue
            if x.is_floating_point() or x.ndim != 2 or not x.numel() or x.min() < 0 or x.max() >= end:
                span = f"{x.min()} to {x.max()}" if x.numel() else "nothing"
                what = f"{name} (={span} in {[*x.shape]})"
                raise ValueError(f"{what} must be rows of whole numbers below {end}.")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Use the kernels and the precision of the cell's test, without gradients, inside this context.

        On a CPU, a cell that was trained on a GPU uses the kernels that suit a CPU.
        """
        trainer = self.cell.trainer
        elsewhere = self.device.type == "cpu" and trainer.accelerator == "gpu"
        mixed = trainer.precision == "bf16-mixed"
        with (
            torch.no_grad(),
            kernels("auto" if elsewhere else self.cell.kernels),
            torch.autocast(self.device.type, torch.bfloat16, enabled=mixed),
        ):
            yield


def load(results: str | Path, run_id: str | None = None, *, trusted: Iterable[str] = ()) -> Trained:
    """Load the trained model of a finished cell: `zoo.load("results/RUN")`, `zoo.load("some.zip", "RUN")`.

    The parts that its config.yaml names are built by `zoo.config.targets.make` alone, from classes of zoo and
    of the modules in `trusted`: a record is data, and nothing else that it names is imported.
    ValueError, one line with the fix: no such run, not finished, no weights, weights of another model, or a
    part that is neither zoo's nor trusted.
    """
    folder = _folder(Path(results), run_id)
    record = record_of(folder)
    return build(folder, record, cell_of(folder, record, trusted))


def build(folder: Home, record: dict[str, Any], cell: Cell) -> Trained:
    """Build the model of a record whose cell has been read and checked, and give it its weights."""
    state_dict = weights.read(folder, record.get("weights"))
    try:
        task = task_of(cell)
        weights.check_fit(state_dict, outline(cell), folder / WEIGHTS)
        model = build_model(cell)
        weights.put(state_dict, model)
    except ValueError as error:
        raise ValueError(visible(str(error))) from None
    except Exception as error:  # a constructor may raise anything: the yaml may be foreign or old
        raise ValueError(f"{shown(folder)} cannot be built: {visible(reason(error))}.") from error
    return Trained(model.eval(), task, cell, record)


def record_of(folder: Home) -> dict[str, Any]:
    """Return the record of a finished cell.  ValueError, one line: the cell is not finished, or diverged."""
    if isinstance(folder, Path):
        _check_run(folder)
    if not is_done(folder):
        raise ValueError(f"{shown(folder)} is not finished: give the command that made it once more.")
    record = parsed(folder)
    if record["status"] == "diverged":
        raise ValueError(f"{shown(folder)} diverged at step {record['diverged_step']}: it kept no weights.")
    return record


def cell_of(folder: Home, record: dict[str, Any], trusted: Iterable[str] = ()) -> Cell:
    """Read the cell from config.yaml, whose hash must be the run id of the record.

    ValueError, one line: it is another config, or it names parts of modules neither of zoo nor trusted.
    """
    config = (cell := configured(folder, record)).config
    home = folder.parent if isinstance(folder, Path) else Path(str(folder.root.filename))  # or the archive
    check_trusted(shown(folder / "config.yaml"), config, trusted, home)
    layers = [as_named_today(layer) for layer in cell.layers]
    today = {"mixer": as_named_today(config["mixer"]), "model": config["model"] | {"layers": layers}}
    return replace(cell, config=config | today)


def _check_run(folder: Path) -> None:
    """Raise a ValueError of one line if the folder holds runs and is not a run itself."""
    if is_done(folder) or not folder.is_dir():
        return
    runs = [run.name for run in cells(folder) if is_done(run)]
    if runs:
        some = ", ".join(map(visible, runs[:3])) + (", ..." if len(runs) > 3 else "")
        raise ValueError(f"{shown(folder)} is a folder of {len(runs)} runs: name one, {some}.")


def _folder(results: Path, run_id: str | None) -> Home:
    """Return the folder or the archive's folder of the run.  ValueError, one line: it is not there."""
    if run_id is None and results.is_file():
        raise ValueError(f"{shown(results)} is an archive: name one of its runs, zoo.load(ARCHIVE, RUN_ID).")
    if run_id is None:
        whole = results if results.name not in ("", "..") else results.resolve()
        _check_run(whole)
        results, run_id = whole.parent, whole.name
    if results.exists():
        names = [folder.name for folder in cells(results)]
        if run_id in names:
            return opened(results) / run_id
        most_like = nearest(run_id, names)
        like = f"; did you mean {shown(most_like)}?" if most_like else "."
    else:
        like = ", nor such a folder: give results/RUN_ID."
    raise ValueError(f"no run {visible(run_id)} in {shown(results)}{like}")
