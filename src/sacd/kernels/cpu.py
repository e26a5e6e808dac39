"""The products a network is made of, on single nets and in plain tensors: what to call for speed on a CPU.

A strided convolution can be rearranged into a dense one: s x s blocks of pixels become channels (space to depth), and
a k x k kernel of stride s becomes k/s x k/s of stride 1. The arithmetic is the same; in bfloat16 the vendor's gradient
kernels are up to twice as fast on the dense form, in float32 they are not (bench/NOTES.md). Activations are
(B, H, W, C) throughout, which is the layout those kernels want.

Where torch's float32 matrix products are MKL's and the processor is not Intel's, large ones go to oneDNN instead: MKL
leaves half of an AMD processor's rate unused, while on an Intel one it is the quicker of the two (bench/NOTES.md).
Below `LARGE` oneDNN's call costs more than it gains.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.machine import processor

LARGE = 1 << 20  # multiply-adds
_ONEDNN = torch.ops.mkldnn._linear_pointwise.default if torch.backends.mkldnn.is_available() else None
PAST_MKL = _ONEDNN is not None and torch.backends.mkl.is_available() and "Intel" not in processor()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias, in the precision of its arguments: (B, I), (O, I) -> (B, O). Transposed views are welcome."""
    large = PAST_MKL and x.numel() * weight.shape[0] >= LARGE and x.dtype == torch.float32 and x.device.type == "cpu"
    return _ONEDNN(x, weight, bias, "none", [], "") if large and _ONEDNN else F.linear(x, weight, bias)


def conv_size(size: int, kernel: int, stride: int) -> int:
    """Output pixels along one side; 0 or less: the image is too small."""
    return (size - kernel) // stride + 1


def stack_to_depth(frames: Tensor, block: int) -> Tensor:
    """Blocks of stacked frames as channels: (B, S, H, W, C) -> (B, H/b, W/b, S*b*b*C), in that channel order.

    H and W are multiples of the block. Bytes move in words where they can: four times fewer elements to permute.
    """
    b, s, h, w, c = frames.shape
    rows = frames.contiguous().view(b, s, h // block, block, w // block, block * c)
    words = rows.view(torch.int32) if frames.dtype == torch.uint8 and (block * c) % 4 == 0 else rows
    moved = words.permute(0, 2, 4, 1, 3, 5).contiguous().view(frames.dtype)
    return moved.view(b, h // block, w // block, s * block * block * c)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of pixels as channels: (B, H, W, C) -> (B, H/b, W/b, b*b*C)."""
    return x if block == 1 else stack_to_depth(x.unsqueeze(1), block)


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """The inverse of `space_to_depth`, which is also its adjoint."""
    if block == 1:
        return x
    b, h, w, d = x.shape
    c = d // block**2
    return x.view(b, h, w, block, block, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h * block, w * block, c)


def dense_kernel(weight: Tensor, frames: int, stride: int) -> Tensor:
    """A (O, I, k, k) kernel for rearranged inputs: (O, I*s*s, k/s, k/s). I is (frames, C)."""
    o, i, k, _ = weight.shape
    n = k // stride
    split = weight.view(o, frames, i // frames, n, stride, n, stride)
    return split.permute(0, 1, 4, 6, 2, 3, 5).reshape(o, i * stride**2, n, n)


def dense_kernel_adjoint(grad: Tensor, frames: int, stride: int) -> Tensor:
    """Back from the rearranged kernel's gradient to (O, I, k, k)."""
    o, d, n, _ = grad.shape
    c = d // (stride**2 * frames)
    split = grad.reshape(o, frames, stride, stride, c, n, n)
    moved = split.permute(0, 1, 4, 5, 2, 6, 3).reshape(o, frames * c, n * stride, n * stride)
    return moved.contiguous()  # at stride 1 the reshape is still a view of the vendor's channels-last result


def conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int = 1) -> Tensor:
    """Convolution: (B, H, W, D) -> (B, h, w, O)."""
    return F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride).permute(0, 2, 3, 1)


def conv_adjoint(
    grad: Tensor, x: Tensor, weight: Tensor, input_too: bool, stride: int = 1
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Gradients of `conv` for its input (if asked: images need none), kernel and bias."""
    dx, dw, db = torch.ops.aten.convolution_backward(
        grad.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), weight, [weight.shape[0]],
        [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1, [input_too, True, True],
    )  # fmt: skip
    return dx.permute(0, 2, 3, 1) if input_too else None, dw, db
