"""`loss: all`: training asks for every next token, and nothing else of a cell is another."""

import pytest
import torch

from tests.registry import composer
from zoo.launch.run_cell import who
from zoo.model.instantiate import build_task
from zoo.tasks.base import IGNORED
from zoo.training.check import check

COMPOSER = composer()


@pytest.mark.parametrize("task", ["mqar", "copy", "mad_in_context_recall", "induction"])
def test_a_training_row_asks_for_every_next_token_and_for_the_answers(task: str) -> None:
    usual, all_tokens = (
        build_task(COMPOSER.cell([f"task={task}", f"loss={loss}"]).config) for loss in ("answers", "all")
    )
    asked, batch = (each.sample("train", 0, range(5)) for each in (usual, all_tokens))
    assert torch.equal(batch.inputs, asked.inputs) and not batch.groups
    for tokens, row in enumerate(zip(batch.inputs, asked.positions, asked.answers, strict=True)):
        inputs, positions, answers = (part.tolist() for part in row)
        wanted = [*inputs[1:], IGNORED]
        for place, answer in zip(positions, answers, strict=True):
            wanted[place] = wanted[place] if answer == IGNORED else answer
        assert batch.answers[tokens].tolist() == wanted
        assert batch.positions[tokens].tolist() == list(range(len(inputs)))
    for split in ("valid", "test"):
        pairs = zip(usual.sample(split, 0, range(3)), all_tokens.sample(split, 0, range(3)), strict=True)
        assert all(torch.equal(a, b) for a, b in list(pairs)[:3])


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("mqar_stacked", "two tokens side by side"),
        ("mad_compression", "decoder"),
        ("text", "learned so already"),
    ],
)
def test_a_task_without_next_tokens_refuses(task: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"loss .=all. asks for every next token, and .*{why}.*: use"):
        check(COMPOSER.cell([f"task={task}", "loss=all"]))


def test_it_is_another_cell_only_where_it_is_said_and_the_record_says_so() -> None:
    plain, said, other = (COMPOSER.cell(words) for words in ([], ["loss=answers"], ["loss=all"]))
    assert plain.run_id == said.run_id and other.run_id != plain.run_id and other.point != plain.point
    assert "loss" not in who(plain)["task_settings"] and "loss" in who(other)["task_settings"]
