"""Which implementation of an op runs, and a note of what ran: `kernels=auto|reference|triton|package`.

auto: what suits the device and the sizes.  reference: the definition.  triton: our Triton kernel, in every op
that has one.  package: another package's kernel, in every op that has one.  An op without an implementation
of the kind asked for runs as under auto, and the note says so.

The choice is a context, no global: it holds for the calls inside, in this thread, and ends with it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Literal, get_args

from torch import Tensor

import zoo.kernels
from zoo.checks import one_of
from zoo.kernels.common.available import absent, interpreted, no_device
from zoo.kernels.common.verdicts import verdict

Kernels = Literal["auto", "reference", "triton", "package"]
KINDS: tuple[str, ...] = get_args(Kernels)
REFERENCE, NATIVE, TRITON = "reference", "native", "triton"
INT32 = 2**31
CARDS = ("cuda",)  # kinds of devices on which kernels are proved


class Refused(ValueError):
    """An op has the kind of implementation asked for, and none that can take these inputs here."""


@dataclass
class Choice:
    """What is asked for, and op -> implementations that ran so far."""

    asked: str
    ran: dict[str, set[str]] = field(default_factory=dict)

    def record(self) -> dict[str, str]:
        """op -> implementation; several, by length for example, are joined by +."""
        return {op: "+".join(sorted(names)) for op, names in sorted(self.ran.items())}


_CHOICE: ContextVar[Choice | None] = ContextVar("kernels", default=None)


@contextmanager
def kernels(asked: str) -> Iterator[Choice]:
    """Inside, every op runs as `asked` says, and the Choice notes what ran.  Outside of any: auto."""
    one_of("kernels", asked, KINDS)
    choice = Choice(asked)
    token = _CHOICE.set(choice)
    try:
        yield choice
    finally:
        _CHOICE.reset(token)


class Op:
    """An operation and its implementations, all of one signature.

    forms: in torch, name -> function; "reference" is the definition.  "native" is in C
        (zoo/kernels/common/native.py): a file of that name in the op's folder, with `absent()`, which says
        why there is none on this machine, and `unfit(*inputs)`.
    others: what is imported only to be used, "triton" or a package: each the name of a file in the op's
        folder, with the function OP_NAME, with `unfit(*inputs)`, which says why it cannot take these inputs
        (None: it can).  Under auto each runs where it has proved right and faster.
    prepare: what each input of a form in torch goes through; the others get them as they come.
    """

    def __init__(
        self,
        name: str,
        forms: Mapping[str, Callable[..., Any]],
        others: Sequence[str] = (),
        prepare: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name, self.forms, self.others, self.prepare = name, dict(forms), tuple(others), prepare
        self.package = f"zoo.kernels.{name}"

    def run(self, usual: str, *inputs: Any) -> Any:
        """The op on `inputs`, the first a tensor.  usual: the form in torch that suits them best."""
        choice = _CHOICE.get()
        name, said = self._name("auto" if choice is None else choice.asked, usual, inputs)
        self.note(f"{name}{said}")
        return self.implementation(name)(*inputs)

    def note(self, name: str) -> None:
        """That implementation `name` runs, with its verdict where it has one, for the record."""
        choice = _CHOICE.get()
        if choice is not None:
            choice.ran.setdefault(self.name, set()).add(name)

    def implementation(self, name: str) -> Callable[..., Any]:
        """The function of one implementation, which must be there; it takes the op's inputs."""
        if name not in self.forms:
            return self._function(name)
        form, prepare = self.forms[name], self.prepare
        return form if prepare is None else lambda *inputs: form(*map(prepare, inputs))

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """The implementations that `kernels=KIND` can mean."""
        if kind == TRITON:
            return tuple(name for name in self.others if name == TRITON)
        return tuple(name for name in self.others if name != TRITON) if kind == "package" else (kind,)

    def missing(self, name: str) -> str | None:
        """Why implementation `name` cannot run on this machine; None: it can."""
        if name in self.forms:
            return self.module(name).absent() if name == NATIVE else None
        return absent(name) or no_device()

    def module(self, name: str) -> ModuleType:
        return import_module(f"{self.package}.{name}")

    def _function(self, name: str) -> Callable[..., Any]:
        return getattr(self.module(name), f"{self.name}_{name}")

    def _name(self, asked: str, usual: str, inputs: tuple[Any, ...]) -> tuple[str, str]:
        """Which runs, and what the note says of it besides."""
        if asked == REFERENCE:
            return REFERENCE, ""
        if asked == "auto":
            on_card = bool(self.others) and inputs[0].device.type in CARDS
            return (self._proven(usual, inputs) if on_card else None) or (usual, self._lack_of_native(usual))
        wanted = self.of_kind(asked)
        reasons = {name: self.refusal(name, *inputs) for name in wanted}
        for name, reason in reasons.items():
            if reason is None:
                return name, ""
        if wanted:
            said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise Refused(f"kernels (={asked}) cannot run {self.name}: {said}.  Use kernels=auto.")
        return usual, ""

    def _lack_of_native(self, usual: str) -> str:
        """Return why a form in torch stands in for the one in C, where that could not be had."""
        if NATIVE not in self.forms or usual in (NATIVE, REFERENCE):
            return ""
        lack = self.module(NATIVE).NATIVE.lack
        return f" (no native: {lack})" if lack else ""

    def _proven(self, usual: str, inputs: tuple[Any, ...]) -> tuple[str, str] | None:
        """What `auto` takes in place of torch, with its verdict: the fastest that has proved right here."""
        able = [name for name in self.others if self.refusal(name, *inputs) is None]
        found = {name: verdict(self, name, usual, inputs) for name in able}
        taken = {name: one for name, one in found.items() if one is not None and one.taken}
        if not taken:
            return None
        name = min(taken, key=lambda name: taken[name].answer.seconds or 0.0)
        return name, f" ({taken[name]})"

    def refusal(self, name: str, *inputs: Any) -> str | None:
        """Why implementation `name` cannot take these inputs here; None: it can."""
        if name in self.forms:
            return self.module(name).unfit(*inputs) if name == NATIVE else None
        too_large = _too_large(inputs) if name == TRITON else None
        return absent(name) or too_large or self.module(name).unfit(*inputs)


