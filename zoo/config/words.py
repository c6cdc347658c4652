"""Parse one key=value word of a command line by Hydra's grammar, and check it by itself."""

from collections.abc import Iterable
from functools import lru_cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import OmegaConfBaseException

from zoo.common.checks import unknown
from zoo.config.cell import VARIED

GROUPS = ("mixer", "task", "block", "model", "optim", "trainer", "logger")  # each names one yaml
OPAQUE = ("Error parsing override", "LexerNoViableAlt", "no viable alternative", "token recognition")
IN_DEFAULTS = "write `- /experiment/NAME` in the yaml"
RULES = {  # what Hydra says of a yaml -> what is added
    "Cannot merge DictConfig with ListConfig": "a list, [..], where {key: value} belongs, or the reverse",
    "Could not override 'experiment'": IN_DEFAULTS,
    "Multiple values for experiment": IN_DEFAULTS,
    "experiment appears more than once": IN_DEFAULTS,
}


@lru_cache(maxsize=4096)  # a grid repeats its words; the parser takes a millisecond for each
def parse(line: str) -> Override:
    """Parse a word.  HydraException: it is no word of the grammar."""
    return OverridesParser.create().parse_overrides([line])[0]


def first_line(error: Exception) -> str:
    """Return the message of an error of Hydra or OmegaConf in one line."""
    inner = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    line, *more = str(inner).strip().splitlines()
    line += f" {more[0]}" if more and line.endswith(":") else ""
    line += next((f": {rule}" for theirs, rule in RULES.items() if theirs in line), "")
    if not isinstance(error, OverrideParseException):
        return line
    if line.startswith(OPAQUE) or " expecting {" in line:  # the message names tokens of Hydra's parser
        line = "a word is key=value, such as mixer=based; quote it where it has brackets, commas or spaces"
    return f"cannot read {error.override}: {line}"


def nameless(override: Override) -> str | None:
    """Return a line that refuses a group with something other than one name; None: the word is fine."""
    group = override.key_or_group
    if group not in GROUPS or override.is_delete() or override.is_sweep_override():
        return None
    if isinstance(override.value(), str | dict):
        return None
    return f"{override.input_line} must name one {group}: -m with {group}=ONE,OTHER runs several."


def is_plain(override: Override) -> bool:
    """Return whether the override is key=value with a plain value: a number, or a word without ${...}."""
    value = override.value()
    return (
        override.type == OverrideType.CHANGE
        and override.package is None
        and (type(value) in (int, float) or (type(value) is str and "${" not in value and value != "???"))
    )


def wrong_key(override: Override, keys: frozenset[str]) -> list[str]:
    """Return a line if the override sets none of these keys; [] if it does."""
    key = override.key_or_group
    whole = f"{key}@{override.package}" if override.package else key
    added = override.is_add() or override.is_force_add()
    if whole in keys or (added and key.startswith("optim.")):  # an argument of the optimizer's own
        return []
    if not key.startswith("hydra"):
        keys = frozenset(k for k in keys if not k.startswith("hydra"))
    line = unknown("key", whole, settable(keys))
    if key.startswith("optim.") and line.endswith("."):  # nothing is like it
        line = f"{line[:-1]}; an argument of an optimizer takes a plus: +{override.input_line}."
    return [line]


def settable(keys: Iterable[str]) -> list[str]:
    """Return the keys that a user can set, sorted."""
    return sorted(key for key in keys if not {"about", "_target_"} & set(key.split(".")))


def shared(overrides: Iterable[str]) -> tuple[str, ...]:
    """Return the words that all cells of a point share: all but seed and lr."""
    return tuple(line for line in overrides if parse(line).key_or_group not in VARIED)


def keys_of(node: DictConfig | ListConfig, prefix: str = "") -> list[str]:
    """Return all dotted keys below a node, with inner keys and indices of lists."""
    keys = []
    for key in node if isinstance(node, DictConfig) else range(len(node)):
        child = node._get_node(key)  # pyright: ignore
        keys.append(f"{prefix}{key}")
        if (
            isinstance(child, DictConfig | ListConfig)
            and not child._is_none()
            and not child._is_interpolation()
        ):
            keys += keys_of(child, f"{prefix}{key}.")
    return keys
