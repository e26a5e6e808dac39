"""What a machine reaches: environment steps a second of emulators alone, of learners alone, and of both together.

`sacd doctor --bench` prints these for a few runs, bench/fleet_loop.py for a whole fleet.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sacd import engine
from sacd.config import Config, changed
from sacd.console import Bar, plural, say
from sacd.envs.pool import Pool
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import ALONE, Training

WARM = 100  # random steps before learning
SETTLED = WARM + 120  # steps after which the clock runs: graphs are recorded by then, caches are warm


class Enough(Exception):
    """The measurement is over."""


class Watch:
    """Moments and steps of one part of a fleet from SETTLED on, until enough seconds have passed."""

    def __init__(self, seconds: float):
        self.seconds, self.marks = seconds, list[tuple[float, int]]()

    def note(self, text: str) -> None: ...
    def rows(self, step: int, rows: list[dict[str, Any]]) -> None: ...

    def tick(self, step: int) -> None:
        if step >= SETTLED:
            self.marks.append((time.perf_counter(), step))
            if self.marks[-1][0] - self.marks[0][0] > self.seconds:
                raise Enough


def measured(config: Config) -> Config:
    """The same run, learning soon and never saving."""
    return changed(config, learning_starts=WARM, save_every=10**9)


def emulators(part: list[Config], seconds: float) -> float:
    """Steps a second of a part's emulators with random actions."""
    pool = Pool(part, part[0].n_envs)
    pool.start()
    counts = np.repeat(pool.actions_of, part[0].n_envs)
    draws, steps, begin = np.random.default_rng(0), 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        pool.send((draws.random(pool.count) * counts).astype(np.int64))
        pool.recv()
        steps += pool.count
    pool.close()
    return steps / (time.perf_counter() - begin)


def fleet(
    part: list[Config],
    watch: Watch,
    turns: contextlib.AbstractContextManager = ALONE,
    look: Callable[[Training], None] = lambda training: None,
) -> None:
    """Train a part until its watch has seen enough."""
    with tempfile.TemporaryDirectory() as place, engine.own_stream(engine.device(part[0].device)):
        folders = [RunFolder(Path(place) / str(i)) for i in range(len(part))]
        for folder, config in zip(folders, part, strict=True):
            folder.claim(config)
        training = Training(part, folders, watch, turns)
        look(training)
        with contextlib.suppress(Enough):
            training.run(Stop())
        training.close()


def rate(watches: list[Watch], sizes: list[int]) -> float:
    """Steps a second of all parts while all were running."""
    begin, end = max(w.marks[0][0] for w in watches), min(w.marks[-1][0] for w in watches)
    steps = 0
    for watch, size in zip(watches, sizes, strict=True):
        inside = [step for t, step in watch.marks if begin <= t <= end]
        steps += (inside[-1] - inside[0]) * size
    return steps / (end - begin)


def learner(training: Training, seconds: float) -> float:
    """Gradient steps a second of a fleet that has begun to learn, one after the other."""
    update, batch = training.agent.update, training._batch()
    guess = training.guessing.at(0) if training.config.target_value == "sampled" else None
    device, count = training.device, 0
    for _ in range(5):
        update(training.state, batch, guess, 0.0)
    _wait(device)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        update(training.state, batch, guess, 0.0)
        count += 1
        if count % 16 == 0:
            _wait(device)
    _wait(device)
    return count / (time.perf_counter() - begin)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bench(configs: list[Config], seconds: float) -> None:
    """Print the three rates of these runs as one part."""
    part, found = [measured(c) for c in configs], dict[str, float]()
    each = part[0].train_freq / part[0].gradient_steps * len(part)  # environment steps to a gradient step
    with Bar("measuring", 3, unit="rates") as bar:
        found["emulators"] = emulators(part, seconds)
        bar.tick(1)
        watch = Watch(seconds)
        after: list[Training] = []
        fleet(part, watch, look=after.append)
        found["together"] = rate([watch], [len(part)])
        bar.tick(2)
        found["learner"] = learner(after[0], seconds)
        bar.tick(3)
    games = ", ".join(dict.fromkeys(c.env for c in configs))
    say(f"{plural(len(part), 'run')} of {games}, {part[0].precision} on {after[0].device}")
    say(f"emulators alone  {found['emulators']:,.0f} steps/s")
    learning = found["learner"] * each
    say(f"learner alone    {learning:,.0f} steps/s ({found['learner']:,.1f} gradient steps/s, one to {each:g} steps)")
    slower = min(found["emulators"], learning)
    say(f"together         {found['together']:,.0f} steps/s, {found['together'] / slower:.0%} of the slower alone")
