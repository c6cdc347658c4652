"""A pseudo-terminal around a command that runs in this process, or in one of its own."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE = re.compile(r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|[@-_])")
FRAME = re.compile("[─-╿]")  # box drawing: what tables and bars are made of


class Screen:
    """A terminal of so many columns, and the text written to it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._parts: list[bytes] = []
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            over = self._over.is_set()  # read before select, so that all output before close() is read
            ready, _, _ = select.select([self.ours], [], [], 0.05)
            if ready:
                self._parts.append(os.read(self.ours, 65536))
            elif over:
                return

    def close(self) -> None:
        """Read the rest and close both sides; a fork server may never close its own."""
        self._over.set()
        self._reader.join()
        os.close(self.ours)
        os.close(self.theirs)

    @property
    def raw(self) -> str:
        return b"".join(self._parts).decode()

    @property
    def text(self) -> str:
        """Return the text without escapes; a line that was redrawn is in it several times."""
        return ESCAPE.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    @property
    def too_wide(self) -> list[str]:
        """Return the lines of tables and bars that the terminal would break."""
        return [line for line in self.text.split("\n") if FRAME.search(line) and len(line) > self.columns]

    @property
    def colours(self) -> list[str]:
        """Return every SGR code other than bold, dim, italic, underlined, reversed and their end."""
        codes = [code for code, end in ESCAPE.findall(self.raw) if end == "m"]
        return [code for code in codes if not set(code.split(";")) <= {"", "0", "1", "2", "3", "4", "7"}]


@contextmanager
def here(columns: int) -> Iterator[Screen]:
    """Connect standard input, output and error of this process to a terminal."""
    screen, saved = Screen(columns), [os.dup(fd) for fd in range(3)]
    streams = sys.stdout, sys.stderr
    for fd in range(3):
        os.dup2(screen.theirs, fd)
    try:
        with open(1, "w", closefd=False) as sys.stdout, open(2, "w", closefd=False) as sys.stderr:
            yield screen
    finally:
        sys.stdout, sys.stderr = streams
        for fd, old in enumerate(saved):
            os.dup2(old, fd)
            os.close(old)
        screen.close()
