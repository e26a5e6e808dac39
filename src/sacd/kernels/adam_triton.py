"""Adam's step over one tensor in one pass: gradient, moments, value and the copy that the next product reads.

Sums, products and followers are those of gradient.py; adam.py is the reference.
"""

import triton
import triton.language as tl
from torch import Tensor

from sacd.kernels.gradient import Gradient, Part, Product, Summed

BLOCK = 1024
TILE = (64, 64, 64)  # of a product: rows of the batch, outputs, inputs


@triton.jit
def _adam(
    value, first, second, copy, i, at, inside, g, corrections, count, rate, eps, scale,
    B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr, COPY: tl.constexpr,
):  # fmt: skip
    row = corrections + 2 * tl.minimum(tl.load(count).to(tl.int32), LAST)
    m = tl.load(first + i, mask=inside)
    m += (1 - B1) * (g - m)
    v = B2 * tl.load(second + i, mask=inside) + (1 - B2) * g * g
    p = tl.load(value + i, mask=inside)
    p -= rate * tl.load(row) * m / (tl.sqrt(v) * tl.load(row + 1) + eps)
    tl.store(first + i, m, mask=inside)
    tl.store(second + i, v, mask=inside)
    tl.store(value + i, p, mask=inside)
    if COPY:
        tl.store(copy + at, (p * scale).to(copy.dtype.element_ty), mask=inside)


@triton.jit
def _step(
    value, first, second, copy, place, grad, corrections, count, rate, eps, scale, total, each,
    PARTS: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr,
    COPY: tl.constexpr, PLACED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    at = i
    if PLACED:
        at = i // each * each + tl.load(place + i % each, mask=inside, other=0)
    g = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.static_range(PARTS):
        g += tl.load(grad + at, mask=inside, other=0.0)
        grad += total
    if COPY:
        g *= scale
    _adam(value, first, second, copy, i, at, inside, g, corrections, count, rate, eps, scale, B1, B2, LAST, COPY)


@triton.jit
def _product_step(
    value, first, second, copy, left, right, corrections, count, rate, eps, outputs, inputs,
    ROWS: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr, COPY: tl.constexpr, IEEE: tl.constexpr,
    BB: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    net = tl.program_id(2).to(tl.int64)
    o, k = tl.program_id(1) * BO + tl.arange(0, BO), tl.program_id(0) * BI + tl.arange(0, BI)
    left += net * ROWS * outputs
    right += net * ROWS * inputs
    g = tl.zeros((BO, BI), tl.float32)
    for start in range(0, ROWS, BB):
        b = (start + tl.arange(0, BB))[:, None]
        a = tl.load(left + b * outputs + o[None, :], mask=(b < ROWS) & (o < outputs)[None, :], other=0.0)
        c = tl.load(right + b * inputs + k[None, :], mask=(b < ROWS) & (k < inputs)[None, :], other=0.0)
        g = tl.dot(tl.trans(a), c, g, input_precision="ieee" if IEEE else "tf32")
    at = net * outputs * inputs + o[:, None] * inputs + k[None, :]
    inside = (o < outputs)[:, None] & (k < inputs)[None, :]
    _adam(value, first, second, copy, at, at, inside, g, corrections, count, rate, eps, 1.0, B1, B2, LAST, COPY)


def step(
    part: Part, gradient: Gradient, count: Tensor, table: Tensor, rate: float, eps: float,
    betas: tuple[float, float], tile: tuple[int, int, int] = TILE,
) -> None:  # fmt: skip
    """One tensor's step, in place."""
    value, first, second, follower = part
    copy = value if follower is None else follower.tensor
    common = {"B1": betas[0], "B2": betas[1], "LAST": len(table) - 1, "COPY": follower is not None}
    if isinstance(gradient, Product):
        (nets, rows, outputs), inputs = gradient.left.shape, gradient.right.shape[2]
        assert follower is None or (follower.place is None and follower.scale == 1), "products come in order"
        _product_step[(triton.cdiv(inputs, tile[2]), triton.cdiv(outputs, tile[1]), nets)](
            value, first, second, copy, gradient.left, gradient.right, table, count, rate, eps, outputs, inputs,
            ROWS=rows, IEEE=gradient.left.element_size() == 4, BB=tile[0], BO=tile[1], BI=tile[2],
            num_warps=8, **common,
        )  # fmt: skip
        return
    parts = gradient.parts if isinstance(gradient, Summed) else gradient[None]
    assert parts.is_contiguous() and parts[0].numel() == value.numel()
    placed = follower is not None and follower.place is not None
    _step[(triton.cdiv(value.numel(), BLOCK),)](
        value, first, second, copy, follower.place if follower and placed else count, parts, table, count, rate, eps,
        follower.scale if follower else 1.0, value.numel(), copy.shape[-1],
        PARTS=len(parts), PLACED=placed, BLOCK=BLOCK, **common,
    )  # fmt: skip
