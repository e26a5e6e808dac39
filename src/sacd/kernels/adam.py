"""Adam's step over a list of tensors: torch's fused one, and on a GPU one that also writes copies in another precision.

That saves a pass over the weights, which are most of the memory that an update of a fleet moves.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sacd.kernels import HAVE_TRITON

Part = tuple[Tensor, Tensor, Tensor, Tensor | None]  # value, first and second moment, copy


def step(
    parts: Sequence[Part], gradients: list[Tensor], count: Tensor, rate: float, eps: float, betas: tuple[float, float]
) -> None:
    """The `count`-th step, in place."""
    fast = HAVE_TRITON and count.is_cuda and any(copy is not None for *_, copy in parts)
    shares = [1 - beta ** count.double() for beta in betas] if fast else []
    unbias = torch.stack([1 / shares[0], shares[1].rsqrt()]).float() if fast else count
    rest: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for (value, first, second, copy), gradient in zip(parts, gradients, strict=True):
        if fast and copy is not None:
            from sacd.kernels import adam_triton  # noqa: PLC0415

            adam_triton.step(value, first, second, copy, gradient, unbias, rate, eps, betas)
        else:
            rest.append((value, gradient, first, second))
    values, slopes, firsts, seconds = map(list, zip(*rest, strict=True))
    torch._fused_adam_(  # what torch.optim.Adam(fused=True) calls, without its bookkeeping for each tensor
        values, slopes, firsts, seconds, [], [count] * len(rest),
        amsgrad=False, beta1=betas[0], beta2=betas[1], lr=rate, weight_decay=0.0, eps=eps, maximize=False,
    )  # fmt: skip
    for value, *_, copy in () if fast else parts:
        if copy is not None:
            copy.copy_(value)
