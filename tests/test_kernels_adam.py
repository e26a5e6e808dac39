"""Adam's step from sums, products and reordered gradients, with copies that follow, against torch.optim.Adam."""

import pytest
import torch
from torch import Tensor

from sacd.kernels import adam, conv
from sacd.kernels.gradient import Follower, Gradient, Part, Product, Summed

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # Triton's interpreter cuts bfloat16 off
NETS, ROWS, RATE, EPS, BETAS = 2, 37, 0.01, 1e-3, (0.9, 0.999)


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator).to(DEVICE)


def parts(g: torch.Generator) -> list[Part]:
    """No copy; one in order; one in another order and scale; one that a product steps, of awkward sizes."""
    shapes = [(NETS, 3), (NETS, 1500), (NETS, 4, 5, 2, 5), (NETS, 70, 130)]
    values = [draw(g, *shape) for shape in shapes]
    moments = [[torch.zeros_like(v) for v in values] for _ in range(2)]
    place = torch.randperm(50, generator=g).int().to(DEVICE)
    copies = [torch.full((NETS, v[0].numel()), 9.0, dtype=HALF, device=DEVICE) for v in values]
    followers = [
        None,
        Follower(copies[1], None),
        Follower(copies[2], place, 0.3),
        Follower(copies[3], None),
    ]
    return list(zip(values, *moments, followers, strict=True))


def gradients(g: torch.Generator) -> list[Gradient]:
    """Fresh ones: whole, in three parts, in the copy's order, as a product."""
    left, right = (draw(g, NETS, ROWS, n).to(HALF) for n in (70, 130))
    return [draw(g, NETS, 3), Summed(draw(g, 3, NETS, 1500)), draw(g, NETS, 50, 4), Product(left, right)]


def check(step) -> None:
    """Five steps: values as torch's, copies their rounding."""
    g = torch.Generator().manual_seed(2)
    mine, count = parts(g), torch.zeros((), device=DEVICE)
    theirs = [value.clone() for value, *_ in mine]
    reference = torch.optim.Adam(theirs, lr=RATE, eps=EPS)
    for _ in range(5):
        slopes = gradients(g)
        count += 1
        step(mine, slopes, count)
        whole, summed, moved, product = slopes
        place = mine[2][3].place
        right = [
            whole, summed.parts.sum(0), moved[:, place].mT * 0.3,
            torch.einsum("nbo,nbi->noi", product.left.float(), product.right.float()),
        ]  # fmt: skip
        for t, grad in zip(theirs, right, strict=True):
            t.grad = grad.reshape(t.shape)
        reference.step()
        for (value, _, _, follower), wanted in zip(mine, theirs, strict=True):
            torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-5)
            if follower is not None:
                followed = (
                    follower.tensor.view(NETS, -1, 4)[:, place].mT if follower.place is not None else follower.tensor
                )
                assert torch.equal(followed.flatten(1), (value.flatten(1) * follower.scale).to(HALF))


def test_step():
    """The step of this device."""
    check(lambda mine, slopes, count: adam.step(mine, slopes, count, RATE, EPS, BETAS))


@pytest.mark.skipif(not conv.HAVE_TRITON, reason="Triton is not installed")
def test_triton_step():
    """The kernels, in Triton's interpreter where there is no GPU."""
    from sacd.kernels import adam_triton

    def step(mine, slopes, count):
        table = adam.corrections(BETAS, count.device)
        for part, slope in zip(mine, slopes, strict=True):
            adam_triton.step(part, slope, count, table, RATE, EPS, BETAS)

    check(step)


def test_corrections():
    """1 / (1 - beta^t) of float64, and 1 when that is all float32 can tell."""
    table = adam.corrections(BETAS, torch.device("cpu"))
    for t in (1, 2, 100, 19_999):
        right = torch.tensor([1 / (1 - 0.9**t), (1 - 0.999**t) ** -0.5])
        torch.testing.assert_close(table[t], right, rtol=1e-6, atol=0)
    assert table[-1].tolist() == [1, 1]
