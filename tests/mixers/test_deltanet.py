"""DeltaNet: what it holds, and that a key's value is replaced, not added to."""

import pytest
import torch

from zoo.mixers import DeltaNet


@pytest.mark.parametrize(("allow_neg_eigval", "most"), [(False, 1.0), (True, 2.0)])
def test_how_much_of_the_old_answer_a_write_takes_away(allow_neg_eigval: bool, most: float):
    """With beta at its most the old answer is gone, or turned around."""
    mixer = DeltaNet(d_model=8, num_heads=1, kernel_size=1, allow_neg_eigval=allow_neg_eigval).double()
    torch.nn.init.constant_(mixer.beta.weight, 1e3)
    x = torch.rand(1, 1, 8, dtype=torch.float64)
    _, state = mixer.extend(x)
    old = torch.randn_like(state.memory)
    _, new = mixer.extend(x, state._replace(memory=old))
    (_, k, v), _ = mixer.qkv(x, None)
    key = torch.nn.functional.normalize(k[0, 0, 0], dim=-1)
    answers = [(memory[0, 0].mT @ key) for memory in (old, new.memory)]
    torch.testing.assert_close(answers[1], (1 - most) * answers[0] + most * v[0, 0, 0], rtol=1e-3, atol=1e-4)
