"""Choose the implementation of an op, and note what ran: `kernels=auto|reference|triton|package`.

auto: what suits the device and the sizes.  reference: the definition.  triton: our Triton kernel, in every op
that has one.  package: another package's kernel, in every op that has one.  An op without an implementation
of the kind asked for runs as under auto, and the record says so.

The choice is a context, not a global: it holds for the calls inside the context, in this thread.
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
from zoo.common.checks import one_of
from zoo.kernels.common.available import absent, interpreted, no_device
from zoo.kernels.common.verdicts import verdict

Kernels = Literal["auto", "reference", "triton", "package"]
KINDS: tuple[str, ...] = get_args(Kernels)
REFERENCE, NATIVE, TRITON = "reference", "native", "triton"
INT32 = 2**31
CARDS = ("cuda",)  # kinds of devices on which kernels are proved


class Refused(ValueError):
    """The error of an op that has the requested kind, but no form of it that can take these inputs here."""


@dataclass
class Choice:
    """Hold the kind that `kernels=` names, and in `ran` op -> the implementations that ran so far."""

    kind: str
    ran: dict[str, set[str]] = field(default_factory=dict)

    def record(self) -> dict[str, str]:
        """Return op -> implementation; several of one op, for different lengths say, are joined by +."""
        return {op: "+".join(sorted(names)) for op, names in sorted(self.ran.items())}


_CHOICE: ContextVar[Choice | None] = ContextVar("kernels", default=None)


@contextmanager
def kernels(kind: str) -> Iterator[Choice]:
    """Run every op inside the context as `kernels=KIND` says, and note what ran; outside, auto holds."""
    one_of("kernels", kind, KINDS)
    choice = Choice(kind)
    token = _CHOICE.set(choice)
    try:
        yield choice
    finally:
        _CHOICE.reset(token)


class Op:
    """An operation and its implementations, which all have one signature.

    forms: name -> function, in torch; "reference" is the definition.  "native" is in C
        (zoo/kernels/common/native.py): the file of that name in the op's folder has `absent()`, which returns
        why this machine has no native form, and `unfit(*inputs)`.
    others: implementations that are imported only when used, "triton" or a package.  Each is a file of that
        name in the op's folder, with the function OP_NAME and with `unfit(*inputs)`, which returns why it
        cannot take these inputs (None: it can).  Under auto each runs where it has proved right and faster.
    prepare: a function applied to each input of a form in torch; `others` get their inputs unchanged.
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
        """Run the op on `inputs`, the first of them a tensor.  usual: the form that suits the inputs best."""
        choice = _CHOICE.get()
        name, remark = self._choose("auto" if choice is None else choice.kind, usual, inputs)
        self.note(name + remark)
        return self.implementation(name)(*inputs)

    def _choose(self, kind: str, usual: str, inputs: tuple[Any, ...]) -> tuple[str, str]:
        """Return the implementation that runs under `kernels=KIND`, and a remark on it for the record.

        reference: the definition.  auto: the fastest kernel that has proved right and faster on this card,
        else the usual form.  Another kind: its first form that can take the inputs (Refused: none can), or
        the usual form where the op has no form of that kind.
        """
        if kind == REFERENCE:
            return REFERENCE, ""
        if kind == "auto":
            return self._proved(usual, inputs) or (usual, self._why_not_native(usual))
        reasons = {name: self.refusal(name, *inputs) for name in self.of_kind(kind)}
        for name, reason in reasons.items():
            if reason is None:
                return name, ""
        if reasons:
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise Refused(f"kernels (={kind}) cannot run {self.name}: {why}.  Use kernels=auto.")
        return usual, ""

    def _proved(self, usual: str, inputs: tuple[Any, ...]) -> tuple[str, str] | None:
        """Return the fastest kernel that has proved right and faster than `usual` here, and its verdict."""
        if not self.others or inputs[0].device.type not in CARDS:
            return None
        able = [name for name in self.others if self.refusal(name, *inputs) is None]
        verdicts = {name: verdict(self, name, usual, inputs) for name in able}
        faster = {name: one for name, one in verdicts.items() if one is not None and one.taken}
        if not faster:
            return None
        name = min(faster, key=lambda name: faster[name].answer.seconds or 0.0)
        return name, f" ({faster[name]})"

    def _why_not_native(self, usual: str) -> str:
        """Return why a form in torch runs in place of the one in C; "" unless the one in C is missing."""
        if NATIVE not in self.forms or usual in (NATIVE, REFERENCE):
            return ""
        lack = self.module(NATIVE).NATIVE.lack
        return f" (no native: {lack})" if lack else ""

    def note(self, name: str) -> None:
        """Note for the record that implementation `name` runs, with its verdict where it has one."""
        choice = _CHOICE.get()
        if choice is not None:
            choice.ran.setdefault(self.name, set()).add(name)

    def implementation(self, name: str) -> Callable[..., Any]:
        """Return the function of one implementation, which must exist; the function takes the op's inputs."""
        if name not in self.forms:
            return getattr(self.module(name), f"{self.name}_{name}")
        form, prepare = self.forms[name], self.prepare
        return form if prepare is None else lambda *inputs: form(*map(prepare, inputs))

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Return the implementations that `kernels=KIND` can mean."""
        if kind == TRITON:
            return tuple(name for name in self.others if name == TRITON)
        return tuple(name for name in self.others if name != TRITON) if kind == "package" else (kind,)

    def missing(self, name: str) -> str | None:
        """Return why implementation `name` cannot run on this machine; None: it can."""
        if name in self.forms:
            return self.module(name).absent() if name == NATIVE else None
        return absent(name) or no_device()

    def module(self, name: str) -> ModuleType:
        """Import the file of one implementation."""
        return import_module(f"{self.package}.{name}")

    def refusal(self, name: str, *inputs: Any) -> str | None:
        """Return why implementation `name` cannot take these inputs here; None: it can."""
        if name in self.forms:
            return self.module(name).unfit(*inputs) if name == NATIVE else None
        too_large = _too_large(inputs) if name == TRITON else None
        return absent(name) or too_large or self.module(name).unfit(*inputs)


def op(
    package: str, *forms: str, others: Sequence[str] = (), prepare: Callable[[Any], Any] | None = None
) -> Op:
    """Return the op of a package: each form is a file in it, with the function OP_FORM."""
    name = package.rpartition(".")[2]
    functions = {form: getattr(import_module(f"{package}.{form}"), f"{name}_{form}") for form in forms}
    return Op(name, functions, others, prepare)


def _too_large(inputs: Sequence[Any]) -> str | None:
    """Return why our kernels cannot reach all elements of a tensor; None: they can."""
    for x in inputs:
        if isinstance(x, Tensor) and x.numel() >= INT32:
            shape = " x ".join(map(str, x.shape))
            return f"a tensor of {shape} has 2^31 elements or more, and our kernels count them in 32 bits"
    return None


def ops() -> list[Op]:
    """Return every op of this package that has a choice of implementations, by name."""
    packages = [import_module(f"zoo.kernels.{m.name}") for m in iter_modules(zoo.kernels.__path__) if m.ispkg]
    return [op for op in (vars(package).get("OP") for package in packages) if isinstance(op, Op)]


def names_with(kind: str) -> list[str]:
    """Return the ops of this package that have an implementation of this kind."""
    return [op.name for op in ops() if op.of_kind(kind)]


def contradiction(kind: str, accelerator: str, step: str = "auto") -> str | None:
    """Return, in one line, why no machine can run this kind on this accelerator; None: some machine can."""
    if kind == "package" and step == "compile":
        return (
            "trainer.step (=compile) cannot trace what kernels=package calls: "
            "use trainer.step=auto or kernels=auto."
        )
    if kind in ("auto", REFERENCE) or accelerator == "gpu" or (kind == TRITON and interpreted()):
        return None
    return f"kernels (={kind}) needs trainer.accelerator=gpu, and it is {accelerator}: use kernels=auto."


def lacking(kind: str) -> str | None:
    """Return, in one line, why this machine cannot run this kind; None: it can."""
    if kind in ("auto", REFERENCE):
        return None
    names = dict.fromkeys(name for op in ops() for name in op.of_kind(kind))
    reasons = {name: absent(name) or no_device() for name in names}
    if any(reason is None for reason in reasons.values()):
        return None
    why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "no op has such a form"
    return f"kernels (={kind}) cannot be had here: {why}.  Use kernels=auto."


def check_served(kind: str, run: Callable[[], object]) -> None:
    """Raise ValueError if no op that `run` calls has a form of this kind, or if one of them cannot run it.

    run: a forward pass on few tokens; it runs once under auto, unless the kind is auto or reference.
    """
    if kind in ("auto", REFERENCE):
        return
    with kernels("auto") as used:
        run()
    refused = unserved(kind, [op for op in ops() if op.name in used.ran])
    if refused:
        raise ValueError(f"kernels (={kind}) cannot be had: {refused}.  Use kernels=auto.")


def unserved(kind: str, used: Iterable[Op]) -> str | None:
    """Return why a model of these ops cannot run under this kind; None: it can.

    At least one op must have this kind, and each that has it must be able to run it; others run under auto.
    """
    used = list(used)
    wanted = {op.name: op.of_kind(kind) for op in used}
    for op in used:
        reasons = {name: op.missing(name) for name in wanted[op.name]}
        if reasons and all(reasons.values()):
            return f"{op.name} has " + ", ".join(f"{name} ({why})" for name, why in reasons.items())
    if any(wanted.values()):
        return None
    has = [f"{op.name} has {', '.join([*op.forms, *op.others])}" for op in used]
    return "; ".join(has) or "this model uses no op that has a choice of implementations"
