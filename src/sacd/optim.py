"""Adam over many small independent tensors at once, with its moments in the open for checkpoints.

Adam is elementwise, so one optimiser over stacked weights is R independent optimisers. Each run's slice is a tensor of
its own in the call, so that a run's bits do not depend on where in the stack it lies.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class Adam:
    """Steps tensors in place. `tensors` share the leading dimensions that `split` takes apart."""

    def __init__(self, tensors: dict[str, Tensor], split: Callable[[dict[str, Tensor]], list[Tensor]], eps: float):
        self.first = {k: torch.zeros_like(t) for k, t in tensors.items()}
        self.second = {k: torch.zeros_like(t) for k, t in tensors.items()}
        self.eps = eps
        self._values, self._firsts, self._seconds = split(tensors), split(self.first), split(self.second)
        self._count = torch.zeros((), device=self._values[0].device)

    @torch.inference_mode()
    def step(self, gradients: list[Tensor], rate: float) -> None:
        """One step for all tensors, in the order of `split`."""
        assert all(g.is_contiguous() for g in gradients), "the fused step reads memory in order, whatever the strides"
        self._count += 1
        torch._fused_adam_(  # what torch.optim.Adam(fused=True) calls, without its bookkeeping for each tensor
            self._values, gradients, self._firsts, self._seconds, [], [self._count] * len(gradients),
            amsgrad=False, beta1=0.9, beta2=0.999, lr=rate, weight_decay=0.0, eps=self.eps, maximize=False,
        )  # fmt: skip

    def set_count(self, count: int) -> None:
        """Steps done so far, for the bias correction: they are the updates, which the clock knows."""
        self._count.fill_(count)
