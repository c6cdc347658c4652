"""Accuracy against all bits that a rounded state takes, with the upper bound for any model."""

import numpy as np
import pandas as pd

from ..drawing.style import Style
from ..state_bits import explained, frontier
from ..state_bits.answers import answers, varying
from ..state_bits.picture import picture
from .gallery import Picture, Study


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=state_bits; tables give the bits that are enough, the predictions of
    theory, and what explains the loss."""
    given = answers(study.home, study.where)
    points = frontier.points(given)
    enough, theory = frontier.enough(given), frontier.predicted(given)
    tables = {"enough": enough, "explained": explained.explained(given)}
    if len(theory):
        tables["predicted"] = theory
    return Picture(picture(points, style), points, _sentences(enough, theory), tables)


def _sentences(enough: pd.DataFrame, theory: pd.DataFrame) -> list[str]:
    plain = enough.loc[(enough["rounding"] == "nearest") & np.isfinite(enough["bits_per_scalar"])]
    lines = [
        "Accuracy against the bits of one sequence's state, counting all that must be kept. Dots: each form. "
        "Lines: the best with at most this many bits. Dotted: the upper bound for this many bits."
    ]
    for row in plain.sort_values(["slice", "scale", "bits_per_scalar"]).to_dict("records"):
        form = "".join(f", {name.rpartition('.')[2]}={row[name]}" for name in varying(enough))
        lines.append(
            f"{row['series']}, {row['slice']}, scale by {row['scale']}{form}: {row['bits_per_scalar']:.2f} "
            f"bits a scalar are within {frontier.NEAR} of fp32 ({row['exact']:.2f}), {row['seeds']} seeds."
        )
    if len(theory):
        apart = (theory["accuracy"] - theory["accuracy_predicted"]).abs()
        for name, part in apart.groupby(theory["rounding"]):
            lines.append(
                f"{name} is predicted to {part.mean():.3f} of accuracy on average, {part.max():.3f} at most."
            )
    return lines
