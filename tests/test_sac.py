"""Gradient steps against an independent float64 agent, and what surrounds them."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from reference import Reference
from sacd import config, heads
from sacd.agents.sac import SAC, State
from sacd.errors import UsageError
from sacd.types import Batch, Spec

VECTOR = Spec((6,), False, 1, 4)
IMAGE = Spec((40, 37), True, 2, 3)
SEEDS = torch.tensor([7], dtype=torch.int64)
SIZE, RATE, TAU = 16, 3e-3, 0.3
# eps far above float32's rounding of a gradient: Adam's first steps are signs, and a sign of rounding is nobody's
PLAIN = {"learning_rate": RATE, "adam_eps": 1e-3, "hidden": (32, 24), "activation": "tanh", "alpha_init": 0.5}
AUTHOR = {
    "update_order": "simultaneous",
    "target_value": "sampled",
    "temperature_loss": "log_alpha",
    "actor_reduce": "mean",
    "tie_init": True,
}
CASES = [
    {},
    AUTHOR,
    {"update_order": "simultaneous"},
    {"target_value": "sampled"},
    {"actor_reduce": "mean"},
    {"temperature_loss": "log_alpha"},
    {"alpha": "0.2"},
    {"alpha": "linear(2, 0.1)"},
    {"alpha_min": 0.4995, "target_entropy_ratio": "0.1"},
    {"alpha_max": 0.5005, "target_entropy": "1.38"},
    {"target_entropy": "linear(1.2, 0.2)"},
    {"tau": TAU},
    {"activation": "relu", "tau": TAU} | AUTHOR,
]


def make(spec: Spec = VECTOR, **values) -> tuple[SAC, State]:
    sac = SAC(spec, config.make("test", **PLAIN | values))
    return sac, sac.init(SEEDS)


def batches(spec: Spec, count: int) -> list[tuple[Batch, Tensor]]:
    """Given transitions and noise; every fourth is terminal."""
    g, shape, found = torch.Generator().manual_seed(11), (1, SIZE), []

    def observe() -> Tensor:
        if spec.image:
            return torch.randint(1, 256, (*shape, *spec.obs), generator=g, dtype=torch.uint8)
        return torch.randn(*shape, *spec.obs, generator=g)

    for _ in range(count):
        discount = torch.full(shape, 0.97)
        discount[:, ::4] = 0
        action, reward = torch.randint(spec.actions, shape, generator=g), torch.randn(shape, generator=g) * 2
        batch = Batch(observe(), action, reward, discount, observe())
        found.append((batch, torch.rand(shape, generator=g, dtype=torch.float64)))
    return found


def check(sac: SAC, state: State, count: int, tolerance: float) -> None:
    """Updates side by side with a move of the targets after each third; all weights, log alpha and logs agree."""
    reference, first = Reference(sac, state), {k: t.clone() for k, t in state.tensors().items()}
    for i, (batch, u) in enumerate(batches(sac.spec, count)):
        out = sac.update(state, batch, u, i / count)
        logged = {k: float(v) for k, v in out.metrics().items()}
        wanted = reference.step(batch, u, i / count)
        found = [logged[k] for k in ("critic_loss", "actor_loss", "entropy", "alpha")]
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)
        if i % 3 == 2:
            sac.move_targets(state)
            reference.move_targets()
    assert state.updates == count
    for part, nets in reference.tensors().items():
        for copy, weights in enumerate(nets):
            for (name, t), wanted in zip(getattr(state, part).tensors.items(), weights, strict=True):
                assert (t[0, copy] - first[f"{part}.{name}"][0, copy]).abs().max() > 5 * tolerance
                torch.testing.assert_close(t[0, copy].double(), wanted.detach(), rtol=0, atol=tolerance, msg=name)
    torch.testing.assert_close(state.log_alpha[0].double(), reference.log_alpha.detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("values", CASES, ids=lambda v: "-".join(map(str, v.values())) or "paper")
def test_gradient_steps_are_the_references(values):
    """Seven steps with every option of the losses: weights agree to a thousandth of the learning rate."""
    check(*make(**values), count=7, tolerance=1e-3 * RATE)


@pytest.mark.parametrize("values", [{}, AUTHOR], ids=["paper", "author"])
def test_gradient_steps_on_images(values):
    """The same for the convolutional networks, every kernel included."""
    check(*make(IMAGE, **values), count=3, tolerance=1e-2 * RATE)


def test_paper_and_author_presets_are_the_cases():
    """The author preset holds the options tested above; the paper preset is the defaults."""
    author, paper = config.make("Pong", "author"), config.make("Pong", "paper")
    assert {k: getattr(author, k) for k in AUTHOR} == AUTHOR
    wanted = {"update_order": "sequential", "target_value": "exact", "temperature_loss": "alpha", "actor_reduce": "sum"}
    assert {k: getattr(paper, k) for k in wanted} == wanted
    assert (paper.learning_rate, paper.adam_eps, paper.batch_size, paper.gamma) == (3e-4, 1e-8, 64, 0.99)


def test_order_matters_to_the_actor_alone():
    """After one step critics and temperature are the same in both orders, and the actor is not."""
    (batch, u), = batches(VECTOR, 1)  # fmt: skip
    states = []
    for order in ("sequential", "simultaneous"):
        sac, state = make(update_order=order)
        sac.update(state, batch, u, 0.0)
        states.append(state.tensors())
    for name, t in states[0].items():
        same = torch.equal(t, states[1][name])
        assert same != ("actor" in name), name


@pytest.mark.parametrize("tau", [1.0, 0.3, 1e-3])
def test_targets_move_by_tau_and_only_when_told(tau):
    """Updates leave the targets alone; a move is a hard copy at 1 and (1 - tau) old + tau new below; nets follow."""
    sac, state = make(tau=tau)
    old = {k: t.clone() for k, t in state.targets.tensors.items()}
    for batch, u in batches(VECTOR, 3):
        sac.update(state, batch, u, 0.0)
    assert all(torch.equal(t, old[k]) for k, t in state.targets.tensors.items())
    sac.move_targets(state)
    for k, t in state.targets.tensors.items():
        new = state.critics.tensors[k]
        assert not torch.equal(new, old[k])
        assert torch.equal(t, new) if tau == 1 else not torch.equal(t, new)
        torch.testing.assert_close(t, (1 - tau) * old[k] + tau * new, rtol=1e-6, atol=1e-7)
        assert t.data_ptr() != new.data_ptr()
    if tau == 1:
        x = sac.net.prepare(batch.obs)
        assert torch.equal(sac.net(state.targets, x), sac.net(state.critics, x))


@pytest.mark.parametrize("tied", [True, False])
def test_first_state(tied):
    """Targets start as the critics, twins differ, and the actor is critic 0 exactly if the two are tied."""
    _, state = make(tie_init=tied)
    for k, t in state.critics.tensors.items():
        assert torch.equal(state.targets.tensors[k], t)
        assert not torch.equal(t[:, 0], t[:, 1])
        assert torch.equal(state.actor.tensors[k][:, 0], t[:, 0]) == tied
        assert not torch.equal(state.actor.tensors[k][:, 0], t[:, 1])
    assert state.log_alpha.exp().item() == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("values", [{}, {"temperature_loss": "log_alpha"}])
@pytest.mark.parametrize(("target", "sign"), [("1.38", 1), ("0.01", -1)])
def test_temperature_rises_where_entropy_is_low(values, target, sign):
    """Alpha rises while the entropy is below its target and falls while it is above."""
    sac, state = make(target_entropy=target, **values)
    before = state.log_alpha.clone()
    out = sac.update(state, *batches(VECTOR, 1)[0], 0.0)
    assert 0.01 < out.entropy.item() < 1.38
    assert (state.log_alpha - before).item() * sign > 0.5 * RATE


def test_a_terminal_transition_bootstraps_nothing():
    """With discount 0 the next observation and the noise change no bit of an update."""
    (batch, u), = batches(VECTOR, 1)  # fmt: skip
    batch.discount.fill_(0)
    found = []
    for next_obs in (batch.next_obs, batch.next_obs.flip(1) * 3):
        sac, state = make(target_value="sampled")
        sac.update(state, Batch(batch.obs, batch.action, batch.reward, batch.discount, next_obs), u, 0.0)
        found.append(state.tensors())
    assert all(torch.equal(t, found[1][k]) for k, t in found[0].items())


def test_act_draws_from_the_policy():
    """Actions are the inverse transform of the actor's softmax at the given uniforms."""
    sac, state = make()
    obs, u = torch.randn(1, 50, 6, generator=torch.Generator().manual_seed(1)), torch.linspace(0, 0.999, 50).view(1, 50)
    logits = Reference(sac, state).net([t[0, 0].double() for t in state.actor.tensors.values()], obs[0])
    torch.testing.assert_close(sac.logits(state, obs)[0].double(), logits, rtol=1e-5, atol=1e-6)
    assert torch.equal(sac.act(state, obs, u)[0], heads.sample(logits, u[0]))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, [0.98 * math.log(4)] * 3),
        ({"target_entropy_ratio": "linear(0.9, 0.1)"}, [x * math.log(4) for x in (0.9, 0.5, 0.1)]),
        ({"target_entropy_ratio": "exp(0.8, 0.2)"}, [x * math.log(4) for x in (0.8, 0.4, 0.2)]),
        ({"target_entropy": "linear(1.0, 0.5)"}, [1.0, 0.75, 0.5]),
    ],
)
def test_target_entropy(values, wanted):
    """The wanted entropy at the start, middle and end of a run: a share of log |A|, or nats."""
    sac, _ = make(**values)
    assert [sac.aim(f).item() for f in (0.0, 0.5, 1.0)] == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["target_entropy_ratio", "target_entropy"])
