"""What follows a product of matrices: bias, ReLU and precision in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _bias_relu(z, bias, y, total, rows, width, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    b = tl.load(bias + i // (rows * width) * width + i % width, mask=inside).to(tl.float32)
    tl.store(y + i, tl.maximum(tl.load(z + i, mask=inside) + b, 0.0).to(y.dtype.element_ty), mask=inside)


def bias_relu(z: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """max(z + bias, 0): (N, B, O) float32 and (N, O) -> (N, B, O) of the type given."""
    y = torch.empty(z.shape, dtype=dtype, device=z.device)
    grid = (triton.cdiv(z.numel(), BLOCK),)
    _bias_relu[grid](z, bias, y, z.numel(), *z.shape[1:], BLOCK=BLOCK)
    return y
