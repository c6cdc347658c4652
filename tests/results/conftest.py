"""A command in this process, as the tests of analysis run theirs."""

from tests.analysis.conftest import run as run
