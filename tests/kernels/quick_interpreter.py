"""Triton's interpreter in half its time.

At every call of a function inside a kernel it looks all of triton.language through for what to put in place
of its operations, though the launch has done so; and it computes each sum and product of integers twice, to
see whether they overflow, which it reports only in debug mode.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def quicken() -> None:
    """Patch the interpreter of this process."""
    interpreter._patch_lang = _once_a_launch(interpreter._patch_lang)
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)


def _once_a_launch(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    patched: set[int] = set()  # of triton.language and its core, while a kernel runs

    def once(function: Any) -> Any:
        names = {id(value) for value in function.__globals__.values() if value is tl or value is tl.core}
        if names <= patched:
            return None
        launch, scope = not patched, patch(function)
        patched.update(names)
        if launch:
            restore = scope.restore
            scope.restore = lambda: (patched.clear(), restore())
        return scope

    return once
