"""Many nets' convolutions: the reference against torch's own in float64, and the Triton kernels against the reference.

Without a GPU the Triton kernels run in Triton's interpreter, on the same numbers.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.kernels import conv, cpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# images, nets, batch, high, wide, channels, side, outputs, block of the output, block and grid of the layer before
CASES = [
    (2, 4, 3, 6, 5, 64, 2, 32, 1, 1, (6, 5)),  # a first layer: two nets see the same bytes
    (3, 6, 2, 5, 7, 64, 2, 32, 2, 2, (10, 15)),
    (1, 1, 5, 4, 4, 16, 2, 32, 1, 1, (5, 4)),
    (4, 4, 2, 5, 7, 128, 2, 64, 1, 2, (11, 15)),
    (3, 3, 3, 6, 5, 64, 3, 64, 1, 1, (7, 7)),
    (2, 4, 2, 7, 6, 48, 2, 32, 1, 1, (7, 6)),  # three colours
]
needs_triton = pytest.mark.skipif(not conv.HAVE_TRITON, reason="Triton is not installed")


def draw(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def given(case: tuple, dtype: torch.dtype) -> dict[str, Tensor]:
    """Random inputs of a case; bytes for layers that share their images."""
    images, nets, batch, high, wide, channels, side, outputs = case[:8]
    x = draw(images, batch, high, wide, channels, seed=1).relu().to(dtype)
    if images < nets:
        x = torch.randint(0, 256, x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    w = draw(nets, side * side * channels, outputs, seed=3, scale=0.05).to(dtype)
    slope = draw(nets, batch, high - side + 1, wide - side + 1, outputs, seed=5).to(dtype)
    found = {"x": x, "w": w, "bias": draw(nets, outputs, seed=4).to(dtype), "grad": conv.on_grid(slope, (high, wide))}
    return {k: t.to(DEVICE) for k, t in found.items()}


def one_by_one(g: dict[str, Tensor], case: tuple) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output, its slope in kernel, bias and input, by torch's own convolution and autograd, net after net."""
    x, w, bias, grad = (g[k].double() for k in ("x", "w", "bias", "grad"))
    side, block, before = case[6], case[8], case[9]
    found = []
    for i in range(len(w)):
        leaves = [t.clone().requires_grad_() for t in (x[i // (len(w) // len(x))], w[i], bias[i])]
        kernel = leaves[1].view(side, side, -1, w.shape[2]).permute(3, 2, 0, 1)
        full = F.conv2d(leaves[0].permute(0, 3, 1, 2), kernel, leaves[2]).permute(0, 2, 3, 1)
        gx, gw, gb = torch.autograd.grad((full * grad[i, :, : full.shape[1], : full.shape[2]]).sum(), leaves)
        h, v = (n // block * block for n in full.shape[1:3])
        y = cpu.space_to_depth(full.relu().detach()[:, :h, :v], block)
        found.append((y, gw, gb, cpu.depth_to_space(gx * (leaves[0] > 0), before)))
    y, gw, gb, gx = (torch.stack(each) for each in zip(*found, strict=True))
    return y, gw, gb, conv.on_grid(gx, case[10])


def close(found: Tensor, right: Tensor, bound: float) -> None:
    """Equal in norm: bfloat16 is right to three digits."""
    assert found.shape == right.shape
    error = (found.double() - right.double()).norm() / right.double().norm()
    assert error < bound, error


def check(module, case: tuple, dtype: torch.dtype, bound: float) -> None:
    g, (high, wide), side, block, before, grid = given(case, dtype), case[3:5], case[6], *case[8:]
    y, gw, gb, gx = one_by_one(g, case)
    size = tuple((n - side + 1) // block * block for n in (high, wide))
    close(module.forward(g["x"], g["w"], g["bias"], side, size, block), y, bound)
    dw, db = (d if isinstance(d, Tensor) else d.dense() for d in module.weight_gradient(g["x"], g["grad"], side))
    assert dw.dtype == db.dtype == torch.float32
    close(dw, gw, bound)
    close(db, gb, bound)
    if len(g["x"]) == len(g["w"]):
        close(module.input_gradient(g["grad"], g["w"], g["x"], side, before, grid), gx, bound)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-3)])
def test_reference(case, dtype, bound, monkeypatch):
    """The PyTorch form against torch's convolution in float64."""
    monkeypatch.setattr(conv, "HAVE_TRITON", False)
    check(conv, case, dtype, bound)


@needs_triton
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-3)])
def test_triton(case, dtype, bound):
    """The kernels against torch's convolution in float64."""
    if DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter has no bfloat16 products")
    from sacd.kernels import conv_triton

    check(conv_triton, case, dtype, bound)


@needs_triton
def test_relu_on_grid():
    """The kernel against the reference, with places after the last row and column."""
    from sacd.kernels import conv_triton

    x, grad = (draw(2, 3, 5, 7, 32, seed=seed).relu().float().to(DEVICE) for seed in (1, 2))
    right = conv.on_grid(torch.where(x > 0, grad, 0.0), (6, 9))
    assert torch.equal(conv_triton.relu_on_grid(grad.flatten(2), x, (6, 9)), right)


@needs_triton
def test_every_number_is_written(monkeypatch):
    """Outputs begin as NaN here: one that a kernel left out would show."""
    from sacd.kernels import conv_triton

    empty = torch.empty

    def poisoned(*shape, **kinds):
        return empty(*shape, **kinds).fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", poisoned)
    monkeypatch.setattr(torch, "empty_like", lambda t: poisoned(t.shape, dtype=t.dtype, device=t.device))
    case = CASES[4]
    g = given(case, torch.float32)
    found = [conv_triton.forward(g["x"], g["w"], g["bias"], case[6], (4, 3), 1)]
    found += [d.parts for d in conv_triton.weight_gradient(g["x"], g["grad"], case[6])]
    found += [conv_triton.input_gradient(g["grad"], g["w"], g["x"], case[6], *case[9:])]
    found += [conv_triton.relu_on_grid(g["x"], g["x"], (9, 8))]
    found += [conv_triton.input_gradient(g["grad"], g["w"], g["x"], case[6], 2, (11, 11))]
    assert all(t.isfinite().all() for t in found)