@pytest.mark.parametrize("text", ["-1", "0", "linear(0.5, 0)", "exp(2.1, 0.5)", "linear(0.5, 2.1)"])
def test_unreachable_entropies_are_refused(name, text):
    """A target that no policy has is a UsageError; with a fixed temperature, or one action, it is not looked at."""
    values = config.make("test", **{name: text})
    with pytest.raises(UsageError, match="unreachable"):
        config.check_entropy(values, 4)
    config.check_entropy(values, 1)
    config.check_entropy(config.make("test", alpha="0.1", target_entropy_ratio="-1"), 4)


@pytest.mark.parametrize("values", [{}, {"target_entropy": "1.3"}, {"target_entropy_ratio": "linear(0.9, 0.01)"}])
def test_reachable_entropies_pass(values):
    """The paper's 0.98 and other targets between 0 and log |A| are accepted; 1.3 nats need four actions."""
    config.check_entropy(config.make("test", **values), 4)
    if values.get("target_entropy"):
        with pytest.raises(UsageError, match="unreachable"):
            config.check_entropy(config.make("test", **values), 3)


def test_of_the_twins():
    """The smaller of the two, or their mean."""
    q = torch.tensor([[[[1.0, 5.0]], [[3.0, 2.0]]]])  # (R, 2, B, A)
    for twins, right in (("min", [1.0, 2.0]), ("mean", [2.0, 3.5])):
        agent = SAC(Spec((3,), False, 1, 2), config.make("test", twins=twins))
        assert agent._of_twins(q)[0, 0].tolist() == right
