"""Stride-1 convolutions of many nets at once: what the Nature CNN is after blocks of pixels became channels.

x (X, B, H, W, C): X divides the number of nets N, nets that lie side by side see the same images. Kernels w
(N, T*T*C, O), their rows ordered (row, column, channel). ReLU is part of a layer.

An output may be stored with its own s x s blocks as channels, (N, B, h/s, v/s, s*s*O), which is what the next layer
reads. Its gradient lies on the grid of the layer's *input*, (N, B, H, W, O), zero where no kernel fits: sums over
places then run through memory in order.

Each function is the PyTorch reference; on a GPU with Triton, conv_triton.py computes the same without patch matrices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.kernels import HAVE_TRITON, cpu
from sacd.kernels.activation import ADJOINT
from sacd.kernels.gradient import Gradient


def _fast(x: Tensor, outputs: int = 16) -> bool:
    """Whether the kernels take it: their products want whole tiles of channels."""
    whole = outputs >= 16 and outputs & (outputs - 1) == 0 and x.shape[-1] % 16 == 0
    return x.is_cuda and HAVE_TRITON and whole


def forward(x: Tensor, w: Tensor, bias: Tensor, side: int, size: tuple[int, int], block: int) -> Tensor:
    """ReLU(x * w + bias) at the first h x v = `size` places, stored in blocks: (N, B, h/s, v/s, s*s*O)."""
    if _fast(x, w.shape[2]):
        from sacd.kernels import conv_triton  # noqa: PLC0415

        return conv_triton.forward(x, w, bias, side, size, block)
    cut = x[:, :, : size[0] + side - 1, : size[1] + side - 1]
    y = torch.baddbmm(bias[:, None], _patches(cut, w, side), w).relu_()
    return cpu.space_to_depth(y.view(-1, *size, w.shape[2]), block).unflatten(0, (w.shape[0], -1))


def weight_gradient(x: Tensor, grad: Tensor, side: int) -> tuple[Gradient, Gradient]:
    """Gradients (N, T*T*C, O) and (N, O) in float32, from that of the output before ReLU, on x's grid."""
    if _fast(x, grad.shape[4]):
        from sacd.kernels import conv_triton  # noqa: PLC0415

        return conv_triton.weight_gradient(x, grad, side)
    rows = grad[:, :, : grad.shape[2] - side + 1, : grad.shape[3] - side + 1].reshape(len(grad), -1, grad.shape[4])
    return (_patches(x, rows, side).mT @ rows).float(), rows.sum(1, dtype=torch.float32)


def input_gradient(grad: Tensor, w: Tensor, x: Tensor, side: int, block: int, grid: tuple[int, int]) -> Tensor:
    """Gradient for x, through the ReLU that made it, on the `grid` of the layer that made it: (N, B, *grid, C/s/s)."""
    if _fast(x, w.shape[2]):
        from sacd.kernels import conv_triton  # noqa: PLC0415

        return conv_triton.input_gradient(grad, w, x, side, block, grid)
    n, batch, high, wide, channels = x.shape
    h, v = high - side + 1, wide - side + 1
    taps = (grad[:, :, :h, :v].reshape(n, -1, grad.shape[4]) @ w.mT).view(n, batch, h, v, side, side, channels)
    dx = torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
    for row in range(side):
        for column in range(side):
            dx[:, :, row : row + h, column : column + v] += taps[:, :, :, :, row, column]
    dx = cpu.depth_to_space(torch.where(x > 0, dx, 0.0).to(x.dtype).flatten(0, 1), block)
    return on_grid(dx.unflatten(0, (n, batch)), grid)


def relu_on_grid(grad: Tensor, x: Tensor, grid: tuple[int, int]) -> Tensor:
    """The gradient of a layer's output x, through its ReLU, on its grid."""
    if _fast(x):
        from sacd.kernels import conv_triton  # noqa: PLC0415

        return conv_triton.relu_on_grid(grad, x, grid)
    return on_grid(ADJOINT["relu"](grad.view(x.shape), x), grid)


def on_grid(x: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, B, h, v, O) with zeros after its rows and columns, up to the grid."""
    return F.pad(x, (0, 0, 0, grid[1] - x.shape[3], 0, grid[0] - x.shape[2]))


def _patches(x: Tensor, like: Tensor, side: int) -> Tensor:
    """Every place's T*T*C inputs: (N, B*h*v, T*T*C), in the type of `like`, which has N nets."""
    taps = x.to(like.dtype).unfold(2, side, 1).unfold(3, side, 1).permute(0, 1, 2, 3, 5, 6, 4)  # (X, B, h, v, T, T, C)
    rows = taps.reshape(x.shape[0], -1, side * side * x.shape[4])
    return rows.repeat_interleave(like.shape[0] // x.shape[0], 0)
