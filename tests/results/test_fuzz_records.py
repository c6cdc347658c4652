"""Damaged records and archives: every command that reads any ends in words (`tests.fuzz_records`)."""

import random

import pytest

from tests.damages import damages
from tests.fuzz_records import CHEAP, COMMANDS, trials

ALL = {damage.name: damage for damage in damages()}
ONCE = {  # what went wrong once -> the command that did
    "claim.json:a_pipe:unfinished": "zoo.status",  # waited for ever
    "claim.json:a_broken_link:unfinished": "zoo.status",
    "claim.json:escapes:unfinished": "zoo.status",
    "metrics.csv:a_pipe:unfinished": "zoo.status",
    "zip:named_'//x/'": "zoo.collect",  # a loop in Python's zipfile
    "zip:swells_behind_a_small_claim": "zoo.collect",
    "error.txt:a_link:unfinished": "analysis.report.__main__",  # was handed on
    "config.yaml:bomb": "analysis.report.__main__",
    "config.yaml:keys": "analysis.report.__main__",
    "task_settings.vocab_size:escapes": "analysis.loads",  # was computed with
    "label:escapes": "analysis.loads",
    "label:tex": "analysis.pareto",
}
DEAR = {"zoo.plan": 2, "analysis.pareto": 2, "analysis.statistics.__main__": 3, "analysis.report.__main__": 5}


def failed(names: list[str], commands: list[str], packed_too: bool = False) -> list[str]:
    found = trials([ALL[name] for name in names], commands, packed_too)
    return [f"{trial.command}, {trial.damage}: {trial.wrong}\n{trial.said}" for trial in found if trial.wrong]


@pytest.mark.parametrize(("name", "command"), ONCE.items())
def test_what_went_wrong_once(name: str, command: str) -> None:
    assert not failed([name], [command])


def test_some_damages_before_every_command() -> None:
    drawn = random.Random(14)
    assert not failed(drawn.sample(sorted(ALL), 40), list(CHEAP))
    for command in [each for each in COMMANDS if each not in CHEAP]:
        assert not failed(drawn.sample(sorted(ALL), DEAR.get(command, 6)), [command])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_all_damages(command: str) -> None:
    assert not failed(list(ALL), [command], packed_too=command in CHEAP)
