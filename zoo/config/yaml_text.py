"""Write a resolved config as the text of config.yaml, in a twentieth of the time of OmegaConf.to_yaml."""

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from yaml import SafeDumper
else:  # a PyYAML built without libyaml writes the same text, slower
    SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True  # equal layers are each written out, not as an alias

    def text(self, text: str) -> yaml.Node:
        """Write a word, in quotes where OmegaConf, unlike yaml, would read a number: "1e-3"."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="'" if _is_number(text) else None)


_Dumper.add_representer(str, _Dumper.text)


def as_yaml(config: dict[str, Any]) -> str:
    """Return a config as YAML that reads back as the same values: words that look like numbers are quoted."""
    return yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