def _too_large(inputs: Sequence[Any]) -> str | None:
    """Why our kernels cannot reach all elements of a tensor; None: they can."""
    for x in inputs:
        if isinstance(x, Tensor) and x.numel() >= INT32:
            shape = " x ".join(map(str, x.shape))
            return f"a tensor of {shape} has 2^31 elements or more, and our kernels count them in 32 bits"
    return None


def ops() -> list[Op]:
    """Every op of this package that has a choice of implementations, by name."""
    packages = [import_module(f"zoo.kernels.{m.name}") for m in iter_modules(zoo.kernels.__path__) if m.ispkg]
    return [op for op in (vars(package).get("OP") for package in packages) if isinstance(op, Op)]


def names_with(kind: str) -> list[str]:
    """The ops of this package that have an implementation of this kind."""
    return [op.name for op in ops() if op.of_kind(kind)]


def contradiction(asked: str, accelerator: str, step: str = "auto") -> str | None:
    """Why no machine can run what is asked for on this accelerator, in one line; None: some can."""
    if asked == "package" and step == "compile":
        return (
            "trainer.step (=compile) cannot trace what kernels=package calls: "
            "use trainer.step=auto or kernels=auto."
        )
    if asked in ("auto", REFERENCE) or accelerator == "gpu" or (asked == TRITON and interpreted()):
        return None
    return f"kernels (={asked}) needs trainer.accelerator=gpu, and it is {accelerator}: use kernels=auto."


def lacking(asked: str) -> str | None:
    """Why this machine cannot run what is asked for, in one line; None: it can."""
    if asked in ("auto", REFERENCE):
        return None
    names = dict.fromkeys(name for op in ops() for name in op.of_kind(asked))
    reasons = {name: absent(name) or no_device() for name in names}
    if any(reason is None for reason in reasons.values()):
        return None
    said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "no op has such a form"
    return f"kernels (={asked}) cannot be had here: {said}.  Use kernels=auto."


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
