"""Rows of the recall tasks as their definitions say, to the byte as they were, and refusals in one line."""

import hashlib
import re
from typing import Any

import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from tests.tasks import recall_rows
from tests.tasks.made import one_line, pairs
from zoo.config.paths import CONF
from zoo.tasks.base import IGNORED, SPLITS, Batch, Task
from zoo.tasks.mqar_keys import KeysMQAR

ROWS = 150


def task_with(name: str, segment: dict[str, Any], **settings: Any) -> Task:
    """Build the task of conf/task/NAME.yaml with other settings and a single segment."""
    config = OmegaConf.merge(OmegaConf.load(CONF / "task" / f"{name}.yaml"), settings)
    for split in SPLITS:
        config[split] = [segment | {"num_examples": 8}]
    return instantiate(OmegaConf.create({"seed": 0, "task": config}).task, _convert_="all")


def queries_of(batch: Batch, row: int) -> recall_rows.Queries:
    """Return the queries of a row, in the order of the batch."""
    groups = [
        {name: int(values[row, i]) for name, values in batch.groups.items()}
        for i in range(batch.answers.shape[1])
    ]
    places = zip(batch.positions[row].tolist(), batch.answers[row].tolist(), groups, strict=True)
    return [(position, answer, group) for position, answer, group in places if answer != IGNORED]


def writes(seq_len: int, num_kv_pairs: int, overwrites: int) -> dict[str, int]:
    return {**pairs(seq_len, num_kv_pairs), "overwrites": overwrites}


def sets(seq_len: int, first: int, second: int) -> dict[str, int]:
    return {"seq_len": seq_len, "first_set": first, "second_set": second}


def strings(seq_len: int, shortest: int, longest: int, strings: int) -> dict[str, int]:
    return {"seq_len": seq_len, "shortest": shortest, "longest": longest, "strings": strings}


CASES: list[tuple[str, dict[str, int], dict[str, Any]]] = [
    ("ar_single", pairs(32, 4), {}),
    ("ar_single", pairs(33, 16), {"vocab_size": 33}),
    ("ar_single_safari", pairs(42, 20), {}),
    ("ar_single_safari", pairs(8, 3), {"vocab_size": 5}),
    *(("mqar", pairs(*size), {"vocab_size": 8192}) for size in ((64, 4), (64, 16), (1024, 256), (8, 1))),
    *(
        ("mqar", pairs(256, 64), {"vocab_size": 8192, "filler": filler})
        for filler in ("safe", "random", "blank")
    ),
    *(("mqar", pairs(8 * (n + 1), 4), {"num_passes": n}) for n in (2, 3)),
    ("mqar", pairs(256, 64), {"vocab_size": 1024}),
    ("mqar", pairs(16, 3), {"vocab_size": 8}),
    ("mqar", pairs(16, 4), {"vocab_size": 10}),
    ("mqar_update", pairs(64, 8), {}),
    ("mqar_update", pairs(24, 4), {"vocab_size": 16}),
    ("mqar_update", pairs(64, 12), {"num_updates": 0}),
    ("mqar_update", pairs(128, 25), {"num_updates": 14}),
    ("mqar_overwrite", writes(64, 4, 4), {}),
    ("mqar_overwrite", writes(16, 4, 0), {"vocab_size": 10}),
    ("mqar_overwrite", writes(160, 4, 16), {"vocab_size": 160}),
    ("mqar_compositional", pairs(64, 9), {}),
    ("mqar_compositional", pairs(24, 4), {"vocab_size": 13}),
    ("mqar_compositional", pairs(128, 16), {}),
    ("mqar_unseen", pairs(64, 8), {}),
    ("mqar_unseen", pairs(64, 16), {"vocab_size": 67, "unseen": 0.6}),
    ("mqar_keys", pairs(64, 16), {}),
    ("mqar_keys", pairs(64, 4), {"num_keys": 4, "vocab_size": 60}),
    ("mqar_keys", pairs(64, 4), {"num_keys": 55, "vocab_size": 60}),
    ("mqar_apart", pairs(64, 8), {}),
    ("mqar_apart", pairs(42, 6), {"apart": 4, "vocab_size": 14}),
    ("mqar_apart", pairs(32, 8), {"apart": 1}),
    ("noisy_ar", pairs(64, 8), {}),
    ("noisy_ar", pairs(64, 16), {"vocab_size": 36, "noise_tokens": 2, "noise": 0.8}),
    ("noisy_ar", pairs(32, 4), {"noise": 1.0}),
    ("mqar_stacked", pairs(16, 8), {}),
    ("mqar_stacked", pairs(18, 6), {"num_passes": 2, "vocab_size": 12}),
    ("set_disjoint", sets(23, 4, 16), {}),
    ("set_disjoint", sets(23, 16, 4), {"vocab_size": 24}),
    ("set_disjoint_twice", sets(45, 16, 4), {}),
    ("ngram_ar", strings(220, 5, 20, 20), {}),
    ("ngram_ar", strings(100, 4, 12, 3), {"ngram": 2, "vocab_size": 7}),
    ("ngram_ar", strings(64, 10, 20, 5), {"answer_length": 3}),
    ("ngram_ar", strings(44, 20, 20, 1), {"ngram": 1}),
    ("ngram_ar_prefix", strings(220, 5, 20, 20), {}),
    ("ngram_ar_prefix", strings(100, 4, 12, 3), {"ngram": 2, "vocab_size": 7, "answer_length": 2}),
    ("phonebook", {"seq_len": 101, "num_entries": 8}, {}),
    ("phonebook", {"seq_len": 56, "num_entries": 3}, {"vocab_size": 15}),
]


