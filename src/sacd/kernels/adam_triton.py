"""Adam's step over one tensor in one pass: gradient, moments, value and the copy that the next product reads.

Sums, products and followers are those of gradient.py; adam.py is the reference. Value and moments are asked for first,
so that they are on their way while the gradient is put together.
"""

import triton
import triton.language as tl
from torch import Tensor

from sacd.kernels.gradient import Gradient, Part, Product, Summed

BLOCK = 1024
TILE = (64, 32, 64)  # of a product: rows of the batch, outputs, inputs


@triton.jit
def _adam(
    value, first, second, copy, i, at, inside, p, m, v, g, corrections, count, rate, eps, scale,
    B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr, COPY: tl.constexpr,
):  # fmt: skip
    row = corrections + 2 * tl.minimum(tl.load(count).to(tl.int32), LAST)
    m += (1 - B1) * (g - m)
    v = B2 * v + (1 - B2) * g * g
    p -= rate * tl.load(row) * m / (tl.sqrt(v) * tl.load(row + 1) + eps)
    tl.store(first + i, m, mask=inside)
    tl.store(second + i, v, mask=inside)
    tl.store(value + i, p, mask=inside)
    if COPY:
        tl.store(copy + at, (p * scale).to(copy.dtype.element_ty), mask=inside)


@triton.jit
def _step(
    value, first, second, copy, grad, corrections, count, rate, eps, total,
    PARTS: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr, COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    p, m, v = tl.load(value + i, inside), tl.load(first + i, inside), tl.load(second + i, inside)
    g = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.static_range(PARTS):
        g += tl.load(grad + i, mask=inside, other=0.0)
        grad += total
    _adam(value, first, second, copy, i, i, inside, p, m, v, g, corrections, count, rate, eps, 1.0, B1, B2, LAST, COPY)


@triton.jit
def _turned_step(
    value, first, second, copy, place, grad, corrections, count, rate, eps, scale, total, width,
    OUTPUTS: tl.constexpr, PARTS: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr,
    COPY: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    net = tl.program_id(1).to(tl.int64) * OUTPUTS * width
    k, o = tl.program_id(0) * BW + tl.arange(0, BW), tl.arange(0, OUTPUTS)
    i, inside = net + o[:, None] * width + k[None, :], (o < OUTPUTS)[:, None] & (k < width)[None, :]
    p, m, v = tl.load(value + i, inside), tl.load(first + i, inside), tl.load(second + i, inside)
    at = net + tl.load(place + k, mask=k < width, other=0)[:, None] * OUTPUTS + o[None, :]
    g = tl.zeros((BW, OUTPUTS), tl.float32)
    for _ in tl.static_range(PARTS):
        g += tl.load(grad + at, mask=(k < width)[:, None], other=0.0)
        grad += total
    g = tl.trans(g) * scale
    at = tl.trans(at)
    _adam(
        value, first, second, copy, i, at, inside, p, m, v, g, corrections, count, rate, eps, scale, B1, B2, LAST, COPY
    )


@triton.jit
def _product_step(
    value, first, second, copy, left, right, corrections, count, rate, eps, outputs, inputs,
    ROWS: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LAST: tl.constexpr, COPY: tl.constexpr,
    IEEE: tl.constexpr, BB: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    net = tl.program_id(2).to(tl.int64)
    o, k = tl.program_id(1) * BO + tl.arange(0, BO), tl.program_id(0) * BI + tl.arange(0, BI)
    i = net * outputs * inputs + o[:, None] * inputs + k[None, :]
    inside = (o < outputs)[:, None] & (k < inputs)[None, :]
    p, m, v = tl.load(value + i, inside), tl.load(first + i, inside), tl.load(second + i, inside)
    left += net * ROWS * outputs
    right += net * ROWS * inputs
    g = tl.zeros((BO, BI), tl.float32)
    for start in range(0, ROWS, BB):
        b = (start + tl.arange(0, BB))[:, None]
        a = tl.load(left + b * outputs + o[None, :], mask=(b < ROWS) & (o < outputs)[None, :], other=0.0)
        c = tl.load(right + b * inputs + k[None, :], mask=(b < ROWS) & (k < inputs)[None, :], other=0.0)
        g = tl.dot(tl.trans(a), c, g, input_precision="ieee" if IEEE else "tf32")
    _adam(value, first, second, copy, i, i, inside, p, m, v, g, corrections, count, rate, eps, 1.0, B1, B2, LAST, COPY)


def step(
    part: Part, gradient: Gradient, count: Tensor, table: Tensor, rate: float, eps: float,
    betas: tuple[float, float], tile: tuple[int, int, int] = TILE,
) -> None:  # fmt: skip
    """One tensor's step, in place."""
    value, first, second, follower = part
    copy = value if follower is None else follower.tensor
    place = None if follower is None else follower.place
    common = {"B1": betas[0], "B2": betas[1], "LAST": len(table) - 1, "COPY": follower is not None}
    if isinstance(gradient, Product):
        (nets, rows, outputs), inputs = gradient.left.shape, gradient.right.shape[2]
        assert place is None, "products come in the master's order"
        _product_step[(triton.cdiv(inputs, tile[2]), triton.cdiv(outputs, tile[1]), nets)](
            value, first, second, copy, gradient.left, gradient.right, table, count, rate, eps, outputs, inputs,
            ROWS=rows, IEEE=gradient.left.element_size() == 4, BB=tile[0], BO=tile[1], BI=tile[2],
            num_warps=8, **common,
        )  # fmt: skip
        return
    parts = gradient.parts if isinstance(gradient, Summed) else gradient[None]
    assert parts.is_contiguous() and parts[0].numel() == value.numel()
    if follower is None or place is None:
        _step[(triton.cdiv(value.numel(), BLOCK),)](
            value, first, second, copy, parts, table, count, rate, eps, value.numel(),
            PARTS=len(parts), BLOCK=BLOCK, **common,
        )  # fmt: skip
        return
    nets, each = copy.shape
    width, wide = len(place), 8 if len(parts) > 8 else 32
    _turned_step[(triton.cdiv(width, wide), nets)](
        value, first, second, copy, place, parts, table, count, rate, eps, follower.scale, value.numel(), width,
        OUTPUTS=each // width, PARTS=len(parts), BW=wide, num_warps=8, **common,
    )  # fmt: skip
