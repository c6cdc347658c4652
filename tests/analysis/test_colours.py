"""A family is known by its colour, whatever one sees with and however it is printed."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.drawing.style import FAMILY_COLOURS

DEUTERANOPIA = [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]  # Machado et al. 2009
PROTANOPIA = [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "deutan", "protan"])
def test_families_are_told_apart_with_any_colour_vision(sight: list[list[float]]) -> None:
    seen = [lab(np.asarray(sight) @ linear(colour)) for colour in FAMILY_COLOURS.values()]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


def test_families_are_told_apart_in_grey() -> None:
    lightness = sorted(lab(linear(colour))[0] for colour in FAMILY_COLOURS.values())
    assert min(np.diff(lightness)) > 7 and lightness[-1] < 72


def linear(colour: str) -> np.ndarray:
    rgb = np.asarray(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, D65."""
    xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    f = np.cbrt(np.clip(xyz @ np.clip(rgb, 0, 1) / xyz.sum(axis=1), 1e-6, None))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
