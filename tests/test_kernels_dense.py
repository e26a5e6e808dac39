"""Linear layers of many nets against torch's, net after net."""

import pytest
import torch
import torch.nn.functional as F

from sacd.kernels import HAVE_TRITON, dense

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def given() -> tuple:
    g = torch.Generator().manual_seed(1)
    return tuple(torch.randn(s, generator=g).to(DEVICE) for s in ((3, 10, 33), (3, 70, 33), (3, 70)))


@pytest.mark.parametrize(("activation", "right"), [("relu", F.relu), ("tanh", F.tanh), ("elu", F.elu), ("none", None)])
def test_forward_and_gradients(activation, right):
    """Output and slopes are those of torch's layer."""
    x, w, bias = (t.requires_grad_() for t in given())
    y = torch.stack([F.linear(x[n], w[n], bias[n]) for n in range(3)])
    y = right(y) if right else y
    slope = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    wanted = torch.autograd.grad(y, (w, bias), slope)
    with torch.no_grad():
        found = dense.forward(x, w, bias, activation, torch.float32)
        torch.testing.assert_close(found, y, rtol=1e-4, atol=1e-5)
        _, *pair = dense.gradients(slope, x, found, activation)
    for mine, theirs in zip(pair, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not HAVE_TRITON, reason="Triton is not installed")
def test_bias_and_relu():
    """The fused pass, in Triton's interpreter where there is no GPU."""
    from sacd.kernels import dense_triton

    x, w, bias = given()
    z = torch.bmm(x, w.mT)
    found = dense_triton.bias_relu(z, bias, torch.float32)
    torch.testing.assert_close(found, (z + bias[:, None]).relu())
