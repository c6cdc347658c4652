"""Whether what `kernels=` asks for can be had by the ops that a model uses; said before any training."""

from collections.abc import Callable, Iterable

from zoo.kernels.choice import REFERENCE, Op, kernels, ops


def check_served(asked: str, run: Callable[[], object]) -> None:
    """ValueError, in one line: nothing that `run` calls has a form of the kind asked for, or one that can be
    had here.  run: a forward pass, on few tokens; it is run once, as under auto, unless any kind will do.
    """
    if asked in ("auto", REFERENCE):
        return
    with kernels("auto") as used:
        run()
    refused = unserved(asked, [op for op in ops() if op.name in used.ran])
    if refused:
        raise ValueError(f"kernels (={asked}) cannot be had: {refused}.  Use kernels=auto.")


def unserved(asked: str, used: Iterable[Op]) -> str | None:
    """Why a model of these ops cannot run as asked; None: it can.

    It needs one op with such a form; the other ops run as under auto.
    """
    used = list(used)
    wanted = {op.name: op.of_kind(asked) for op in used}
    for op in used:
        reasons = {name: op.missing(name) for name in wanted[op.name]}
        if reasons and all(reasons.values()):
            return f"{op.name} has " + ", ".join(f"{name} ({why})" for name, why in reasons.items())
    if any(wanted.values()):
        return None
    has = [f"{op.name} has {', '.join([*op.forms, *op.others])}" for op in used]
    return "; ".join(has) or "this model uses no op that has a choice of implementations"
