"""The learning rate as a pure function of the step: nothing to save, nothing to resume."""

import math

from zoo.config.settings import OptimConfig

COOLING = 0.1  # of all steps: how long "wsd" falls


def lr_factor(config: OptimConfig, step: int, total_steps: int) -> float:
    """Return the factor on the peak rate at `step` (from 0): linear over the warm-up, then cosine to 0.

    "wsd" (warm-up, stable, decay) holds the peak and falls linearly to 0 over the last tenth of the steps.

    schedule_every "epoch" holds the cosine still within an epoch.  Without warm-up that is
    torch's CosineAnnealingLR(T_max=max_epochs, eta_min=0) stepped once an epoch, as the reference has it.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return (step + 1) / warmup
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "wsd":
        return min(1.0, (total_steps - step) / max(1, round(COOLING * total_steps)))
    if config.schedule_every == "epoch":
        per_epoch = total_steps // config.max_epochs
        step = max(warmup, step // per_epoch * per_epoch)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total_steps - warmup)))
