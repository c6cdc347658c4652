"""Fixtures of all tests of populations."""

import pytest


@pytest.fixture(autouse=True)
def _decoding_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.training.conclusion.decode_tokens_per_second", lambda *given: None)
