"""A fleet whose runs have different numbers of actions: each run learns as it would alone, to rounding."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sacd import config
from sacd.agents.sac import SAC, State
from sacd.batched import batched
from sacd.types import Batch, Spec

COUNTS, SEEDS, SIZE, STEPS = (3, 6, 1, 18), torch.tensor([5, 9, 2, 7]), 16, 4
SPEC = Spec((7,), False, 1, max(COUNTS))
VARIANTS = [
    {},
    {
        "target_value": "sampled",
        "actor_reduce": "mean",
        "update_order": "simultaneous",
        "temperature_loss": "log_alpha",
    },
    {"alpha": "0.3", "tie_init": True},
    {"target_entropy": "0.5"},
]


def agent(actions: tuple[int, ...], together: bool, **values) -> SAC:
    """One whose layers are batched products, or computed net by net."""
    spec = replace(SPEC, actions=max(actions))
    made = SAC(spec, config.make("test", hidden=(24,), learning_rate=1e-2, **values), actions=actions)
    if together:
        made.net = batched(made.net, spec.frame)
    return made


def given() -> list[tuple[Batch, Tensor]]:
    """Batches of all runs; each takes only actions that it has."""
    g, found = torch.Generator().manual_seed(0), []
    for _ in range(STEPS):
        u = torch.rand(len(COUNTS), SIZE, generator=g, dtype=torch.float64)
        action = (torch.rand(len(COUNTS), SIZE, generator=g) * torch.tensor(COUNTS)[:, None]).long()
        obs, after = (torch.randn(len(COUNTS), SIZE, 7, generator=g) for _ in range(2))
        reward = torch.randn(len(COUNTS), SIZE, generator=g)
        found.append((Batch(obs, action, reward, torch.full_like(reward, 0.9), after), u))
    return found


def learn(made: SAC, seeds: Tensor, pick: Callable[[Tensor], Tensor]) -> tuple[State, dict[str, Tensor]]:
    """The state after a few updates, and the last numbers for the log."""
    state = made.init(seeds)
    for i, (batch, u) in enumerate(given()):
        out = made.update(state, Batch(*(pick(t) for t in vars(batch).values())), pick(u), i / STEPS)
        made.move_targets(state)
    return state, out.metrics()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("values", VARIANTS)
def test_each_run_is_as_alone(values, together):
    """Weights, moments, temperature, metrics and actions of every run are those of the run by itself."""
    made = agent(COUNTS, together, **values)
    fleet, metrics = learn(made, SEEDS, lambda t: t)
    u = torch.rand(len(COUNTS), 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    obs = torch.randn(len(COUNTS), 50, 7, generator=torch.Generator().manual_seed(2))
    acted, explored = made.act(fleet, obs, u), made.explore(u)
    for r, count in enumerate(COUNTS):
        alone = agent((count,), together, **values)
        state, found = learn(alone, SEEDS[r : r + 1], lambda t, r=r: t[r : r + 1])
        ours, theirs = fleet.share(r), state.share(0)
        assert ours.keys() == theirs.keys()
        for name in ours:
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5, msg=name)
        for name in found:
            torch.testing.assert_close(metrics[name][r], found[name][0], rtol=1e-3, atol=1e-5, msg=name)
        assert torch.equal(acted[r], alone.act(state, obs[r : r + 1], u[r : r + 1])[0])
        assert torch.equal(explored[r], alone.explore(u[r : r + 1])[0])
        assert max(acted[r].max(), explored[r].max()) < count


def test_what_a_run_does_not_have_stays_zero():
    """Rows beyond a run's actions are zero at first and after learning, in weights and moments."""
    made = agent(COUNTS, True)
    fleet, _ = learn(made, SEEDS, lambda t: t)
    last = len(made.net.layers) - 1
    rows = [t for k, t in fleet.tensors().items() if k.endswith((f".{last}.weight", f".{last}.bias"))]
    assert rows
    for t in rows:
        for r, count in enumerate(COUNTS):
            assert not t[r, :, count:].any()
            assert t[r, :, :count].any() or count == 1
