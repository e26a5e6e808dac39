"""Gather, stack, rearrange and convert frames in one pass over memory; the reference is frames.py."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 8192  # numbers a program converts at most


@triton.jit
def _blocks(
    tape, rows, y,
    FRAME: tl.constexpr, LINE: tl.constexpr, S: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)  # one frame of one stack
    p, k = (tl.program_id(1) * BP + tl.arange(0, BP))[:, None], tl.arange(0, BK)[None, :]
    inside = (p < LINES * COLUMNS) & (k < B * B * C)
    line, column = p // COLUMNS * B + k // (B * C), p % COLUMNS * (B * C) + k % (B * C)
    pixel = tl.load(tape + tl.load(rows + n) * FRAME + line * LINE + column, mask=inside, other=0)
    at = ((n // S * (LINES * COLUMNS) + p) * S + n % S) * (B * B * C) + k
    tl.store(y + at, pixel.to(y.dtype.element_ty), mask=inside)


def blocks(tape: Tensor, rows: Tensor, block: int, crop: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """See frames.py."""
    stack, (lines, columns) = rows.shape[-1], (n // block for n in crop)
    colours = tape[0].numel() // (tape.shape[1] * tape.shape[2])
    depth = block * block * colours
    y = torch.empty((*rows.shape[:-1], lines, columns, stack * depth), dtype=dtype, device=tape.device)
    wide = triton.next_power_of_2(depth)
    places = min(triton.next_power_of_2(lines * columns), max(TILE // wide, 1))
    _blocks[(rows.numel(), triton.cdiv(lines * columns, places))](
        tape, rows, y, FRAME=tape[0].numel(), LINE=tape.shape[2] * colours, S=stack, B=block, C=colours,
        LINES=lines, COLUMNS=columns, BP=places, BK=wide,
    )  # fmt: skip
    return y
