"""Adam over many small independent tensors at once, with its moments in the open for checkpoints.

Adam is elementwise, so one optimiser over stacked weights is R independent optimisers. On a CPU each run's slice is a
tensor of its own in the call, so that a run's bits do not depend on where in the stack it lies.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sacd.kernels import adam
from sacd.kernels.gradient import Follower, Gradient

BETAS = (0.9, 0.999)


class Adam:
    """Steps tensors in place. `tensors` share the leading dimensions that `split` takes apart.

    `followers` are packed copies that are to follow the values; None where there is none.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor],
        split: Callable[[dict[str, Tensor]], list[Tensor]],
        eps: float,
        followers: Sequence[Follower | None] = (),
    ):
        self.first = {k: torch.zeros_like(t) for k, t in tensors.items()}
        self.second = {k: torch.zeros_like(t) for k, t in tensors.items()}
        self.eps = eps
        parts = [split(d) for d in (tensors, self.first, self.second)]
        self._all = list(zip(*parts, followers or [None] * len(parts[0]), strict=True))
        self._count = torch.zeros((), device=parts[0][0].device)

    @torch.inference_mode()
    def step(self, gradients: Sequence[Gradient], rate: float) -> None:
        """One step for all tensors, in the order of `split`."""
        self._count += 1
        adam.step(self._all, gradients, self._count, rate, self.eps, BETAS)

    def set_count(self, count: int) -> None:
        """Steps done so far, for the bias correction: they are the updates, which the clock knows."""
        self._count.fill_(count)
