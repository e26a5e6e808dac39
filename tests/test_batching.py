"""Runs in a fleet are the runs alone, bit for bit, and cannot reach one another."""

import pytest
import torch
from torch import Tensor

from sacd import config
from sacd.agents.sac import SAC, State
from sacd.kernels import cpu
from sacd.types import Batch, Spec

VECTOR = Spec((7,), False, 1, 5)  # odd sizes throughout: a run's slice then starts at no round address
PLAIN = Spec((6,), False, 1, 4)
IMAGE = Spec((36, 36), True, 2, 3)
SEEDS = torch.tensor([5, 0, 2**31], dtype=torch.int64)
STEPS, SIZE = 4, 3
CASES = [
    (VECTOR, "fp32", "sequential", 1.0),
    (VECTOR, "fp32", "simultaneous", 0.05),
    (VECTOR, "bf16", "sequential", 0.05),
    (VECTOR, "bf16", "simultaneous", 1.0),
    (IMAGE, "fp32", "sequential", 0.05),
    (IMAGE, "fp32", "simultaneous", 1.0),
    (IMAGE, "bf16", "sequential", 1.0),
    (IMAGE, "bf16", "simultaneous", 0.05),
]


def agent(spec: Spec, precision: str, order: str, tau: float, **values) -> SAC:
    values = {"hidden": (33, 19), "learning_rate": 1e-2, "target_value": "sampled"} | values
    return SAC(spec, config.make("test", precision=precision, update_order=order, tau=tau, **values))


def some_observations(spec: Spec, generator: torch.Generator, count: int) -> Tensor:
    if spec.image:
        return torch.randint(1, 256, (len(SEEDS), count, *spec.obs), generator=generator, dtype=torch.uint8)
    return torch.randn(len(SEEDS), count, *spec.obs, generator=generator)


def batches(spec: Spec, size: int = SIZE) -> list[tuple[Batch, Tensor]]:
    """Given batches of all runs, and their noise."""
    g, shape, found = torch.Generator().manual_seed(4), (len(SEEDS), size), []
    for _ in range(STEPS):
        batch = Batch(
            some_observations(spec, g, size),
            torch.randint(spec.actions, shape, generator=g),
            torch.randn(shape, generator=g),
            torch.rand(shape, generator=g),
            some_observations(spec, g, size),
        )
        found.append((batch, torch.rand(shape, generator=g, dtype=torch.float64)))
    return found


def only(t: Tensor, r: int) -> Tensor:
    """Run r's slice in memory of its own, as if there had been no other run: kernels may notice where numbers lie."""
    return t[r : r + 1].clone()


def of_run(batch: Batch, r: int) -> Batch:
    return Batch(**{name: only(t, r) for name, t in vars(batch).items()})


def learn(sac: SAC, state: State, given: list[tuple[Batch, Tensor]]) -> list[dict[str, Tensor]]:
    """Updates with a move of the targets after every second one; what each left for the log."""
    outs = []
    for i, (batch, u) in enumerate(given):
        out = sac.update(state, batch, u, i / len(given))
        outs.append(vars(out) | out.metrics())
        if i % 2:
            sac.move_targets(state)
    return outs


def check_run(r: int, together: dict[str, Tensor], alone: dict[str, Tensor]) -> None:
    assert list(together) == list(alone)
    for name, t in together.items():
        assert torch.equal(t[r : r + 1], alone[name]), name


@pytest.mark.parametrize(("spec", "precision", "order", "tau"), CASES)
def test_a_fleet_is_its_runs(spec, precision, order, tau):
    """Three runs updated together have the weights, moments, temperatures and logs of three agents, to the bit."""
    check_fleet(agent(spec, precision, order, tau), batches(spec))


@pytest.mark.parametrize("hidden", [(256, 256), (257, 190)])
def test_a_fleet_of_usual_size_is_its_runs(hidden):
    """The same with products so large that they go another way (cpu.LARGE)."""
    sac, size = agent(VECTOR, "fp32", "sequential", 0.05, hidden=hidden), 64
    assert size * hidden[0] * hidden[1] > cpu.LARGE
    check_fleet(sac, batches(VECTOR, size))


