"""Draws by inverse transform, the mode, and uniform actions."""

import pytest
import torch
from torch import Tensor

from sacd import heads

LAST = 1.0 - 2.0**-53  # the largest uniform that rng.uniform gives


def grid(count: int) -> Tensor:
    """The midpoints of `count` equal parts of [0, 1)."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def logits_of(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities).log()


def draws(logits: Tensor, u: Tensor, mask: Tensor | None = None) -> Tensor:
    """One action for each u from the same logits."""
    return heads.sample(logits.expand(*u.shape, -1), u, mask)


@pytest.mark.parametrize("probabilities", [(0.5, 0.25, 0.25), (0.9, 0.1), (0.01, 0.19, 0.3, 0.5), (1 / 18,) * 18])
def test_frequencies_are_the_probabilities(probabilities):
    """On an even grid of uniforms every action is drawn in proportion: chi-square far below chance level."""
    count = 9000
    found = torch.bincount(draws(logits_of(*probabilities) + 7.0, grid(count)), minlength=len(probabilities))
    wanted = torch.tensor(probabilities, dtype=torch.float64) * count
    assert len(found) == len(probabilities)
    assert ((found - wanted) ** 2 / wanted).sum() < 0.1  # random draws would give about A - 1
    assert (found - wanted).abs().max() <= 1.0


def test_random_uniforms_pass_a_chi_square_test():
    """With independent uniforms the chi-square statistic stays below its 1e-6 level for 5 degrees of freedom."""
    p = torch.softmax(torch.tensor([0.3, -1.0, 1.2, 0.0, -0.4, 0.8], dtype=torch.float64), -1)
    u = torch.rand(60_000, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = torch.bincount(draws(p.log(), u), minlength=6)
    assert ((found - 60_000 * p) ** 2 / (60_000 * p)).sum() < 36.0


def test_inverse_transform_by_hand():
    """Cumulated 0.25, 0.75, 1: the action changes exactly there."""
    u = torch.tensor([0.0, 0.2499, 0.2501, 0.7499, 0.7501, LAST], dtype=torch.float64)
    assert draws(logits_of(0.25, 0.5, 0.25), u).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ends_of_the_interval(dtype):
    """u = 0 gives the first possible action and the largest u the last, for thousands of random policies."""
    logits = torch.randn(20_000, 7, generator=torch.Generator().manual_seed(4)).to(dtype)
    assert (heads.sample(logits, torch.zeros(20_000, dtype=torch.float64)) == 0).all()
    assert (heads.sample(logits, torch.full((20_000,), LAST, dtype=torch.float64)) == 6).all()


@pytest.mark.parametrize("u", [0.0, 0.3, 0.999, LAST])
def test_masked_actions_are_never_drawn(u):
    """Whatever u, and wherever the mask, the action is an allowed one; with one allowed it is that one."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(5000, 6, generator=generator) * 5
    mask = torch.rand(5000, 6, generator=generator) < 0.4
    mask[torch.arange(5000), torch.randint(6, (5000,), generator=generator)] = True
    action = heads.sample(logits, torch.full((5000,), u, dtype=torch.float64), mask)
    assert mask.gather(1, action[:, None]).all()
    assert mask.gather(1, heads.greedy(logits, mask)[:, None]).all()
    single = mask.sum(-1) == 1
    assert single.sum() > 100
    assert torch.equal(action[single], mask[single].int().argmax(-1))


@pytest.mark.parametrize("logits", [[-1e4, 0.0, -1e4], [-1e4, 0.7, 0.7], [0.7, 0.7, -1e4]])
def test_probability_zero_is_never_drawn(logits):
    """An action whose probability underflows to 0 is not drawn at either end of the interval."""
    u = torch.cat([torch.tensor([0.0, LAST], dtype=torch.float64), grid(100)])
    taken = draws(torch.tensor(logits), u)
    assert (torch.tensor(logits)[taken] > -1).all()


def test_greedy_takes_the_first_of_equals():
    """The mode; among equals the lowest index; masked actions do not count."""
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-1.0, -2.0, -3.0, 0.0]])
    assert heads.greedy(logits).tolist() == [1, 0, 3]
    assert heads.greedy(logits, torch.tensor([True, False, True, False])).tolist() == [2, 0, 0]


@pytest.mark.parametrize("actions", [1, 2, 3, 6, 7, 18])
def test_uniform_covers_all_actions_evenly(actions):
    """On an even grid each action comes up equally often, and the ends are the first and last action."""
    taken = heads.uniform(grid(actions * 50), actions)
    assert taken.dtype == torch.int64
    assert torch.bincount(taken, minlength=actions).tolist() == [50] * actions
    assert heads.uniform(torch.tensor([0.0, LAST], dtype=torch.float64), actions).tolist() == [0, actions - 1]


def test_leading_shapes_are_kept():
    """Each place of (R, E) gets its own draw."""
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(6))
    u = torch.rand(3, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    together = heads.sample(logits, u)
    assert together.shape == (3, 4)
    alone = [[int(heads.sample(logits[r, e], u[r, e])) for e in range(4)] for r in range(3)]
    assert together.tolist() == alone
    assert heads.greedy(logits).shape == (3, 4)
