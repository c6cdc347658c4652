"""Ctrl-C and SIGTERM, obeyed where nothing is lost, and never forgotten.

An exception that a signal's handler raises can vanish: what is raised in the callback of a weak reference
(every import runs one) or in a `__del__` is printed and dropped.  So each signal is also noted, and `check`
raises what was dropped.  Inside `later` it is only noted, until `check` is called where work can stop.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing import resource_tracker
from types import FrameType

KINDS = (signal.SIGINT, signal.SIGTERM)
HURRY_S = 1.0  # a second Ctrl-C counts from then on; `timeout`, for one, sends each signal twice


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends the work as Ctrl-C does."""


class When(IntEnum):
    """When a signal raises."""

    AT_ONCE = 0
    LATER = 1  # at the next `check`; at once where Ctrl-C comes a second time
    AFTER = 2  # at the next `check`, whatever comes


@dataclass
class _Signals:
    """Hold the signals that have come since the process listens."""

    first: int | None = None  # the signal
    at: float = 0.0
    listening: bool = False
    when: When = When.AT_ONCE


_signals = _Signals()


def begin() -> None:
    """Note signals from here to the end of the process, and raise none but inside `at_once`.

    For the first lines of a command: its imports take a second.
    """
    _signals.first, _signals.listening, _signals.when = None, True, When.LATER
    listen()


def listen() -> None:
    """Once more, after a library has put its own handlers in the place of ours.

    What the process was started to ignore stays ignored, as Ctrl-C is in the background of a shell.
    """
    if not _signals.listening:
        return
    for kind in KINDS:
        if signal.getsignal(kind) not in (signal.SIG_IGN, None):
            signal.signal(kind, _handle)


@contextmanager
def attended() -> Iterator[None]:
    """Inside, a signal raises KeyboardInterrupt or Terminated; outside all is as it was."""
    if _signals.listening or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.getsignal(kind) for kind in KINDS}
    _signals.first, _signals.listening, _signals.when = None, True, When.AT_ONCE
    try:
        listen()
        yield
    finally:
        _signals.first, _signals.listening = None, False
        for kind, handler in before.items():
            if handler is not None:
                signal.signal(kind, handler)


@contextmanager
def at_once() -> Iterator[None]:
    """Inside, and outside of `later`, a signal raises when it comes; one that came already, or was dropped,
    on the way in or out, in place of any other error."""
    before, _signals.when = _signals.when, When.AT_ONCE
    try:
        check()
        yield
    finally:
        _signals.when = before
        check()


@contextmanager
def later() -> Iterator[None]:
    """Inside, a signal is noted for `check`; a Ctrl-C some time after the first raises at once."""
    with _raising(When.LATER):
        yield
    check()


@contextmanager
def after() -> Iterator[None]:
    """Delay interrupts until the block inside has ended; keep it short."""
    with _raising(When.AFTER):
        yield


@contextmanager
def unheard(*signals: signal.Signals) -> Iterator[None]:
    """Processes started inside never hear these signals, unless they ask; here they only wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        resource_tracker.ensure_running()  # unblocks two of them when it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_driver() -> None:
    """Leave Ctrl-C to a worker's driver, and end when that is gone; for a worker's first line.  An orphan
    would write beside the next attempt, or wait for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()


def requested() -> bool:
    """Return whether a signal has come that asks this process to end."""
    return _signals.first is not None


def check() -> None:
    """Raise KeyboardInterrupt or Terminated if a signal has come, whatever became of it."""
    if requested():
        raise _interrupt()


@contextmanager
def _raising(when: When) -> Iterator[None]:
    before, _signals.when = _signals.when, max(when, _signals.when)
    try:
        yield
    finally:
        _signals.when = before


def _handle(number: int, frame: FrameType | None) -> None:
    del frame
    first = _signals.first is None
    if first:
        _signals.first, _signals.at = number, time.monotonic()
    hurry = not first and number == signal.SIGINT and time.monotonic() - _signals.at > HURRY_S
    if (first and _signals.when == When.AT_ONCE) or (hurry and _signals.when < When.AFTER):
        raise _interrupt()


def _interrupt() -> KeyboardInterrupt:
    return Terminated() if _signals.first == signal.SIGTERM else KeyboardInterrupt()


def _end_with_driver() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
