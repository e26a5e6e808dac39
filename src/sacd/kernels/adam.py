"""Adam's step over a list of tensors, from gradients as the products leave them, with the copies that products read.

Weights are most of the memory that an update of a fleet moves, so with Triton on a GPU each tensor is one pass over it
(adam_triton.py): sums and products of gradient.py are taken on the way, and packed copies are written along. Elsewhere
this is torch's fused step, which is the reference.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from sacd.kernels import HAVE_TRITON
from sacd.kernels.gradient import Follower, Gradient, Part

Betas = tuple[float, float]
LAST = 20_000  # steps after which both corrections are 1 in float32


def step(
    parts: Sequence[Part], gradients: Sequence[Gradient], count: Tensor, rate: float, eps: float, betas: Betas
) -> None:
    """The `count`-th step, in place."""
    if HAVE_TRITON and count.is_cuda:
        from sacd.kernels import adam_triton  # noqa: PLC0415

        table = corrections(betas, count.device)
        for part, gradient in zip(parts, gradients, strict=True):
            adam_triton.step(part, gradient, count, table, rate, eps, betas)
        return
    values, firsts, seconds, followers = map(list, zip(*parts, strict=True))
    slopes = [dense(g, *each) for g, each in zip(gradients, zip(values, followers, strict=True), strict=True)]
    torch._fused_adam_(  # what torch.optim.Adam(fused=True) calls, without its bookkeeping for each tensor
        values, slopes, firsts, seconds, [], [count] * len(values),
        amsgrad=False, beta1=betas[0], beta2=betas[1], lr=rate, weight_decay=0.0, eps=eps, maximize=False,
    )  # fmt: skip
    for value, follower in zip(values, followers, strict=True):
        if follower is not None:
            follower.write(value)


def dense(gradient: Gradient, value: Tensor, follower: Follower | None) -> Tensor:
    """A gradient as the master's, in memory in its order."""
    found = gradient if isinstance(gradient, Tensor) else gradient.dense()
    if follower is not None:
        found = follower.pull(found)
    assert found.is_contiguous(), "the fused step reads memory in order, whatever the strides"
    return found.view(value.shape)


@cache
def corrections(betas: Betas, device: torch.device) -> Tensor:
    """1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t) for t = 0 … LAST, after which they stay: (LAST + 1, 2)."""
    t = torch.arange(LAST + 1, dtype=torch.float64).clamp_(1)
    return torch.stack([1 / (1 - betas[0] ** t), (1 - betas[1] ** t).rsqrt()], 1).float().to(device)
