"""Adam's step with copies against torch.optim.Adam."""

import pytest
import torch

from sacd.kernels import adam, conv

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # Triton's interpreter cuts bfloat16 off


def parts(seed: int = 1) -> list[tuple]:
    g = torch.Generator().manual_seed(seed)
    values = [torch.randn(n, generator=g).to(DEVICE) for n in (3, 1500, 40)]
    copies = [torch.full_like(values[0], 9.0, dtype=HALF), values[1].to(HALF), None]
    return [(v, torch.zeros_like(v), torch.zeros_like(v), c) for v, c in zip(values, copies, strict=True)]


def check(step) -> None:
    """Five steps with fresh gradients: values as torch's, copies their rounding."""
    mine, count, g = parts(), torch.zeros((), device=DEVICE), torch.Generator().manual_seed(2)
    theirs = [v.clone() for v, *_ in mine]
    reference = torch.optim.Adam(theirs, lr=0.01, eps=1e-3)
    for _ in range(5):
        gradients = [torch.randn(v.shape, generator=g).to(DEVICE) for v in theirs]
        count += 1
        step(mine, gradients, count)
        for t, grad in zip(theirs, gradients, strict=True):
            t.grad = grad
        reference.step()
        for (value, _, _, copy), right in zip(mine, theirs, strict=True):
            torch.testing.assert_close(value, right)
            assert copy is None or torch.equal(copy, value.to(HALF))


def test_step():
    """The step of this device."""
    check(lambda mine, gradients, count: adam.step(mine, gradients, count, 0.01, 1e-3, (0.9, 0.999)))


@pytest.mark.skipif(not conv.HAVE_TRITON, reason="Triton is not installed")
def test_triton_step():
    """The kernel that writes copies along, in Triton's interpreter where there is no GPU."""
    from sacd.kernels import adam_triton

    def step(mine, gradients, count):
        t = count.double()
        unbias = torch.stack([1 / (1 - 0.9**t), (1 - 0.999**t).rsqrt()]).float()
        for (value, first, second, copy), grad in zip(mine, gradients, strict=True):
            follows = torch.empty_like(value) if copy is None else copy
            adam_triton.step(value, first, second, follows, grad, unbias, 0.01, 1e-3, (0.9, 0.999))

    check(step)
