"""docs/traps.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(
    set(re.findall(r"`((?:tests|zoo)/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "traps.md").read_text()))
)


def test_there_are_traps():
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str):
    defined = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert name in defined, f"docs/traps.md names {file}::{name}, which is not there"
