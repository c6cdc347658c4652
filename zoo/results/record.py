"""Define the schema of a record: which fields it has, of which type, within which limits.

A record may come from anywhere, so it is checked against these types once, when it is read
(zoo/results/checked.py); later code can rely on them.  Fields not named here are kept as they are.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import Doc, TypedDict

SCHEMA = 3  # of result.json; raise it when a key changes its meaning
LONGEST = 200  # characters of a name
APART = 0.3  # the mean of seeds that differ by more tells nothing: some learned the task and some did not
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def _fits(form: str, words: str) -> AfterValidator:
    """Return a validator of words that match the pattern `form`; words: what the error says must be there."""

    def check(word: str) -> str:
        if not re.fullmatch(form, word):
            raise ValueError(words)
        return word

    return AfterValidator(check)


TIME = "%Y-%m-%dT%H:%M:%SZ"  # as records write one, always UTC


def is_time(word: Any) -> bool:
    """Return whether `word` is a time as records write it."""
    try:
        return isinstance(word, str) and bool(datetime.strptime(word, TIME))
    except ValueError:
        return False


def _time(word: str) -> str:
    if not is_time(word):
        raise ValueError("a time in UTC, as 2026-11-24T03:20:14Z")
    return word


EXACT = 2**53  # integers up to here are the same in JSON, in a float and in a browser
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Field(ge=0, le=EXACT)]
Size = Annotated[int, Field(ge=0, le=2**20)]  # small, since bounds are computed by loops up to such a number
Positive = Annotated[int, Field(ge=1, le=EXACT)]
Amount = Annotated[float, Field(ge=0, le=1e100)]
Rate = Annotated[float, Field(gt=0, le=1e100)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(max_length=LONGEST)]
RunId = Annotated[  # a folder: no path, and no name that a file system would refuse
    str, _fits(r"\w[\w.=+-]{0,249}", "letters, digits and . _ = + - alone, at most 250")
]
Word = Annotated[str, _fits(r"\w[\w.+-]{0,39}", "a plain word")]
Key = Annotated[str, _fits(r"\w{1,40}", "a plain word")]
MadeFrom = dict[Name, Name]
Split = Literal["valid", "test"]


class Slice(TypedDict):
    """The scores of one split of one slice; None: the cell diverged before any score."""

    split: Annotated[Split, Doc("the last validation, or the test at the end")]
    slice: Annotated[dict[Key, Size | Word], Doc('"seq_len=64,num_kv_pairs=4", and a column for each key')]
    coverage: Annotated[Share, Doc("the part of the answers that the model can see at all; 1: no bound")]
    chance: NotRequired[Annotated[Share | None, Doc("accuracy of the best guess that has not seen the row")]]
    accuracy: Annotated[Share | None, Doc("right answers over answers")]
    row_accuracy: Annotated[Share | None, Doc("mean over rows of the part of a row's answers that is right")]
    exact_rows: Annotated[Share | None, Doc("rows with every answer right, over rows")]
    loss: Annotated[Amount | None, Doc("mean cross-entropy of an answer, in nats")]
    answers: Annotated[Count, Doc("how many were asked")]
    rows: Annotated[Count, Doc("examples")]


class Kind(TypedDict):
    """The answers of a slice to which a group of the task gives one value.

    In the group "distance" (`zoo.tasks.groups.Distance`) their source lies (value / 2, value] tokens back.
    """

    split: Split
    slice: Name
    group: Word
    value: Count | Word
    answers: Count
    right: Count


class TaskSettings(TypedDict, total=False):
    """The settings of a task that other code computes with."""

    vocab_size: Size


class Who(TypedDict, total=False):
    """The fields that identify the cell of a record."""

    run_id: Required[Annotated[RunId, Doc("the mixer and a hash of the config")]]
    point: Required[Annotated[Name, Doc("equal for cells that differ in nothing but seed and lr")]]
    mixer: Required[Annotated[Name, Doc("stem of the mixer's yaml")]]
    label: Required[Annotated[Name, Doc("the mixer's name in pictures")]]
    family: Required[Annotated[Name, Doc("the mixer's colour in pictures")]]
    knob: Annotated[dict[str, Any] | None, Doc("the setting that joins points to a line")]
    mixer_settings: Required[Annotated[dict[str, Any], Doc("columns mixer.<key>")]]
    state_codec: Annotated[
        dict[str, Any], Doc("columns state_codec.<key>: model.state_codec, where there is one")
    ]
    task: Required[Annotated[Name, Doc("stem of the task's yaml")]]
    task_settings: Required[
        Annotated[
            TaskSettings, Doc("columns task.<key>, without segments; task.loss where it is not answers")
        ]
    ]
    d_model: Required[Annotated[Positive, Doc("width of the residual stream")]]
    n_layers: Required[Annotated[Positive, Doc("how many layers")]]
    seed: Required[Annotated[Seed, Doc("of weights and data")]]
    lr: Required[Annotated[Rate, Doc("peak learning rate")]]
    accelerator: Required[Annotated[Name, Doc("cpu or gpu")]]
    precision: Required[Annotated[Name, Doc("as `trainer.precision`")]]


class Outcome(TypedDict, total=False):
    """The fields that training gives; it ran to its end ("ok"), or the loss was not finite ("diverged").

    An interrupted or failed cell raises instead, so an Outcome is never a false success.
    """

    status: Required[Annotated[Literal["ok", "diverged"], Doc("diverged: its loss was not finite")]]
    steps: Required[Annotated[Count, Doc("training steps made")]]
    total_steps: Annotated[Count, Doc("training steps planned")]
    epochs: Annotated[Count, Doc("epochs done")]
    early_stopped: Annotated[bool, Doc("whether `optim.early_stop` or a callback ended it")]
    diverged_step: Required[Annotated[Count | None, Doc("the first step (from 1) whose loss was not finite")]]
    diverged_lr: Annotated[Amount | None, Doc("the learning rate of that step")]
    slices: Required[Annotated[list[Slice], Doc("columns split to rows: a row each in `load`")]]
    groups: Required[Annotated[list[Kind], Doc("`load_groups`")]]
    made_from: Annotated[MadeFrom, Doc("what rows hold that no setting says: of a text SHA-256 and versions")]
    load_axis: Annotated[Name | None, Doc("the key of a slice that is the task's load; none: it has none")]
    causal: Required[Annotated[bool, Doc("false: the mixer sees the future")]]
    exact_decode: Required[Annotated[bool, Doc("false: decoding is not what was trained")]]
    layers: Annotated[list[str], Doc("class names, the first layer first")]
    parameters: Required[Annotated[Count, Doc("of the whole model")]]
    parameters_without_embedding: Annotated[Count, Doc("nor an untied head")]
    state_paper: Required[Annotated[Count | None, Doc("as published figures count; none where none was")]]
    state_resident: Required[Annotated[Count, Doc("scalars that decoding keeps, summed over layers")]]
    state_touched: Required[Annotated[Count, Doc("those of them that one decode step reads")]]
    state_aux_ints: Required[Annotated[Count, Doc("integers kept beside them")]]
    state_mixer_paper: Required[Annotated[Count | None, Doc("the same of one layer of the chosen mixer")]]
    state_mixer_resident: Required[Annotated[Count, Doc("the same of one layer of the chosen mixer")]]
    state_mixer_touched: Annotated[Count, Doc("the same of one layer of the chosen mixer")]
    state_mixer_aux_ints: Annotated[Count, Doc("the same of one layer of the chosen mixer")]
    state_seq_len: Required[Annotated[Positive, Doc("the longest test sequence: sizes are the most in it")]]
    wall_seconds: Required[Annotated[Amount, Doc("all of it, over every resumption")]]
    examples_per_second: Required[Annotated[Amount | None, Doc("of training alone; none: no step was taken")]]
    decode_tokens_per_second: Required[Annotated[Amount | None, Doc("none: diverged, not exact, or missing")]]
    decode_missing: Annotated[str | None, Doc("the error that timing decoding ended with; none: with none")]
    operations: Required[Annotated[Amount, Doc("of the cell as planned, counted (`zoo.evaluation.flops`)")]]
    peak_memory_bytes: Required[Annotated[Count, Doc("of the process on a CPU, of the allocator on a GPU")]]
    gpu: Annotated[str | None, Doc("the GPU's name; none: it ran on a CPU")]
    kernels: Annotated[dict[str, str], Doc("which implementation of each op ran")]
    step_form: Annotated[str | None, Doc("how steps were taken (`zoo.training.step`); none: none were")]
    start: Annotated[RunId, Doc("the cell whose weights it began with; absent: its own, drawn from `seed`")]
    fresh: Annotated[list[str], Doc("tensors that the start did not have: a swapped mixer's own")]
    adaptation: Annotated[
        dict[str, Any], Doc("columns adaptation.<key>: recipe, weights `trained`, their share")
    ]
    weights: Annotated[str | None, Doc("SHA-256 of weights.safetensors; none: none are kept")]


class Where(TypedDict, total=False):
    """The machine, versions and command that made a record."""

    began: Annotated[str, AfterValidator(_time), Doc("when its first attempt began, in UTC")]
    ended: Annotated[str, AfterValidator(_time), Doc("when it was done, in UTC")]
    overrides: Annotated[list[str], Doc("the words of the command")]
    config_dir: Annotated[str | None, Doc("--config-dir")]
    source: Annotated[dict[str, str], Doc("a hash of each part's code")]
    versions: Annotated[dict[str, str | None], Doc("of packages")]
    git_revision: Annotated[str | None, Doc("of the checkout")]
    git_clean: Annotated[bool | None, Doc("whether nothing in it was changed")]
    platform: Annotated[str, Doc("the machine")]
    cores: Annotated[Count | None, Doc("of its CPU")]
    population: Annotated[dict[str, Any], Doc("the cells that it trained with, and their time")]


@with_config(STRICT)
class Record(Who, Outcome, Where):
    """The contents of result.json."""

    schema: int


COLUMNS = frozenset({*Record.__annotations__, *Slice.__annotations__})  # no slice may have such a key
