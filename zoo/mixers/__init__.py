"""Build every mixer by name, for a module of your own: without a command, a config or a task.

    from zoo.mixers import Mamba2

    mixer = Mamba2(d_model=64, d_state=32)   # by keyword; what is left out is as in conf/mixer/mamba2.yaml
    y = mixer(x)                             # x, y [B T D]: a whole sequence at once
    y, state = mixer.extend(x[:, :1])        # or token by token, from a state that starts as None
    y, state = mixer.extend(x[:, 1:2], state)
    mixer.state_size(1024).resident          # scalars that one sequence keeps after 1024 tokens

`dir(zoo.mixers)` lists the names: the name of the class, or the label where several yamls share one class
(`Based`, `Hedgehog` and `Performer` are linear attention).  `help` and `inspect.signature` show the settings.
A call builds an `nn.Module` of the class itself.  Its initial weights come from torch's global generator, as
any module's do; in a cell they come from the cell's seed (zoo/model/sequence_model.py).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.mixers.named import Named


def __getattr__(name: str) -> "Named":
    if not name[:1].isupper():  # a submodule, or a name that Python itself looks up: load nothing
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zoo.mixers.named import named

    return named(name)


def __dir__() -> list[str]:
    from zoo.mixers.named import stems

    return sorted({*globals(), *stems()})
