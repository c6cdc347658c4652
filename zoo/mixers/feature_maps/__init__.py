"""Linear attention puts one of these maps in place of the exponential."""

from zoo.mixers.feature_maps.base import FeatureMap
from zoo.mixers.feature_maps.fixed import DPFP, CosFormer, Identity, PosElu, Relu, Square
from zoo.mixers.feature_maps.learned import AllPoly, Hedgehog, ReBased
from zoo.mixers.feature_maps.performer import Performer
from zoo.mixers.feature_maps.taylor import Taylor2

__all__ = [
    "DPFP",
    "AllPoly",
    "CosFormer",
    "FeatureMap",
    "Hedgehog",
    "Identity",
    "Performer",
    "PosElu",
    "ReBased",
    "Relu",
    "Square",
    "Taylor2",
]