@pytest.mark.parametrize(("name", "segment", "settings"), CASES)
def test_every_row_follows_the_definition(name: str, segment: dict[str, int], settings: dict[str, Any]):
    task = task_with(name, segment, **settings)
    batch = task.sample("train", 0, range(ROWS))
    read = getattr(recall_rows, name.removesuffix("_twice").removesuffix("_prefix"))
    known = {key: value for key, value in vars(task).items() if not key.startswith("_")}
    known |= {"num_keys": task.num_keys} if isinstance(task, KeysMQAR) else {}
    for row, tokens in enumerate(batch.inputs.tolist()):
        read(tokens, queries_of(batch, row), **known, **segment)


FILLED = ("mqar", "ar_single", "mqar_update", "mqar_compositional", "mqar_unseen", "mqar_apart", "noisy_ar")


@pytest.mark.parametrize("name", FILLED)
def test_filler_changes_nothing_else(name: str):
    """Blank is token 0 and random any token; queries and pairs stay as they are."""
    segment, count = pairs(36 if name == "mqar_compositional" else 32, 4), 400
    kinds = {
        kind: task_with(name, segment, filler=kind).sample("test", 0, range(count))
        for kind in ("safe", "random", "blank")
    }
    blank, rest = kinds["blank"].inputs, kinds["blank"].inputs == 0
    for batch in kinds.values():
        assert batch.inputs[~rest].equal(blank[~rest]) and batch.positions.equal(kinds["blank"].positions)
        assert batch.answers.equal(kinds["blank"].answers)
    drawn = kinds["random"].inputs.where(rest, -1)
    hits = (drawn[:, :, None] == blank[:, None, :8]).any(2).sum() / rest.sum()
    assert 0.6 < hits * 256 / 8 < 1.4, "as much of the random filler is bound as by chance"


