"""The objectives against tables worked by hand, a NumPy reference from the equations, and two kinds of slope."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sacd import losses

SHAPES = [(), (1,), (5,), (3, 4), (2, 3, 5)]
HALF_QUARTERS = [0.5, 0.25, 0.25]  # H = 1.5 log 2
LOG2 = math.log(2.0)


def draw(*shape: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    """Normal float64 numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def log_of(probabilities: list[float]) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def number(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def np_policy(logits: np.ndarray) -> np.ndarray:
    """pi(s): the softmax of the policy network's last layer (change ii)."""
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def slopes_by_difference(f, x: Tensor, h: float = 1e-5) -> Tensor:
    """df/dx by central differences, one number of x at a time; f gives (…), summed."""
    found = torch.empty_like(x)
    for i in range(x.numel()):
        step = torch.zeros(x.numel(), dtype=x.dtype)
        step[i] = h
        found.view(-1)[i] = (f(x + step.view_as(x)).sum() - f(x - step.view_as(x)).sum()) / (2 * h)
    return found


def slopes_by_autograd(f, x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(f(leaf).sum(), leaf)[0]


def test_log_policy_by_hand():
    """Logits log 2, 0, 0 are the probabilities 1/2, 1/4, 1/4, whatever constant is added."""
    logits = torch.tensor([LOG2, 0.0, 0.0], dtype=torch.float64) + 3.0
    torch.testing.assert_close(losses.log_policy(logits), log_of(HALF_QUARTERS))


@pytest.mark.parametrize(
    ("probabilities", "wanted"),
    [([0.5, 0.5], LOG2), (HALF_QUARTERS, 1.5 * LOG2), ([0.125] * 8, 3 * LOG2), ([0.25, 0.75], 0.5623351446188083)],
)
def test_entropy_by_hand(probabilities, wanted):
    """Entropies in nats that a person can work out."""
    assert losses.entropy(log_of(probabilities)).item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("q", "alpha", "wanted"),
    [
        ([4.0, 8.0, -4.0], 2.0, 3.0 + 3.0 * LOG2),  # 4/2 + 8/4 - 4/4, and 2 x 1.5 log 2
        ([4.0, 8.0, -4.0], 0.0, 3.0),
        ([0.0, 0.0, 4.0], 1.0, 1.0 + 1.5 * LOG2),
    ],
)
def test_soft_value_and_policy_loss_by_hand(q, alpha, wanted):
    """Eq. 10 on three actions, and eq. 12 is its negative."""
    log_pi, q = log_of(HALF_QUARTERS), torch.tensor(q, dtype=torch.float64)
    assert losses.soft_value(log_pi, q, number(alpha)).item() == pytest.approx(wanted, abs=1e-12)
    assert losses.policy_loss(log_pi, q, number(alpha))[0].item() == pytest.approx(-wanted, abs=1e-12)


def test_policy_slope_by_hand():
    """With alpha = 0 the slope is pi (V - Q): for pi = 1/2, 1/4, 1/4 and Q = 4, 8, -4 (V = 3)."""
    q = torch.tensor([4.0, 8.0, -4.0], dtype=torch.float64)
    slope = losses.policy_loss(log_of(HALF_QUARTERS), q, number(0.0))[1]
    torch.testing.assert_close(slope, torch.tensor([-0.5, -1.25, 1.75], dtype=torch.float64))


@pytest.mark.parametrize(("action", "wanted"), [(0, 1.0 + 2.0 * LOG2), (1, 5.0 + 4.0 * LOG2), (2, -3.0 + 4.0 * LOG2)])
def test_sampled_soft_value_by_hand(action, wanted):
    """Eq. 2 at one action: Q = 1, 5, -3 with alpha = 2."""
    q = torch.tensor([1.0, 5.0, -3.0], dtype=torch.float64)
    value = losses.sampled_soft_value(log_of(HALF_QUARTERS), q, number(2.0), torch.tensor(action))
    assert value.item() == pytest.approx(wanted, abs=1e-12)


def test_target_and_td_loss_by_hand():
    """Target 1 + 0.9 x 10 = 10; a terminal state's is its reward; squared errors 4 and 9 with slopes -4 and 6."""
    target = losses.soft_target(torch.tensor([1.0, -2.0]), torch.tensor([0.9, 0.0]), torch.tensor([10.0, 99.0]))
    assert target.tolist() == pytest.approx([10.0, -2.0])
    q = torch.tensor([[8.0, 7.0], [5.0, 1.0]])
    loss, slope = losses.td_loss(q, torch.tensor([0, 1]), target)
    assert loss.tolist() == [4.0, 9.0]
    assert slope.tolist() == [[-4.0, 0.0], [0.0, 6.0]]


def test_temperature_loss_by_hand():
    """Eq. 11: alpha (H - target) for alpha = 2, H = 1.5, target 1."""
    assert losses.temperature_loss(number(2.0), number(1.5), 1.0).item() == 1.0


@pytest.mark.parametrize("entropy", [0.2, 1.9])
def test_temperature_gradient_has_the_right_sign(entropy):
    """Descent raises alpha exactly when the entropy is below its target."""
    slope = slopes_by_autograd(lambda a: losses.temperature_loss(a, number(entropy), 1.0), number(0.7))
    assert slope.item() == pytest.approx(entropy - 1.0)
    assert (slope < 0) == (entropy < 1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("actions", [2, 3, 18])
def test_all_losses_against_numpy(shape, actions):
    """Equations 2, 3, 4, 10, 11 and 12, written out in NumPy, on random inputs of every leading shape."""
    logits, q = draw(*shape, actions, seed=1), draw(*shape, actions, seed=2, scale=5.0)
    alpha, reward = draw(*shape, 1, seed=3).exp(), draw(*shape, seed=4)
    action = torch.randint(actions, shape, generator=torch.Generator().manual_seed(5))
    p, n_q, n_alpha = np_policy(logits.numpy()), q.numpy(), alpha.numpy()
    taken = action.numpy()[..., None]

    log_pi = losses.log_policy(logits)
    np.testing.assert_allclose(log_pi.exp().numpy(), p, rtol=1e-12)
    entropy = -np.sum(p * np.log(p), -1)
    np.testing.assert_allclose(losses.entropy(log_pi).numpy(), entropy, rtol=1e-12)
    value = np.einsum("...a,...a->...", p, n_q - n_alpha * np.log(p))
    np.testing.assert_allclose(losses.soft_value(log_pi, q, alpha).numpy(), value, rtol=1e-11, atol=1e-12)
    at_one = np.take_along_axis(n_q - n_alpha * np.log(p), taken, -1)[..., 0]
    sampled = losses.sampled_soft_value(log_pi, q, alpha, action)
    np.testing.assert_allclose(sampled.numpy(), at_one, rtol=1e-11, atol=1e-12)
    target = losses.soft_target(reward, torch.full(shape, 0.99, dtype=torch.float64), torch.from_numpy(np.array(value)))
    np.testing.assert_allclose(target.numpy(), reward.numpy() + 0.99 * value, rtol=1e-12)
    error = np.take_along_axis(n_q, taken, -1)[..., 0] - target.numpy()
    np.testing.assert_allclose(losses.td_loss(q, action, target)[0].numpy(), error**2, rtol=1e-11)
    policy = np.sum(p * (n_alpha * np.log(p) - n_q), -1)
    np.testing.assert_allclose(losses.policy_loss(log_pi, q, alpha)[0].numpy(), policy, rtol=1e-11, atol=1e-12)
    eq11 = np.sum(p * (-n_alpha * (np.log(p) + 0.5)), -1)
    found = losses.temperature_loss(alpha.squeeze(-1), losses.entropy(log_pi), 0.5)
    np.testing.assert_allclose(found.numpy(), eq11, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_td_slope(shape):
    """The slope in Q is that of finite differences and of autograd, and 0 at the actions not taken."""
    q, target = draw(*shape, 4, seed=6), draw(*shape, seed=7)
    action = torch.randint(4, shape, generator=torch.Generator().manual_seed(8))

    def loss(x: Tensor) -> Tensor:
        return losses.td_loss(x, action, target)[0]

    slope = losses.td_loss(q, action, target)[1]
    torch.testing.assert_close(slope, slopes_by_autograd(loss, q), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(slope, slopes_by_difference(loss, q), rtol=1e-7, atol=1e-7)
    assert ((slope != 0).sum(-1) == 1).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_policy_slope(shape, masked):
    """The slope in the logits is that of finite differences and of autograd, with and without a mask."""
    logits, q, alpha = draw(*shape, 4, seed=9), draw(*shape, 4, seed=10), draw(*shape, 1, seed=11).exp()
    mask = torch.tensor([True, False, True, True]).expand(*shape, 4) if masked else None

    def loss(x: Tensor) -> Tensor:
        return losses.policy_loss(losses.log_policy(x, mask), q, alpha)[0]

    slope = losses.policy_loss(losses.log_policy(logits, mask), q, alpha)[1]
    torch.testing.assert_close(slope, slopes_by_autograd(loss, logits), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(slope, slopes_by_difference(loss, logits), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(slope.sum(-1), torch.zeros(shape, dtype=torch.float64), rtol=0, atol=1e-12)


def test_small_alpha_is_expected_sarsa():
    """As alpha goes to 0, V goes to the policy's mean of Q, linearly with slope H."""
    log_pi, q = losses.log_policy(draw(6, 5, seed=12)), draw(6, 5, seed=13)
    mean = (log_pi.exp() * q).sum(-1)
    assert torch.equal(losses.soft_value(log_pi, q, number(0.0)), mean)
    gap = losses.soft_value(log_pi, q, number(1e-6)) - mean
    torch.testing.assert_close(gap, 1e-6 * losses.entropy(log_pi), rtol=1e-6, atol=1e-15)


def test_uniform_policy():
    """Equal logits give V = mean Q + alpha log A."""
    q = draw(7, 6, seed=14)
    value = losses.soft_value(losses.log_policy(torch.full((7, 6), 2.5, dtype=torch.float64)), q, number(0.3))
    torch.testing.assert_close(value, q.mean(-1) + 0.3 * math.log(6))


def test_boltzmann_policy_is_the_minimum():
    """At pi = softmax(Q / alpha) the slope is 0 and V is alpha log sum exp (Q / alpha)."""
    q, alpha = draw(4, 5, seed=15), number(0.6)
    log_pi = losses.log_policy(q / alpha)
    loss, slope = losses.policy_loss(log_pi, q, alpha)
    torch.testing.assert_close(-loss, alpha * torch.logsumexp(q / alpha, -1))
    assert slope.abs().max() < 1e-12
    worse = losses.policy_loss(losses.log_policy(q / alpha + draw(4, 5, seed=16)), q, alpha)[0]
    assert (worse > loss + 1e-3).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_entropy_bounds(scale):
    """0 <= H <= log A, in float32 too."""
    h = losses.entropy(losses.log_policy(draw(500, 6, seed=17, scale=scale).float()))
    assert (h >= 0).all()
    assert (h <= math.log(6) + 1e-6).all()


@pytest.mark.parametrize("mask", [None, [True, True, False, True], [False, True, False, False]])
@pytest.mark.parametrize("logits", [[1e4, -1e4, 0.5, 1e4], [-1e4, -1e4, 1e4, -1e4], [1e4, 2.0, 1e4, 1e4]])
def test_extreme_logits_and_masks_stay_finite(logits, mask):
    """Logits of 1e4 and masked actions: all values and slopes are finite; a masked action has probability 0."""
    x, q = torch.tensor(logits), torch.tensor([3.0, -7.0, 50.0, 1.0])
    allowed = None if mask is None else torch.tensor(mask)
    log_pi = losses.log_policy(x, allowed)
    loss, slope = losses.policy_loss(log_pi, q, torch.tensor(400.0))
    value = losses.soft_value(log_pi, q, torch.tensor(400.0))
    for found in (log_pi, loss, slope, value, losses.entropy(log_pi)):
        assert found.isfinite().all()
    assert log_pi.exp().sum().item() == pytest.approx(1.0, abs=1e-6)
    if allowed is not None:
        assert (log_pi.exp()[~allowed] == 0).all()
        assert (slope[~allowed] == 0).all()
        if allowed.sum() == 1:
            assert losses.entropy(log_pi) == 0
            assert value == q[allowed]


def test_mask_renormalises():
    """Masking is the softmax over the allowed actions alone."""
    logits = draw(5, 4, seed=18)
    keep = torch.tensor([True, False, True, True])
    torch.testing.assert_close(losses.log_policy(logits, keep)[:, keep], torch.log_softmax(logits[:, keep], -1))
