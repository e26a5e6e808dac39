"""Adam's step over one tensor, with the copy that the next product reads: one pass over memory."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _step(
    value, first, second, copy, grad, unbias, rate, eps, count,
    B1: tl.constexpr, B2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(grad + at, mask=inside)
    m = tl.load(first + at, mask=inside)
    m += (1 - B1) * (g - m)
    v = B2 * tl.load(second + at, mask=inside) + (1 - B2) * g * g
    p = tl.load(value + at, mask=inside)
    p -= rate * tl.load(unbias) * m / (tl.sqrt(v) * tl.load(unbias + 1) + eps)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    tl.store(value + at, p, mask=inside)
    tl.store(copy + at, p.to(copy.dtype.element_ty), mask=inside)


def step(
    value: Tensor, first: Tensor, second: Tensor, copy: Tensor, grad: Tensor,
    unbias: Tensor, rate: float, eps: float, betas: tuple[float, float],
) -> None:  # fmt: skip
    """In place. `unbias` holds 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t)."""
    _step[(triton.cdiv(value.numel(), BLOCK),)](
        value, first, second, copy, grad, unbias, rate, eps, value.numel(), B1=betas[0], B2=betas[1], BLOCK=BLOCK
    )