GOLDEN = {
    "ar_single": "3cec075a4871cb78",
    "ar_single_safari": "93840dd155639224",
    "mqar_passes": "ca1fa359b70c2832",
    "mqar_update": "e27b3c1810755d34",
    "mqar_overwrite": "6feef079debf907e",
    "mqar_compositional": "af34c07c0cb05221",
    "mqar_unseen": "24bf882b4b690901",
    "mqar_keys": "479f38a130cbd79b",
    "mqar_apart": "18235d740fca1194",
    "noisy_ar": "23d735673385fabf",
    "mqar_stacked": "db27aee38165c207",
    "set_disjoint": "b25c036757062495",
    "set_disjoint_twice": "4478e23a0e596991",
    "ngram_ar": "b6108114d1d7f63f",
    "ngram_ar_prefix": "16e0acccadca6adf",
    "phonebook": "62a70ea01474578a",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_rows(name: str):
    """Rows never change: records name a task and a seed."""
    config = OmegaConf.create({"seed": 0, "task": OmegaConf.load(CONF / "task" / f"{name}.yaml")}).task
    task, digest = instantiate(config, _convert_="all"), hashlib.sha256()
    for split in SPLITS:
        for segment in range(len(task.segments(split))):
            batch = task.sample(split, segment, range(8))
            for part in (*batch.tensors, *batch.groups.values()):
                digest.update(part.contiguous().numpy().tobytes())
    assert digest.hexdigest()[:16] == GOLDEN[name]


BAD: list[tuple[str, dict[str, int], dict[str, Any], str]] = [
    ("ar_single", pairs(32, 16), {}, "2 * num_kv_pairs (=16) + 1 must be at most seq_len (=32).. up to 15"),
    ("ar_single", pairs(32, 15), {"vocab_size": 30}, "has 14 keys, too few for ..(=15); use at least 31"),
    ("ar_single", pairs(32, 0), {}, "num_kv_pairs (=0) must be at least 1"),
    ("ar_single", pairs(32, 4), {"filler": "saef"}, "task.filler (='saef') must be one of safe"),
    ("ar_single_safari", pairs(40, 20), {}, "seq_len (=40) .. must be 42: leave it out"),
    ("ar_single_safari", pairs(42, 20), {"vocab_size": 2}, "(=2) has 0 keys"),
    ("mqar_update", pairs(32, 8), {}, "4 * num_kv_pairs (=8) + 8 must be ..; use up to 6 pairs or 40 tokens"),
    ("mqar_update", pairs(33, 4), {}, "seq_len (=33) must be even; use 34"),
    ("mqar_update", pairs(32, 3), {}, "task.num_updates (=4) must be at most ..num_kv_pairs (=3)"),
    ("mqar_update", pairs(32, 4), {"num_updates": -1}, "task.num_updates (=-1) must be at least 0"),
    ("mqar_update", pairs(32, 4), {"vocab_size": 14}, "tokens for 4 keys and 8 values ..use at least 16"),
    ("mqar_update", pairs(32, 4), {"power_a": 0.0}, "task.power_a (=0.0) must be positive"),
    ("mqar_overwrite", writes(32, 4, -1), {}, "overwrites (=-1) must be at least 0"),
    (
        "mqar_overwrite",
        writes(32, 4, 3),
        {},
        "10 * num_kv_pairs (=4) must be ..use up to 3 pairs or 40 tokens",
    ),
    ("mqar_overwrite", writes(64, 4, 4), {"vocab_size": 38}, "values for 20 writes ..; use at least 40"),
    ("mqar_overwrite", writes(64, 4, 4), {"filler": "random"}, "task.filler (='random') must be one of safe"),
    ("mqar_compositional", pairs(64, 8), {}, "num_kv_pairs (=8) must be a square; use 4 or 9"),
    ("mqar_compositional", pairs(64, 16), {}, "6 * num_kv_pairs (=16) must be at most .. 96 tokens"),
    ("mqar_compositional", pairs(64, 9), {"vocab_size": 24}, "tokens for .. 9 values ..; use at least 27"),
    ("mqar_unseen", pairs(64, 17), {}, "4 * num_kv_pairs (=17)..use up to 16 pairs or 68 tokens"),
    ("mqar_unseen", pairs(64, 16), {"vocab_size": 66}, "has 31 keys, too few for ..; use at least 67"),
    ("mqar_unseen", pairs(64, 8), {"unseen": 1.5}, "task.unseen (=1.5) must be between 0 and 1"),
    ("mqar_keys", pairs(64, 8), {"num_keys": 7}, "(=7) has 7 keys, too few for ..(=8); use more keys or"),
    ("mqar_keys", pairs(64, 8), {"vocab_size": 1023}, "(=1015) has 7 values, too few for ..use more values"),
    ("mqar_keys", pairs(64, 8), {"vocab_size": 1016}, "task.vocab_size (=1016) must be at least 1017"),
    ("mqar_apart", pairs(64, 13), {}, "5 * num_kv_pairs (=13) must be ..use up to 12 pairs or 65 tokens"),
    ("mqar_apart", pairs(64, 8), {"vocab_size": 16}, "has 7 keys, too few for ..; use at least 18"),
    ("mqar_apart", pairs(64, 8), {"apart": 0}, "task.apart (=0) must be at least 1"),
    ("noisy_ar", pairs(64, 8), {"noise": -0.1}, "task.noise (=-0.1) must be between 0 and 1"),
    ("noisy_ar", pairs(64, 8), {"noise_tokens": 0}, "task.noise_tokens (=0) must be at least 1"),
    ("noisy_ar", pairs(64, 8), {"vocab_size": 33}, "less 16 for noise has 7 keys, ..; use at least 34"),
    ("mqar_stacked", pairs(17, 8), {}, "seq_len (=17) of a segment of task.train must be 16"),
    ("mqar_stacked", pairs(16, 8), {"vocab_size": 257}, "vocab_size (=257) must be even..; use 258"),
    ("mqar_stacked", pairs(16, 8), {"vocab_size": 14}, "has 7 keys, too few ..; use at least 16"),
    ("set_disjoint", sets(22, 4, 16), {}, "seq_len (=22) .. must be 23"),
    ("set_disjoint", sets(19, 0, 16), {}, "first_set (=0) must be at least 1"),
    ("set_disjoint", sets(23, 4, 16), {"vocab_size": 23}, "19 elements, too few ..(=20); use at least 24"),
    ("phonebook", {"seq_len": 100, "num_entries": 8}, {}, "seq_len (=100) .. must be 101"),
    ("phonebook", {"seq_len": 47, "num_entries": 2}, {}, "num_entries (=2) must be at least 3"),
    ("phonebook", {"seq_len": 101, "num_entries": 8}, {"vocab_size": 15}, "3 names, too few ..: raise it"),
    ("ngram_ar", strings(42, 20, 20, 1), {}, "a question on 20 letters takes up to 43 tokens..use up to 19"),
    ("ngram_ar", strings(43, 3, 20, 1), {}, "shortest (=3) must be at least 4"),
    ("ngram_ar", strings(43, 20, 19, 1), {}, "longest (=19) must be at least 20"),
    ("ngram_ar", strings(43, 20, 20, 0), {}, "strings (=0) must be at least 1"),
    ("ngram_ar", strings(43, 20, 20, 1), {"vocab_size": 5}, "vocab_size (=5) must be at least 6"),
    ("ngram_ar", strings(43, 20, 20, 1), {"vocab_size": 6, "ngram": 2}, "letters (=2) ** ngram (=2) = 16"),
    ("ngram_ar", strings(43, 20, 20, 1), {"answer_length": 0}, "task.answer_length (=0) must be at least 1"),
    ("ngram_ar", strings(43, 20, 20, 1), {"form": "infix"}, "task.form (='infix') must be one of suffix"),
]


@pytest.mark.parametrize(("name", "segment", "settings", "words"), BAD)
def test_impossible_settings_are_refused_in_one_line(
    name: str, segment: dict[str, int], settings: dict[str, Any], words: str
):
    with pytest.raises(InstantiationException) as error:
        task_with(name, segment, **settings)
    assert re.match(one_line(words), str(error.value.__cause__))
