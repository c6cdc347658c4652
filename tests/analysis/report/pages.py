"""What the tests of the report share: its page read back, records changed on disk, one line of refusal."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

HOSTILE = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Elements, by name, with their attributes; texts of the scripts that have an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        of = self.elements[-1][1].get("id") if self.elements else None
        if of:
            self.texts[of] = self.texts.get(of, "") + data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["data"])

    @property
    def details(self) -> dict[str, Any]:
        return json.loads(gzip.decompress(base64.b64decode(self.texts["details"])))


def rewritten(home: Path, changes: dict[str, Any], which: str = "result.json") -> None:
    """Change keys of a record that lies in `home`."""
    record = json.loads((home / which).read_text()) | changes
    (home / which).write_text(json.dumps(record))


def one_line(capsys: pytest.CaptureFixture[str], says: str) -> None:
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ") and not captured.out
    assert re.search(says, line), line
