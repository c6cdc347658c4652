"""Measure how many bits a state needs: decode test rows with the state rounded, form by form."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.coded_state import StateCoder, coder_for
from zoo.evaluation.trained import Trained
from zoo.kernels.linear_cross_entropy import answer_scores
from zoo.model.codecs.codec import NO_SCALE, Form
from zoo.model.codecs.formats import FORMATS
from zoo.model.written_once import tensors
from zoo.tasks.around import inmost
from zoo.tasks.base import IGNORED, Batch, Task
from zoo.tasks.mqar import MQAR, Pairs
from zoo.tasks.mqar_probe import MQARProbe, probe_task, with_room

EXACT = Form("fp32", NO_SCALE)
MEASURED = ("right", "agrees", "loss", "apart")
SCALARS_AT_ONCE = 2**22  # state scalars of all forms and rows that are decoded together
ROWS_AT_LEAST = 8  # rows decoded together even if their states have more scalars


class Part(NamedTuple):
    """The results of N rows, decoded in F forms."""

    right: Float[Tensor, "F N"]  # share of a row's answers that are right
    agrees: Float[Tensor, "F N"]  # share of a row's answers that equal those of the exact state
    loss: Float[Tensor, "F N"]
    apart: Float[Tensor, "F N"]  # relative distance of the last state from the exact one
    bits: list[int]  # the most bits at any token, for each form
    scalars: int


class StateBits(Evaluation):
    """A table of one row a slice and form: `formats` x `scales` x `roundings` x `every`, each form once.

    bits: the most that one row's state takes at any of its tokens (codes, scales, zero points, residuals and
    integers); bits_per_scalar: bits over the most scalars.  accuracy; error: its standard error, over rows.
    loss: nats an answer.  agreement: the share of answers that equal those of the exact state.  state_error:
    the distance of the state from the exact state at the end of a row, relative to its norm, mean over rows.
    The exact state has format fp32, which is always among the forms.  The forms replace a
    `model.state_codec` that the cell was trained with.

    distances: null: use the cell's own test slices; else rows of mqar_probe with each of `loads` pairs (null:
    the most pairs of training) and each of these numbers of tokens from key to query.
    zero_point, residual, rotate, block: set for every form that allows them (see Form).  seed: for stochastic
    rounding.  rows: the most of each slice.
    """

    def __init__(
        self,
        *,
        formats: Sequence[str],
        scales: Sequence[str],
        roundings: Sequence[str],
        every: Sequence[int],
        zero_point: bool,
        residual: str,
        rotate: bool,
        block: int,
        loads: Sequence[int] | None,
        distances: Sequence[int] | None,
        rows: int,
        seed: int,
    ) -> None:
        at_least("evaluation.rows", rows, 2)
        for name, values in (("loads", loads), ("distances", distances)):
            for value in values or ():
                at_least(f"evaluation.{name}", value, 1)
        self.loads, self.distances, self.rows, self.seed = loads, distances, rows, seed
        for name in formats:
            one_of("evaluation.formats", name, tuple(FORMATS))
        crossed = [
            Form(*each[:3], zero_point and FORMATS[each[0]].whole, residual, rotate, each[3], block).simplest
            for each in product(formats, scales, roundings, every)
        ]
        self.forms = list(dict.fromkeys([EXACT, *crossed]))

    def table(self, trained: Trained) -> pd.DataFrame:
        task, answers = trained.task, []
        if self.distances is not None:
            task = self._probe(trained)
        for index, segment in enumerate(task.segments("test")):
            trained.model.check_length(segment.seq_len)
            rows = min(self.rows, segment.num_examples)
            at_least("task.test.num_examples", rows, 2)  # an error is of two rows or more
            begin = named("test", segment)
            answers += [begin | row for row in self._scored(trained, task, index, rows)]
        return pd.DataFrame(answers)

    def _probe(self, trained: Trained) -> MQARProbe:
        task = inmost(trained.task)
        if not isinstance(task, MQAR):
            raise ValueError(
                f"evaluation.distances asks for pairs, and {type(task).__name__} has none: use task=mqar."
            )
        trained_on = [load for load in task.loads("train") if isinstance(load, Pairs)]
        loads = self.loads or [max(load.num_kv_pairs for load in trained_on)]
        wanted = [(pairs, distance) for pairs in loads for distance in self.distances or ()]
        return probe_task(task, [room for at in wanted if (room := with_room(*at, self.rows))])

    def _scored(self, trained: Trained, task: Task, index: int, rows: int) -> Iterator[dict[str, Any]]:
        parts = list(self._parts(trained, task, index, rows))
        scalars = max(part.scalars for part in parts)
        for i, form in enumerate(self.forms):
            columns = ([getattr(part, name)[i] for part in parts] for name in MEASURED)
            right, agrees, loss, apart = map(torch.cat, columns)
            bits = max(part.bits[i] for part in parts)
            yield {
                "format": form.format, "scale": form.scale, "rounding": form.rounding, "every": form.every,
                "bits": bits, "bits_per_scalar": bits / max(1, scalars), "accuracy": right.mean().item(),
                "error": right.std().item() / len(right) ** 0.5, "loss": loss.mean().item(),
                "agreement": agrees.mean().item(), "state_error": apart.mean().item(), "rows": len(right),
            }  # fmt: skip

    def _parts(self, trained: Trained, task: Task, index: int, rows: int) -> Iterator[Part]:
        seq_len = task.segments("test")[index].seq_len
        held = max(1, trained.model.state_size(seq_len).resident) * len(self.forms)
        coder = None
        for examples in torch.arange(rows, device=trained.device).split(
            max(ROWS_AT_LEAST, SCALARS_AT_ONCE // held)
        ):
            batch = task.sample("test", index, examples, trained.device)
            with trained.at_work():
                coder = coder or coder_for(trained.model, self.forms, self.seed, batch.inputs[:2])
                yield decoded(trained, batch, coder)


def decoded(trained: Trained, batch: Batch, coder: StateCoder) -> Part:
    """Decode a batch in all forms at once, and compare each form with the first, which is exact."""
    forms, model = len(coder.forms), trained.model
    inputs = batch.inputs.repeat(forms, *[1] * (batch.inputs.ndim - 1))
    positions, answers = batch.positions.repeat(forms, 1), batch.answers
    state, bits, scalars = None, [0] * forms, 0
    hidden = model.embedding.new_zeros(*positions.shape, model.embedding.shape[1])
    for place, token in enumerate(inputs.split(1, dim=1)):
        step, state = coder.extend(model, token, state)
        row, column = (positions == place).nonzero(as_tuple=True)
        hidden[row, column] = step[row, 0].to(hidden.dtype)
        bits = [max(pair) for pair in zip(bits, coder.bits(state.state), strict=True)]
        numbers = (leaf for _, leaf in tensors(state.state) if leaf.is_floating_point())
        scalars = max(scalars, sum(leaf[0].numel() for leaf in numbers))
    losses, best = answer_scores(hidden.flatten(0, 1), model.head_weight, answers.repeat(forms, 1).flatten())
    shape = (forms, *answers.shape)
    losses, best, scored = losses.view(shape), best.view(shape), answers != IGNORED
    assert state is not None
    last = [leaf for _, leaf in tensors(state.state) if leaf.is_floating_point()]
    return Part(
        right=_share(best == answers, scored),
        agrees=_share(best == best[:1], scored),
        loss=_share(losses, scored),
        apart=_apart(last, forms),
        bits=bits,
        scalars=scalars,
    )


def _share(values: Tensor, scored: Tensor) -> Float[Tensor, "F N"]:
    """Return the mean over the scored answers of each row."""
    return (values * scored).double().sum(-1).cpu() / scored.sum(-1).cpu()


def _apart(leaves: Sequence[Tensor], forms: int) -> Float[Tensor, "F N"]:
    """Return the distance of each form's state from the first form's, relative to the norm of the latter."""
    rows = len(leaves[0]) // forms if leaves else 0
    apart, norm = torch.zeros(forms, rows, dtype=torch.double), torch.zeros(rows, dtype=torch.double)
    for leaf in leaves:
        by_form = leaf.reshape(forms, rows, -1)
        apart += (by_form - by_form[:1]).double().square().sum(-1).cpu()
        norm += by_form[0].double().square().sum(-1).cpu()
    return (apart / norm.clamp(min=1e-300)).sqrt()
