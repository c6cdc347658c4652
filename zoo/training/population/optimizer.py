"""Run AdamW on all members at once: P rows, each with its own learning rate and weight decay.

Each row gets the update of zoo.training.optimizer.make_optimizer (torch's AdamW): the same parameters do not
decay, each member's gradient is clipped by its own norm, and a parameter without a gradient in a step stays
as it is.  Rates are tensors, nothing is read back from the device, and ended members are masked (`freeze`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.config.settings import ADAMW, OptimConfig
from zoo.training.optimizer import is_decayed, make_optimizer
from zoo.training.population.stack import Stack, Unstackable

EPS = 1e-8  # torch's default


class PopulationAdamW(torch.optim.Optimizer):
    """Takes AdamW's step for every member.

    configs: of the members; they differ in weight_decay only.  rate: [P 1], set before each step.
    Unstackable: the configs name another optimizer, or give arguments of its own.
    """

    def __init__(self, stack: Stack, configs: Sequence[OptimConfig]) -> None:
        if configs[0]._target_ != ADAMW or configs[0].arguments:
            raise Unstackable(
                f"optim._target_ (={configs[0]._target_}) with these settings has no stacked form"
            )
        super().__init__(stack.leaves, {})
        self.stack, self.configs, self.config = stack, configs, configs[0]
        new = stack.weights.new_tensor
        self.rate = stack.weights.new_zeros(stack.size, 1)
        self.alive = torch.ones(stack.size, 1, dtype=torch.bool, device=self.rate.device)
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(stack.weights), torch.zeros_like(stack.weights)
        self.steps = new([0.0] * len(stack.trained), dtype=torch.float32)  # of each parameter
        sizes = torch.tensor(stack.sizes)
        self._owner = torch.arange(len(sizes)).repeat_interleave(sizes).to(self.rate.device)
        self._masks: dict[tuple[bool, ...], tuple[Tensor, slice | Tensor]] = {}
        parameters = dict(stack.template.named_parameters())
        decayed = [self.config.decay_all or is_decayed(parameters[name]) for name in stack.trained]
        decay = new([config.weight_decay for config in configs])[:, None]
        self._decay = decay * new(decayed)[self._owner]  # [P N]

    def set_rates(self, rates: Sequence[float]) -> None:
        """Set the learning rate of each member's next step."""
        self.rate.copy_(torch.tensor(rates, dtype=torch.float64)[:, None], non_blocking=True)

    def freeze(self, member: int) -> None:
        """Leave the member's row unchanged from now on, whatever its gradient."""
        self.alive[member] = False

    def held(self) -> list[Tensor]:
        """Return the tensors that a step changes, except the weights."""
        return [self.exp_avg, self.exp_avg_sq, self.steps]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore
        """Take a step from the gradients of the last backward.  closure: as in torch, not used by zoo."""
        loss = None if closure is None else closure()
        with torch.no_grad():
            touched, columns = self._touched(self.stack.collect())
            # clip each member's gradient as torch.nn.utils.clip_grad_norm_ does
            if self.config.grad_clip is not None:
                norm = torch.linalg.vector_norm(self.stack.gradient, dim=1, keepdim=True)
                self.stack.gradient.mul_((self.config.grad_clip / (norm + 1e-6)).clamp(max=1.0))
            self.steps += touched
            self._update(columns)
        return loss

    def _touched(self, have: tuple[bool, ...]) -> tuple[Tensor, slice | Tensor]:
        """Return which parameters have a gradient, on the device: a mask [K], and the columns of the rows."""
        if have not in self._masks:
            mask = torch.tensor(have, device=self.rate.device)
            columns = slice(None) if all(have) else mask[self._owner].nonzero()[:, 0]
            self._masks[have] = mask, columns
        return self._masks[have]

    def _update(self, columns: slice | Tensor) -> None:
        """Take Adam's step on these columns of every row; if not all, they are copied and written back."""
        beta1, beta2 = self.config.betas
        held = (self.stack.weights, self.exp_avg, self.exp_avg_sq)
        weights, mean, square = (tensor[:, columns] for tensor in held)
        gradient = self.stack.gradient[:, columns]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        steps = self.steps.clamp(min=1).double()  # a parameter without a step counts as having one
        first, second = ((1 - b**steps).to(self.rate)[self._owner[columns]] for b in (beta1, beta2))
        update = mean / square.sqrt().div_(second.sqrt()).add_(EPS).mul_(first)
        rate = self.rate * self.alive
        update.masked_fill_(~self.alive, 0.0)
        weights.mul_(1 - rate * self._decay[:, columns]).sub_(update.mul_(rate))
        if isinstance(columns, Tensor):
            for tensor, part in zip(held, (weights, mean, square), strict=True):
                tensor[:, columns] = part

    # a member's own optimizer ----------------------------------------------------------------------------

    def state_of(self, member: int, rate: float) -> dict[str, Any]:
        """Return, copied, the state_dict() that a lone cell's optimizer would have after a step at `rate`."""
        optimizer = make_optimizer(self.stack.models[member], self.configs[member], rate)
        parameters = dict(self.stack.models[member].named_parameters())
        rows = (self.stack.row(flat, member) for flat in (self.exp_avg, self.exp_avg_sq))
        for name, step, mean, square in zip(self.stack.trained, self.steps.cpu(), *rows, strict=True):
            if step > 0:
                state = {"step": step.clone(), "exp_avg": mean.clone(), "exp_avg_sq": square.clone()}
                optimizer.state[parameters[name]] = state
        return optimizer.state_dict()

    def load(self, states: Sequence[dict[str, Any] | None]) -> None:
        """Load the members' own state_dict()s, which are of one step; None: this member begins new."""
        for i, (model, config, state) in enumerate(zip(self.stack.models, self.configs, states, strict=True)):
            if state is None:
                continue
            optimizer = make_optimizer(model, config, 1.0)
            optimizer.load_state_dict(state)
            parameters = dict(model.named_parameters())
            rows = (self.stack.row(flat, i) for flat in (self.exp_avg, self.exp_avg_sq))
            for k, (name, mean, square) in enumerate(zip(self.stack.trained, *rows, strict=True)):
                held = optimizer.state.get(parameters[name])
                if held:
                    self.steps[k] = held["step"]
                    mean.copy_(held["exp_avg"])
                    square.copy_(held["exp_avg_sq"])
