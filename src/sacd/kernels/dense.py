"""Linear layers of many nets at once: x (N, B, I), weights (N, O, I).

On a GPU with Triton the bias, the ReLU and the change of precision after the product are one pass (dense_triton.py).
"""

import torch
from torch import Tensor

from sacd.kernels import HAVE_TRITON
from sacd.kernels.activation import ADJOINT, APPLY
from sacd.kernels.gradient import Gradient, Product


def forward(x: Tensor, w: Tensor, bias: Tensor, activation: str, dtype: torch.dtype) -> Tensor:
    """activation(x w^T + bias) in the type that the next layer wants: (N, B, O)."""
    if activation == "relu" and x.is_cuda and HAVE_TRITON:
        from sacd.kernels import dense_triton  # noqa: PLC0415

        return dense_triton.bias_relu(product(x, w.mT), bias, dtype)
    return APPLY[activation](torch.baddbmm(bias[:, None], x, w.mT)).to(dtype)


def gradients(grad: Tensor, x: Tensor, y: Tensor, activation: str) -> tuple[Tensor, Gradient, Tensor]:
    """Slope before the activation, in the layer's precision, and gradients of weight and bias."""
    slope = ADJOINT[activation](grad.to(y.dtype), y).to(x.dtype)
    bias = slope.sum(1, dtype=torch.float32)
    if slope.dtype == torch.float32:
        return slope, torch.bmm(slope.mT, x), bias
    return slope, Product(slope, x), bias


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b in float32."""
    return torch.bmm(a, b) if a.dtype == torch.float32 else torch.bmm(a, b, out_dtype=torch.float32)
