"""The layers of a network: their shapes, and how a single net computes them on a CPU, forward and backward.

Deliberate: pixels enter as whole numbers 0…255 (exact in bf16) and the 1/255 is folded into the first kernel; the last
layer, and a first layer over vectors, are float32 always.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.kernels import cpu
from sacd.kernels.activation import ADJOINT, APPLY

Packed = tuple[Tensor, Tensor]
ALIGNED = 64  # bytes: where torch's own tensors begin


@dataclass(frozen=True)
class Conv:
    """A strided convolution over (B, H, W, C). `frames` > 0: the input is pixels."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    frames: int = 0
    activation: str = "relu"
    dtype: torch.dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs, self.kernel, self.kernel)

    @property
    def block(self) -> int:
        """Pixels along a side that become channels where the dense form is quicker (cpu.py)."""
        return self.stride if self.dtype == torch.bfloat16 else 1

    def pack(self, weight: Tensor, bias: Tensor) -> Packed:
        if self.frames:  # the pixels come rearranged, once for all nets
            weight = cpu.dense_kernel(weight / 255, self.frames, self.block)
        return weight.to(self.dtype, memory_format=torch.channels_last), bias.to(self.dtype)

    def forward(self, x: Tensor, packed: Packed) -> tuple[Tensor, Tensor]:
        """Output, and what the adjoint needs of the input."""
        step = self.stride // self.block if self.frames else self.stride
        return APPLY[self.activation](cpu.conv(x, *packed, step)), x

    def adjoint(self, grad: Tensor, x: Tensor, y: Tensor, packed: Packed, into: Sequence[int] | None) -> list:
        """Gradients for the input (of shape `into`; None: not wanted), weight and bias."""
        g, weight, frames = ADJOINT[self.activation](grad, y), packed[0], self.frames or 1
        if not self.frames and self.block > 1:  # only the gradients gain by it
            x = cpu.space_to_depth(x[:, : self.reach(x.shape[1]), : self.reach(x.shape[2])], self.block)
            weight = cpu.dense_kernel(weight, 1, self.block).contiguous(memory_format=torch.channels_last)
        dx, dw, db = cpu.conv_adjoint(g, x, weight, into is not None, self.stride // self.block)
        if dx is not None and into is not None:
            dx = cpu.depth_to_space(dx, self.block)
            if dx.shape[1:3] != into[1:3]:  # pixels at the far edges that no kernel reached
                dx = F.pad(dx, (0, 0, 0, into[2] - dx.shape[2], 0, into[1] - dx.shape[1]))
        dw = cpu.dense_kernel_adjoint(dw.float(), frames, self.block)
        return [dx, dw / 255 if self.frames else dw, db.float()]

    def reach(self, size: int) -> int:
        """Pixels along a side that the kernel reaches."""
        return (cpu.conv_size(size, self.kernel, self.stride) - 1) * self.stride + self.kernel


@dataclass(frozen=True)
class Dense:
    """A linear layer (B, …) -> (B, outputs), with its activation."""

    inputs: int
    outputs: int
    activation: str = "none"
    dtype: torch.dtype = torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs)

    def pack(self, weight: Tensor, bias: Tensor) -> Packed:
        # A slice of the stack may lie where it would not lie alone, and products of unaligned memory round differently.
        unaligned = self.inputs * self.outputs * weight.element_size() % ALIGNED != 0
        return weight.to(self.dtype, copy=unaligned), bias.to(self.dtype)

    def forward(self, x: Tensor, packed: Packed) -> tuple[Tensor, Tensor]:
        x = x.flatten(1) if x.ndim > 2 else x
        x = x if x.dtype == self.dtype else x.to(self.dtype)
        return APPLY[self.activation](cpu.linear(x, *packed)), x

    def adjoint(self, grad: Tensor, x: Tensor, y: Tensor, packed: Packed, into: Sequence[int] | None) -> list:
        g = ADJOINT[self.activation](grad, y)
        dx = cpu.linear(g, packed[0].mT).view(into) if into is not None else None
        return [dx, cpu.linear(g.mT, x.mT).float(), g.sum(0, dtype=torch.float32)]


Layer = Conv | Dense
