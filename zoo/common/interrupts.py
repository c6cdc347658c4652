"""Handle Ctrl-C and SIGTERM where nothing is lost, and never forget a signal.

An exception that a signal's handler raises can vanish: an exception in the callback of a weak reference
(every import runs one) or in a `__del__` is printed and dropped.  So each signal is also noted, and `check`
raises what was dropped.  Inside `later` a signal is only noted; call `check` where the work can stop.
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
HURRY_S = 1.0  # seconds before a second Ctrl-C counts, because `timeout`, for one, sends each signal twice


class Terminated(KeyboardInterrupt):
    """The exception for SIGTERM, which ends the work like Ctrl-C."""


class When(IntEnum):
    """The moments at which a signal may raise."""

    AT_ONCE = 0
    LATER = 1  # at the next `check`; at once when Ctrl-C comes a second time
    AFTER = 2  # at the next `check`, even if Ctrl-C comes a second time


@dataclass
class _Signals:
    """The first signal that has come since the process listens, and how signals are handled now."""

    first: int | None = None  # the signal's number
    at: float = 0.0  # when the first signal came
    listening: bool = False
    when: When = When.AT_ONCE


_signals = _Signals()


def begin() -> None:
    """Note signals until the process ends, and raise only inside `at_once` or at a second Ctrl-C.

    Call this in the first lines of a command, whose imports take a second.
    """
    _signals.first, _signals.listening, _signals.when = None, True, When.LATER
    listen()


def listen() -> None:
    """Install our handlers, also again after a library has replaced them.

    A signal that the process was started to ignore stays ignored, like Ctrl-C in a shell's background.
    """
    if not _signals.listening:
        return
    for kind in KINDS:
        if signal.getsignal(kind) not in (signal.SIG_IGN, None):
            signal.signal(kind, _handle)


@contextmanager
def attended() -> Iterator[None]:
    """Let a signal raise KeyboardInterrupt or Terminated inside; restore the handlers afterwards."""
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
    """Let a signal raise when it comes, inside this and not inside `later`.  A signal that came before, or
    was dropped, raises on the way in or out, in place of any other error."""
    before, _signals.when = _signals.when, When.AT_ONCE
    try:
        check()
        yield
    finally:
        _signals.when = before
        check()


@contextmanager
def later() -> Iterator[None]:
    """Only note signals inside, for `check` at the end; a second Ctrl-C after HURRY_S raises at once."""
    with _raising(When.LATER):
        yield
    check()


@contextmanager
def after() -> Iterator[None]:
    """Only note signals inside, even a second Ctrl-C, for the next `check`; keep the block short."""
    with _raising(When.AFTER):
        yield


@contextmanager
def unheard(*signals: signal.Signals) -> Iterator[None]:
    """Block these signals for processes started inside, unless these unblock them; here they only wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        resource_tracker.ensure_running()  # its start unblocks two signals
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_driver() -> None:
    """Leave Ctrl-C to a worker's driver, and end this worker when the driver is gone; call this first.  An
    orphaned worker would write beside the next attempt, or wait for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()


def requested() -> bool:
    """Return whether a signal has come that asks this process to end."""
    return _signals.first is not None


def check() -> None:
    """Raise KeyboardInterrupt or Terminated if a signal has come, even if its exception was dropped."""
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
