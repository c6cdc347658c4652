"""Apply conf/adaptation: adapters on the projections of attention, and a choice of weights that train whole.

Parts are found by their class: queries, keys and values by `QueryKeyValue`, convolutions by `ShortConv`.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise

from torch import nn

from zoo.config.settings import AdaptationConfig
from zoo.mixers.mla import MLA
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.short_conv import ShortConv
from zoo.model.low_rank import Trainable, attach, counted

OUTPUTS = ("out_proj", "attn_proj")  # of a mixer with queries, keys and values
OF_MLA = dict(q_proj="query", down_proj="key", key_proj="key", value_proj="value", out_proj="output")
Part = tuple[str, nn.Linear, list[tuple[int, int]]]  # name, layer, bounds of rows


def adapt(model: nn.Module, recipe: AdaptationConfig, seed: int, fresh: Collection[str] = ()) -> Trainable:
    """Freeze what the recipe does not train, and attach its adapters.

    fresh: names of tensors that no other cell has trained; these train under every recipe.
    ValueError: the recipe finds nothing to train, or its rank is above the width of what it adapts.
    """
    whole = set(_whole(model, recipe)) | set(fresh)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in whole)
    if recipe.rank is not None and recipe.alpha is not None:
        for name, linear, parts in list(_parts(model, recipe.targets)):
            if recipe.rank > linear.in_features:
                raise ValueError(
                    f"adaptation.rank (={recipe.rank}) must be at most {linear.in_features}, the width of "
                    f"{name}: more is no fewer weights than all of them."
                )
            attach(linear, parts, recipe.rank, recipe.alpha, seed, name)
            for parameter in linear.parametrizations["weight"][-1].parameters():  # pyright: ignore
                parameter.requires_grad_(True)
    trainable = counted(model)
    if not trainable.trained:
        raise ValueError(
            "adaptation trains nothing: no layer has what adaptation.targets and adaptation.train name; "
            "add embedding, norms or convolutions to adaptation.train, or take adaptation=full."
        )
    return trainable


def _whole(model: nn.Module, recipe: AdaptationConfig) -> Iterator[str]:
    """Yield the names of the parameters that train whole.

    "convolutions" are the short ones of a few taps, as in HyLoRA.  The filters of long_conv, base_conv_long
    and hyena are no such convolutions: they are as long as a sequence, and stay frozen.
    """
    convolutions = {
        id(p) for m in model.modules() if isinstance(m, ShortConv | nn.Conv1d) for p in m.parameters()
    }
    for name, parameter in model.named_parameters():
        kinds = {"all"}
        kinds |= {"embedding"} if name in ("embedding", "positions") else set()
        kinds |= {"norms"} if "norm" in name else set()
        kinds |= {"convolutions"} if id(parameter) in convolutions else set()
        if kinds & set(recipe.train):
            yield name


def _parts(model: nn.Module, targets: Collection[str]) -> Iterator[Part]:
    """Yield the projections of attention that the targets name."""
    for path, module in model.named_modules():
        if isinstance(module, QueryKeyValue) and (rows := _rows(module, targets)):
            yield f"{path}.proj", module.proj, rows
        attends = any(isinstance(child, QueryKeyValue) for child in module.children())
        kinds = OF_MLA if isinstance(module, MLA) else dict.fromkeys(OUTPUTS, "output") if attends else {}
        for name, kind in kinds.items():
            linear = getattr(module, name, None)
            if linear is not None and kind in targets:
                yield f"{path}.{name}", linear, [(0, linear.out_features)]


def _rows(qkv: QueryKeyValue, targets: Collection[str]) -> list[tuple[int, int]]:
    """List the bounds of the adapted rows, separately for queries, keys and values of the one layer."""
    first = qkv.num_heads * qkv.head_dim
    edges = (0, first, first + qkv.kv_dim, first + 2 * qkv.kv_dim)
    bounds = dict(zip(("query", "key", "value"), pairwise(edges), strict=True))
    return [bound for kind, bound in bounds.items() if kind in targets]
