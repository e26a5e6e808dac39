"""The cadence of the paper, counted: when the networks learn, when the targets move, when something is passed."""

import pytest

from sacd import config
from sacd.clock import Clock
from sacd.console import Bar
from sacd.envs import names
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training


def paper(**values) -> Clock:
    return Clock(config.make("ALE/Pong-v5", "paper", **values))


class Counter:
    """An agent that only counts: the steps at which it learned and moved its targets."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.learned: list[int] = []
        self.moved: list[int] = []

    def run(self) -> "Counter":
        """The loop, emptied of all but its clock."""
        clock = self.clock
        while not clock.done:
            for _ in range(clock.updates_due()):
                self.learned.append(clock.step)
                clock.updates += 1
            if clock.targets_due():
                self.moved.append(clock.step)
            clock.tick()
        return self


def test_the_papers_cadence():
    """100,000 steps: 19,999 updates from step 20,004 on, every fourth step, and ten moves of the targets."""
    count = Counter(paper()).run()
    assert count.clock.step == 100_000
    assert len(count.learned) == count.clock.updates == 19_999
    assert count.learned == list(range(20_004, 100_000, 4))
    assert count.moved == [24_000, 32_000, 40_000, 48_000, 56_000, 64_000, 72_000, 80_000, 88_000, 96_000]


@pytest.mark.parametrize("lanes", [2, 3, 4, 7, 10, 64])
def test_lanes_keep_the_cadence(lanes):
    """With lanes stepped together each step number still counts once: the turn that covers it does its learning."""
    count = Counter(paper(n_envs=lanes)).run()
    numbers = range(-(-100_000 // lanes) * lanes)  # the last turn is whole
    learning = [k for k in numbers if k > 20_000 and k % 4 == 0]
    moving = [k for k in numbers if k > 20_000 and k % 8000 == 0]
    assert count.learned == [k // lanes * lanes for k in learning]
    assert count.moved == [k // lanes * lanes for k in moving]
    assert count.clock.turn == len(numbers) // lanes


def test_more_lanes_than_the_period():
    """A turn of lanes beyond the period learns more than once, and moves the targets once."""
    clock = paper(n_envs=16_000 // 4, learning_starts=0)
    clock.step = 8000
    assert clock.updates_due() == 1000
    assert clock.targets_due()


def test_gradient_steps_multiply():
    """Each learning round does `gradient_steps` updates; the rounds stay where they were."""
    count = Counter(paper(gradient_steps=3)).run()
    assert len(count.learned) == 3 * 19_999
    assert sorted(set(count.learned)) == list(range(20_004, 100_000, 4))


def test_interval_0_is_not_the_clocks_business():
    """With interval 0 targets move after each gradient step, so the clock never asks for it."""
    assert not Counter(paper(target_update_interval=0)).run().moved


def test_learning_from_the_start():
    """With learning_starts 0 the first update follows the first step: nothing can be learned before it."""
    count = Counter(paper(learning_starts=0, train_freq=1, steps=10)).run()
    assert count.learned == list(range(1, 10))


@pytest.mark.parametrize("lanes", [1, 3, 8])
@pytest.mark.parametrize("every", [1, 5, 8, 100])
def test_passed(every, lanes):
    """A multiple is passed in the turn whose tick reaches or crosses it, once each."""
    clock, passed = paper(n_envs=lanes, steps=1000), []
    while not clock.done:
        clock.tick()
        if clock.passed(every):
            passed.append(clock.step)
    reached = sorted({-(-k // lanes) * lanes for k in range(every, clock.step + 1, every)})
    assert passed == reached


def test_warm_and_fraction():
    """The policy acts from step `learning_starts` on; the fraction runs from 0 to 1."""
    clock = paper()
    assert (clock.warm, clock.fraction, clock.done) == (False, 0.0, False)
    clock.step = 20_000
    assert (clock.warm, clock.fraction, clock.done) == (True, 0.2, False)
    clock.step = 19_999
    assert not clock.warm
    clock.step = 100_000
    assert (clock.fraction, clock.done) == (1.0, True)


def counted(tmp_path, monkeypatch, **values) -> tuple[Training, list, list]:
    """A real run of the pixel toy whose agent only counts: (step, replay size, update) and the moves' steps."""
    chosen = config.make(names.resolve("sacd/Catch-v0"), "paper", **values)
    folder = RunFolder(tmp_path)
    training = Training([chosen], [folder], Bar("test", chosen.steps))
    learned, moved = [], []
    monkeypatch.setattr(
        training.agent,
        "update",
        lambda state, batch, u, fraction: learned.append((training.clock.step, int(training.replay.size()[0]))),
    )
    monkeypatch.setattr(training.agent, "move_targets", lambda state: moved.append(training.clock.step))
    monkeypatch.setattr(training.samples, "add", lambda out, updates: None)
    training.run(Stop())
    training.close()
    return training, learned, moved


def test_the_loop_follows_the_clock(tmp_path, monkeypatch):
    """The training loop learns and copies when the clock says so, and what it learns from is all that came before."""
    values = dict(steps=600, learning_starts=200, target_update_interval=80, save_every=600, seed=3)
    training, learned, moved = counted(tmp_path, monkeypatch, **values)
    assert learned == [(k, k) for k in range(204, 600, 4)]
    assert moved == [240, 320, 400, 480, 560]
    assert training.clock.updates == 99


def test_the_loop_moves_targets_after_each_update_at_interval_0(tmp_path, monkeypatch):
    """Interval 0: as many moves as gradient steps, at the same steps."""
    values = dict(steps=64, learning_starts=32, target_update_interval=0, gradient_steps=2, save_every=64)
    _, learned, moved = counted(tmp_path, monkeypatch, **values)
    assert moved == [step for step, _ in learned] == [k for k in range(36, 64, 4) for _ in range(2)]


@pytest.mark.slow
def test_a_whole_run_of_the_paper(tmp_path, monkeypatch):
    """The real loop for 100,000 steps: 19,999 gradient steps from 20,004 on, ten copies from 24,000 to 96,000."""
    training, learned, moved = counted(tmp_path, monkeypatch, save_every=100_000, log_every=100_000)
    assert [step for step, _ in learned] == list(range(20_004, 100_000, 4)) and len(learned) == 19_999
    assert moved == list(range(24_000, 96_001, 8000)) and len(moved) == 10
    assert training.clock.updates == 19_999
