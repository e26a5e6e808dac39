"""What the agent converges to, against tabular soft policy iteration (the paper's section 3) in NumPy."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sacd import config
from sacd.agents.sac import SAC, State
from sacd.types import Batch, Spec

STATES, ACTIONS, GAMMA, DRAWS = 5, 3, 0.9, 4
SEEDS = torch.tensor([1], dtype=torch.int64)


@cache
def world(seed: int) -> tuple[NDArray, NDArray]:
    """A random MDP: rewards (S, A), and the next states (S, A, DRAWS), each of them equally likely."""
    g = np.random.default_rng(seed)
    return g.normal(size=(STATES, ACTIONS)), g.integers(STATES, size=(STATES, ACTIONS, DRAWS))


def soft_value(p: NDArray, q: NDArray, alpha: float) -> NDArray:
    """Eq. 10, for every state."""
    return (p * (q - alpha * np.log(p))).sum(-1)


def evaluate(p: NDArray, seed: int, alpha: float) -> NDArray:
    """Q of a policy (S, A): the fixed point of eq. 3, by solving its linear system for V."""
    reward, after = world(seed)
    to = np.zeros((STATES, ACTIONS, STATES))
    for i in range(DRAWS):
        np.add.at(to, (*np.indices((STATES, ACTIONS)), after[..., i]), 1 / DRAWS)
    now = soft_value(p, reward, alpha)
    value = np.linalg.solve(np.eye(STATES) - GAMMA * np.einsum("sa,sat->st", p, to), now)
    return reward + GAMMA * to @ value


def improve(q: NDArray, alpha: float) -> NDArray:
    """Eq. 5 without restriction: the policy exp(Q / alpha), normalised."""
    e = np.exp((q - q.max(-1, keepdims=True)) / alpha)
    return e / e.sum(-1, keepdims=True)


def soft_optimal(seed: int, alpha: float) -> tuple[NDArray, NDArray]:
    """Q and policy, by evaluation and improvement in turn until nothing changes."""
    p = np.full((STATES, ACTIONS), 1 / ACTIONS)
    for _ in range(200):
        q = evaluate(p, seed, alpha)
        p = improve(q, alpha)
    return q, p


def everything(seed: int) -> Batch:
    """Every state, action and draw of the next state once, states one-hot: the batch's mean is the expectation."""
    reward, after = world(seed)
    state, action, _ = np.indices(after.shape)
    hot = torch.eye(STATES)
    return Batch(
        hot[state.ravel()][None],
        torch.from_numpy(action.ravel())[None],
        torch.from_numpy(reward[..., None].repeat(DRAWS, -1).ravel()).float()[None],
        torch.full((1, after.size), GAMMA),
        hot[after.ravel()][None],
    )


def train(batch: Batch, spec: Spec, rates: tuple[float, ...], updates: int, **values) -> tuple[SAC, State, list[float]]:
    """Updates on one batch at falling learning rates; the entropies of the last hundred."""
    noise = torch.Generator().manual_seed(2)
    state, entropies = None, []
    for rate in rates:
        sac = SAC(spec, config.make("test", learning_rate=rate, tau=0.05, hidden=(48,), **values))
        state = state or sac.init(SEEDS)
        for _ in range(updates):
            u = torch.rand(batch.action.shape, generator=noise, dtype=torch.float64)
            entropies.append(sac.update(state, batch, u, 0.0).entropy.item())
            sac.move_targets(state)
    return sac, state, entropies[-100:]


def learned(sac: SAC, state: State) -> tuple[NDArray, NDArray]:
    """Both critics' Q (2, S, A) and the policy (S, A) in every state."""
    hot = torch.eye(sac.spec.frame[0])[None]
    q = sac.net(state.critics, sac.net.prepare(hot))[0]
    return q.detach().double().numpy(), sac.logits(state, hot)[0].double().softmax(-1).numpy()


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_oracle_is_soft_optimal(seed, alpha):
    """Soft policy iteration ends at the fixed point of the soft Bellman optimality operator, above any other policy."""
    q, p = soft_optimal(seed, alpha)
    reward, after = world(seed)
    value = alpha * np.log(np.exp(q / alpha).sum(-1))
    np.testing.assert_allclose(q, reward + GAMMA * value[after].mean(-1), rtol=1e-9, atol=1e-9)
    for other in np.random.default_rng(3).dirichlet(np.ones(ACTIONS), (20, STATES)):
        assert (evaluate(other, seed, alpha) < q + 1e-9).all()
    np.testing.assert_allclose(p.sum(-1), 1.0)


@pytest.mark.parametrize(
    ("seed", "alpha", "values"),
    [
        (0, 0.5, {}),
        (1, 0.2, {"update_order": "simultaneous", "actor_reduce": "mean"}),
        (2, 1.0, {"activation": "tanh"}),
    ],
)
def test_the_agent_finds_the_soft_optimum(seed, alpha, values):
    """On exact batches at a fixed temperature both critics and the policy converge to the soft-optimal ones."""
    rates = (3e-3, 1e-3, 2e-4)
    sac, state, _ = train(everything(seed), Spec((STATES,), False, 1, ACTIONS), rates, 700, alpha=str(alpha), **values)
    (q, p), (wanted_q, wanted_p) = learned(sac, state), soft_optimal(seed, alpha)
    assert np.abs(wanted_p - 1 / ACTIONS).max() > 0.1  # the answer is not what untrained networks give
    np.testing.assert_allclose(q, np.stack([wanted_q] * 2), rtol=0, atol=5e-3)
    np.testing.assert_allclose(p, wanted_p, rtol=0, atol=3e-3)


def bandit_alpha(entropy: float, gap: float) -> float:
    """The temperature at which two actions whose rewards differ by `gap` have this entropy, by bisection."""
    low, high = 1e-3, 1e3
    for _ in range(200):
        alpha = math.sqrt(low * high)
        p = 1 / (1 + math.exp(-gap / alpha))
        h = -p * math.log(p) - (1 - p) * math.log1p(-p) if p < 1 else 0.0
        low, high = (alpha, high) if h < entropy else (low, alpha)
    return alpha


@pytest.mark.parametrize("values", [{}, {"temperature_loss": "log_alpha", "alpha_init": 0.1}])
def test_a_bandit_settles_at_its_target_entropy(values):
    """Two actions with rewards 1 and 0: entropy goes to half of log 2, and alpha to the one temperature that has it."""
    batch = Batch(
        torch.ones(1, 2, 1), torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2), torch.ones(1, 2, 1)
    )
    spec, wanted = Spec((1,), False, 1, 2), 0.5 * math.log(2)
    sac, state, last = train(batch, spec, (1e-2, 3e-3, 1e-3), 400, target_entropy_ratio="0.5", **values)
    q, p = learned(sac, state)
    assert max(abs(h - wanted) for h in last) < 0.005
    assert state.log_alpha.exp().item() == pytest.approx(bandit_alpha(wanted, 1.0), rel=0.02)
    np.testing.assert_allclose(q, [[[1.0, 0.0]]] * 2, rtol=0, atol=1e-3)
    assert p[0, 0] > 0.8
