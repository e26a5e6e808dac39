"""Stride-1 convolutions of many nets at once, as implicit matrix products: no patch matrix is ever written.

The reference, with the shapes and the meaning of each function, is conv.py. The channels of one kernel row lie side by
side in an image row, so a tile of "patches" is a plain load of rows that overlap. Nets that see the same images are the
columns of one product; their number is a power of two (one actor, two critics).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sacd.kernels.gradient import Summed


@triton.jit
def _forward(
    x, w, bias, y, M, H, W, h, wide,
    C: tl.constexpr, T: tl.constexpr, N: tl.constexpr, S: tl.constexpr, NETS: tl.constexpr, IEEE: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(1).to(tl.int64)
    m, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, NETS * N)
    net, n, inside = column // N, column % N, m < M
    ox, oy, b = m % wide, m // wide % h, m // (wide * h)
    x += g * (M // (h * wide) * H * W * C)
    w += g * (NETS * T * T * C * N)
    acc = tl.zeros((BM, NETS * N), tl.float32)
    for row in range(T):
        begin = ((b * H + oy + row) * W + ox) * C
        for part in range(T * C // BK):
            k = part * BK + tl.arange(0, BK)
            tile = tl.load(x + begin[:, None] + k[None, :], mask=inside[:, None], other=0)
            kernel = tl.load(w + (net * (T * T * C * N) + n)[None, :] + (row * T * C + k)[:, None] * N)
            acc = tl.dot(tile.to(kernel.dtype), kernel, acc, input_precision="ieee" if IEEE else "tf32")
    acc += tl.load(bias + g * (NETS * N) + column).to(tl.float32)[None, :]
    at = ((b * (h // S) + oy // S) * (wide // S) + ox // S) * (S * S * N) + (oy % S * S + ox % S) * N
    y += g * NETS * M * N
    at = at[:, None] + (net * M * N + n)[None, :]
    tl.store(y + at, tl.maximum(acc, 0.0).to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _weight_gradient(
    x, grad, dw, db, M, W, limit,
    C: tl.constexpr, T: tl.constexpr, N: tl.constexpr, NETS: tl.constexpr, IEEE: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    block, g, split = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    row = block * BK // (T * C)
    k = tl.multiple_of(block * BK % (T * C), BK) + tl.arange(0, BK)  # said, because wide loads depend on it
    column = tl.arange(0, NETS * N)
    net, n = column // N, column % N
    x += g * M * C + row * W * C
    grad += g * NETS * M * N
    acc, total = tl.zeros((BK, NETS * N), tl.float32), tl.zeros((NETS * N,), tl.float32)
    for start in range(0, CHUNK, BM):
        m = tl.program_id(2) * CHUNK + start + tl.arange(0, BM)
        inside = (m < limit)[:, None]  # after it only places where no kernel fits
        slope = tl.load(grad + m[:, None] * N + (net * M * N + n)[None, :], mask=inside, other=0.0)
        tile = tl.load(x + m[:, None] * C + k[None, :], mask=inside, other=0)
        acc = tl.dot(tl.trans(tile.to(slope.dtype)), slope, acc, input_precision="ieee" if IEEE else "tf32")
        if block == 0:
            total += tl.sum(slope.to(tl.float32), 0)
    place = (split * tl.num_programs(1) + g) * NETS
    at = (place + net)[None, :] * (T * T * C * N) + (block * BK + tl.arange(0, BK))[:, None] * N + n[None, :]
    tl.store(dw + at, acc)
    first = column + block * (NETS * N) < NETS * N  # the first block of rows sums for the bias
    tl.store(db + place * N + column, total, mask=first)


@triton.jit
def _input_gradient(
    grad, w, x, dx, M, H, W, lines, columns, high, wide,
    C: tl.constexpr, T: tl.constexpr, N: tl.constexpr, S: tl.constexpr, IEEE: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    g, images = tl.program_id(2).to(tl.int64), M // (lines * columns)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    c, n, inside = tl.program_id(1) * BC + tl.arange(0, BC), tl.arange(0, N), m < M
    col, line, b = m % columns, m // columns % lines, m // (columns * lines)
    there = inside & (line < H) & (col < W)  # the grid may end after the last block
    here = (b * H + line) * W + col
    grad += g * images * H * W * N
    w += g * (T * T * C * N)
    acc = tl.zeros((BM, BC), tl.float32)
    for tap in range(T * T):
        reached = there & (line >= tap // T) & (col >= tap % T)
        place = here - tap // T * W - tap % T
        slope = tl.load(grad + place[:, None] * N + n[None, :], mask=reached[:, None], other=0.0)
        kernel = tl.load(w + (tap * C + c)[:, None] * N + n[None, :])
        acc = tl.dot(slope, tl.trans(kernel), acc, input_precision="ieee" if IEEE else "tf32")
    seen = tl.load(x + (g * images * H * W + here)[:, None] * C + c[None, :], mask=there[:, None], other=0.0)
    part, channel = c // (C // S // S), c % (C // S // S)  # of the block, and within the pixel
    y, z = line[:, None] * S + (part // S)[None, :], col[:, None] * S + (part % S)[None, :]
    at = ((g * images + b)[:, None] * high + y) * wide + z
    inside = inside[:, None] & (y < high) & (z < wide)
    dx += at * (C // S // S) + channel[None, :]
    tl.store(dx, tl.where(seen > 0, acc, 0.0).to(dx.dtype.element_ty), mask=inside)


@triton.jit
def _relu_on_grid(grad, x, y, total, h, v, high, wide, OUTPUTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    o, col, line, b = i % OUTPUTS, i // OUTPUTS % wide, i // (OUTPUTS * wide) % high, i // (OUTPUTS * wide * high)
    inside = (i < total) & (line < h) & (col < v)
    at = ((b * h + line) * v + col) * OUTPUTS + o
    slope, seen = tl.load(grad + at, mask=inside, other=0.0), tl.load(x + at, mask=inside, other=0.0)
    tl.store(y + i, tl.where(seen > 0, slope, 0.0), mask=i < total)


BLOCK = 1024
Tile = tuple[int, int, int, int]  # rows, inputs, warps, stages of the pipeline


def _tile(asked: Tile | None, exact: bool, count: int, fast: Tile) -> Tile:
    """The tile asked for, else the quickest (bench/tiles.py), its inputs a power of two that divides their count.

    Float32 products that are exact take small ones: their operands are twice as large, and nobody waits for them.
    """
    rows, inputs, warps, stages = asked or ((64, 32, 4, 2) if exact else fast)
    return rows, min(inputs, count & -count), warps, stages


def forward(
    x: Tensor, w: Tensor, bias: Tensor, side: int, size: tuple[int, int], block: int, tile: Tile | None = None
) -> Tensor:
    """See conv.py."""
    groups, batch, high, wide, channels = x.shape
    nets, outputs = w.shape[0], w.shape[2]
    h, v = size
    m = batch * h * v
    y = torch.empty((nets, batch, h // block, v // block, block * block * outputs), dtype=w.dtype, device=w.device)
    bm, bk, warps, stages = _tile(tile, w.dtype == torch.float32, side * channels, (128, 32, 4, 3))
    _forward[(triton.cdiv(m, bm), groups)](
        x, w, bias, y, m, high, wide, h, v, C=channels, T=side, N=outputs, S=block, NETS=nets // groups,
        IEEE=w.dtype == torch.float32, BM=bm, BK=bk, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return y


def weight_gradient(x: Tensor, grad: Tensor, side: int, tile: Tile | None = None) -> tuple[Summed, Summed]:
    """See conv.py."""
    groups, batch, high, wide, channels = x.shape
    nets, outputs = grad.shape[0], grad.shape[4]
    m, depth = batch * high * wide, side * side * channels
    fast = (128, 128, 8, 2) if side * channels % 128 == 0 else (64, 64, 4, 3)
    bm, bk, warps, stages = _tile(tile, grad.dtype == torch.float32, side * channels, fast)
    blocks = depth // bk
    splits = max(1, min(32, 1056 // (blocks * groups)))
    chunk = triton.cdiv(triton.cdiv(m, splits), bm) * bm  # in whole tiles
    splits = triton.cdiv(m, chunk)
    dw = torch.empty((splits, nets, depth, outputs), dtype=torch.float32, device=x.device)
    db = torch.empty((splits, nets, outputs), dtype=torch.float32, device=x.device)
    _weight_gradient[(blocks, groups, splits)](
        x, grad, dw, db, m, wide, m - (side - 1) * (wide + 1), C=channels, T=side, N=outputs, NETS=nets // groups,
        IEEE=grad.dtype == torch.float32, BM=bm, BK=bk, CHUNK=chunk, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return Summed(dw), Summed(db)


def input_gradient(
    grad: Tensor, w: Tensor, x: Tensor, side: int, block: int, grid: tuple[int, int], tile: Tile | None = None
) -> Tensor:
    """See conv.py."""
    nets, batch, high, wide, channels = x.shape
    lines, columns = triton.cdiv(grid[0], block), triton.cdiv(grid[1], block)
    m = batch * lines * columns
    dx = torch.empty((nets, batch, *grid, channels // block**2), dtype=x.dtype, device=x.device)
    bm, bc, warps, stages = _tile(tile, w.dtype == torch.float32, channels, (128, 64, 8, 3))
    _input_gradient[(triton.cdiv(m, bm), channels // bc, nets)](
        grad, w, x, dx, m, high, wide, lines, columns, *grid, C=channels, T=side, N=w.shape[2], S=block,
        IEEE=w.dtype == torch.float32, BM=bm, BC=bc, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return dx


def relu_on_grid(grad: Tensor, x: Tensor, grid: tuple[int, int]) -> Tensor:
    """See conv.py."""
    nets, batch, h, v, outputs = x.shape
    y = torch.empty((nets, batch, *grid, outputs), dtype=x.dtype, device=x.device)
    programs = (triton.cdiv(y.numel(), BLOCK),)
    _relu_on_grid[programs](grad, x, y, y.numel(), h, v, *grid, OUTPUTS=outputs, BLOCK=BLOCK)
    return y
