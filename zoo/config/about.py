"""Read the `about` section of a mixer's yaml: texts for sweeps and pictures, not passed to its class."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from zoo.common.checks import unknown

FAMILIES = {  # about.family -> its title
    "attention": "Attention",
    "linear": "Linear attention, gated and delta rules",
    "ssm": "State spaces",
    "convolution": "Convolutions",
    "sparse": "Sparse attention and retrieval",
    "other": "Other",
}
FAMILY = "other"  # of a mixer whose yaml names none
TEXTS = ("label", "family", "keeps", "paper", "state")
KEYS = (*TEXTS, "norm", "knob", "layers", "variants")
T = TypeVar("T")


def about(name: str, mixer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `about` section of the mixer `name` (its yaml's stem), with defaults for missing keys."""
    section = mixer.get("about") or {}
    return {"label": name, "family": FAMILY, "knob": {}} | {k: v for k, v in section.items() if v is not None}


def mistakes(name: str, mixer: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry of the section that a record or a picture could not use."""
    section = mixer.get("about")
    if not isinstance(section, Mapping | None):
        return [f"about (={section!r}) of mixer={name} must be {{label: NAME, family: NAME, knob: {{...}}}}."]
    texts = about(name, mixer)
    known = [f"about.{key}" for key in KEYS]
    wrong = [f"{unknown('key', f'about.{key}', known)} [mixer={name}]" for key in texts if key not in KEYS]
    wrong += [
        f"about.{key} (={texts[key]!r}) of mixer={name} must be a word."
        for key in TEXTS
        if not isinstance(texts.get(key, ""), str)
    ]
    if not wrong and (family := texts["family"]) not in FAMILIES:
        wrong = [f"about.family (={family!r}) of mixer={name} must be one of {', '.join(FAMILIES)}."]
    return wrong or _knob_mistakes(name, mixer, texts["knob"])


def _knob_mistakes(name: str, mixer: Mapping[str, Any], knob: Any) -> list[str]:
    if not isinstance(knob, Mapping) or not all(isinstance(values, list) for values in knob.values()):
        return [f"about.knob (={knob!r}) of mixer={name} must be {{SETTING: [VALUE, VALUE]}}."]
    return [
        f"about.knob of mixer={name} names {key}, which is no setting of it."
        for key in knob
        if not _has(mixer, str(key))
    ]


def _has(settings: Any, dotted: str) -> bool:
    key, _, rest = dotted.partition(".")
    return isinstance(settings, Mapping) and key in settings and (not rest or _has(settings[key], rest))


def by_family(things: Sequence[T], family: Callable[[T], str]) -> dict[str, list[T]]:
    """Return the things by title of their family, in order of FAMILIES."""
    groups = {title: [thing for thing in things if family(thing) == name] for name, title in FAMILIES.items()}
    return {title: group for title, group in groups.items() if group}