def check_fleet(sac: SAC, given: list[tuple[Batch, Tensor]]) -> None:
    fleet = sac.init(SEEDS)
    before = {k: t.clone() for k, t in fleet.tensors().items()}
    outs = learn(sac, fleet, given)
    for r in range(len(SEEDS)):
        state = sac.init(SEEDS[r : r + 1])
        check_run(r, before, state.tensors())
        outs_alone = learn(sac, state, [(of_run(batch, r), only(u, r)) for batch, u in given])
        check_run(r, fleet.tensors(), state.tensors())
        for mine, theirs in zip(outs, outs_alone, strict=True):
            check_run(r, mine, theirs)
    for name, t in fleet.tensors().items():  # it did learn, every run its own way
        assert t.isfinite().all()
        assert all(not torch.equal(t[r], before[name][r]) for r in range(3)), name
        assert not torch.equal(t[0], t[1]), name


@pytest.mark.parametrize("lanes", [1, 3, 200])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("spec", "hidden"), [(VECTOR, (33, 19)), (PLAIN, (256, 256)), (IMAGE, (1,))])
def test_acting_together_is_acting_alone(spec, hidden, precision, lanes):
    """Logits and drawn actions of a run do not depend on the other runs, for one lane and for many."""
    sac, g = agent(spec, precision, "sequential", 1.0, hidden=hidden), torch.Generator().manual_seed(6)
    obs = some_observations(spec, g, lanes)
    u = torch.rand(len(SEEDS), lanes, generator=g, dtype=torch.float64)
    fleet = sac.init(SEEDS)
    actions, logits = sac.act(fleet, obs, u), sac.logits(fleet, obs)
    assert actions.shape == (3, lanes)
    for r in range(3):
        state = sac.init(SEEDS[r : r + 1])
        assert torch.equal(only(logits, r), sac.logits(state, only(obs, r)))
        assert torch.equal(only(actions, r), sac.act(state, only(obs, r), only(u, r)))
    assert lanes < 200 or all(actions[r].unique().numel() > 1 for r in range(3))


@pytest.mark.parametrize("target", ["exact", "sampled"])
@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize(("spec", "precision"), [(VECTOR, "fp32"), (VECTOR, "bf16"), (IMAGE, "bf16")])
def test_a_poisoned_run_stays_alone(spec, precision, bad, target):
    """NaN rewards, and NaN observations where they can be, change no bit of the other runs."""
    sac, given = agent(spec, precision, "sequential", 0.5, target_value=target), batches(spec)
    clean, dirty = sac.init(SEEDS), sac.init(SEEDS)
    learn(sac, clean, given)
    for batch, _ in given:
        batch.reward[bad] = float("nan")
        if not spec.image:
            batch.obs[bad] = float("nan")
            batch.next_obs[bad] = float("nan")
    learn(sac, dirty, given)
    others = [r for r in range(3) if r != bad]
    for name, t in dirty.tensors().items():
        assert torch.equal(t[others], clean.tensors()[name][others]), name
        if name.startswith("critics"):
            assert not t[bad].isfinite().all(), name


@pytest.mark.parametrize("spec", [VECTOR, IMAGE])
def test_two_equal_runs_are_equal(spec):
    """The same seed and batch twice in one fleet give the same bits twice, wherever the run lies in the stack."""
    sac = agent(spec, "fp32", "sequential", 0.5)
    state = sac.init(SEEDS[[1, 0, 1]])
    given = [(Batch(**{k: t[[1, 0, 1]] for k, t in vars(b).items()}), u[[1, 0, 1]]) for b, u in batches(spec)]
    learn(sac, state, given)
    for name, t in state.tensors().items():
        assert torch.equal(t[0], t[2]), name
        assert not torch.equal(t[0], t[1]), name
