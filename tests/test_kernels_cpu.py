"""The rearranged products against torch's own strided convolution."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.kernels import cpu

# batch, frames, height, width, colours
IMAGES = [(2, 4, 84, 84, 1), (3, 1, 36, 40, 1), (2, 2, 37, 50, 3), (1, 3, 41, 39, 1), (2, 1, 52, 37, 4)]
LAYERS = [(8, 4), (4, 2), (3, 1), (6, 3), (2, 2)]  # kernel and stride; the first three are the paper's


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pixels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def reached(size: int, kernel: int, stride: int) -> int:
    """Pixels along a side that some kernel position covers."""
    return (size - kernel) // stride * stride + kernel


def test_conv_size_by_hand():
    """The paper's 84 pixels become 20, 9 and 7; 19 pixels are too few."""
    sides = [84]
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        sides.append(cpu.conv_size(sides[-1], kernel, stride))
    assert sides == [84, 20, 9, 7]
    assert cpu.conv_size(cpu.conv_size(19, 8, 4), 4, 2) < 1


def test_space_to_depth_by_hand():
    """A 2x4 image of blocks of 2x2: each block's pixels, row by row, are one place's channels."""
    image = torch.arange(1, 9).view(1, 2, 4, 1)  # rows 1 2 3 4 and 5 6 7 8
    assert cpu.space_to_depth(image, 2).tolist() == [[[[1, 2, 5, 6], [3, 4, 7, 8]]]]


@pytest.mark.parametrize("sizes", [(64, 256, 256), (70, 131, 257), (1, 256, 2), (64, 4, 256)])
def test_linear_and_its_adjoints(sizes):
    """Small and large products, and those of the backward pass with their transposed views, against float64."""
    batch, inputs, outputs = sizes
    shapes = ((batch, inputs), (outputs, inputs), (outputs,), (batch, outputs))
    x, w, b, g = (draw(*shape, seed=5 + i).float() for i, shape in enumerate(shapes))
    found = (cpu.linear(x, w, b), cpu.linear(g, w.mT), cpu.linear(g.mT, x.mT))
    x, w, b, g = (t.double() for t in (x, w, b, g))
    for mine, right in zip(found, (x @ w.mT + b, g @ w, g.mT @ x), strict=True):
        assert mine.dtype == torch.float32 and mine.is_contiguous()
        torch.testing.assert_close(mine.double(), right, rtol=1e-5, atol=1e-4)  # a bfloat16 product is off by 1e-1


@pytest.mark.parametrize("block", [1, 2, 3, 4])
@pytest.mark.parametrize("colours", [1, 3, 8])
def test_space_and_depth_are_inverse(block, colours):
    """Either after the other gives back every number, and the numbers are only moved."""
    x = draw(2, 4 * block, 3 * block, colours, seed=1)
    deep = cpu.space_to_depth(x, block)
    assert deep.shape == (2, 4, 3, block**2 * colours)
    assert torch.equal(cpu.depth_to_space(deep, block), x)
    y = draw(*deep.shape, seed=2)
    assert torch.equal(cpu.space_to_depth(cpu.depth_to_space(y, block), block), y)


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_space_and_depth_are_adjoint(block):
    """<space_to_depth x, y> = <x, depth_to_space y>: what the backward pass relies on."""
    x, y = draw(2, 4 * block, 3 * block, 5, seed=3), draw(2, 4, 3, 5 * block**2, seed=4)
    left, right = (cpu.space_to_depth(x, block) * y).sum(), (x * cpu.depth_to_space(y, block)).sum()
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("block", "colours"), [(4, 1), (4, 3), (2, 2), (2, 1), (3, 1), (3, 3), (1, 4)])
def test_bytes_move_as_numbers_do(block, colours):
    """Frames of bytes, which may be moved four at a time, come out in the order in which any numbers do."""
    frames = pixels(2, 3, 4 * block, 2 * block, colours)
    deep = cpu.stack_to_depth(frames, block)
    assert deep.dtype == torch.uint8
    assert torch.equal(deep.double(), cpu.stack_to_depth(frames.double(), block))
    later = cpu.stack_to_depth(frames.flip(1).flip(1)[:, 1:], block)  # not at the start of its storage
    assert torch.equal(later, deep.unflatten(-1, (3, -1))[..., 1:, :].flatten(-2))


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("layer", LAYERS)
def test_dense_form_is_the_strided_convolution(image, layer):
    """Rearranged stack, rearranged kernel and a dense convolution give torch's strided convolution of that stack."""
    b, s, h, w, c = image
    kernel, stride = layer
    frames, weight = pixels(*image).double(), draw(6, s * c, kernel, kernel, seed=5)
    bias = draw(6, seed=6)
    # torch wants channels first: stack outermost, then colours
    wanted = F.conv2d(frames.permute(0, 1, 4, 2, 3).reshape(b, s * c, h, w), weight, bias, stride=stride)
    seen = frames[:, :, : reached(h, kernel, stride), : reached(w, kernel, stride)]
    deep = cpu.stack_to_depth(seen, stride)
    found = cpu.conv(deep, cpu.dense_kernel(weight, s, stride), bias)
    assert found.shape[1:3] == (cpu.conv_size(h, kernel, stride), cpu.conv_size(w, kernel, stride))
    torch.testing.assert_close(found.permute(0, 3, 1, 2), wanted, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("frames", [1, 2, 4])
@pytest.mark.parametrize("layer", LAYERS)
def test_kernel_rearrangement_has_its_adjoint(frames, layer):
    """dense_kernel only moves numbers, and its adjoint moves each one back."""
    kernel, stride = layer
    weight = draw(5, frames * 3, kernel, kernel, seed=7)
    dense = cpu.dense_kernel(weight, frames, stride)
    assert torch.equal(cpu.dense_kernel_adjoint(dense, frames, stride), weight)
    leaf, slope = weight.clone().requires_grad_(), draw(*dense.shape, seed=8)
    (cpu.dense_kernel(leaf, frames, stride) * slope).sum().backward()
    assert torch.equal(leaf.grad, cpu.dense_kernel_adjoint(slope, frames, stride))


@pytest.mark.parametrize("layer", LAYERS)
def test_whole_layer_gradients(layer):
    """Input, kernel and bias gradients of the dense form, taken back, are autograd's of the strided convolution."""
    kernel, stride = layer
    side = 4 * stride + kernel  # every pixel is reached, so that the input's gradient needs no edge
    x, weight, bias = draw(2, side, side, 3, seed=9), draw(5, 3, kernel, kernel, seed=10), draw(5, seed=11)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    y = F.conv2d(leaves[0].permute(0, 3, 1, 2), leaves[1], leaves[2], stride=stride).permute(0, 2, 3, 1)
    slope = draw(*y.shape, seed=12)
    wanted = torch.autograd.grad(y, leaves, slope)

    deep, dense = cpu.space_to_depth(x, stride), cpu.dense_kernel(weight, 1, stride)
    dx, dw, db = cpu.conv_adjoint(slope, deep, dense, True)
    found = (cpu.depth_to_space(dx, stride), cpu.dense_kernel_adjoint(dw, 1, stride), db)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)
    none, dw_alone, db_alone = cpu.conv_adjoint(slope, deep, dense, False)
    assert none is None
    torch.testing.assert_close((dw_alone, db_alone), (dw, db), rtol=1e-12, atol=1e-12)
