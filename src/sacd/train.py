"""The loop: act, step, learn, log, save. It knows no algorithm, and one run is a fleet of one.

A turn's actions are under way in the emulators while the networks learn from what came before them; that is the order
of the author's code too, so the overlap changes nothing. Five owners hold all that changes: agent state, replay, pool,
clock and log; a checkpoint is their five shares.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from sacd import checkpoint, engine, memory, nets, rng
from sacd.agents import AGENTS
from sacd.agents.sac import SAC
from sacd.clock import Clock
from sacd.config import Config, check_entropy
from sacd.envs.pool import Pool
from sacd.errors import blaming
from sacd.log import RunLog, Samples
from sacd.replay import Replay
from sacd.runs import RunFolder
from sacd.saved import Saved
from sacd.signals import Stop
from sacd.types import Batch

ALONE: AbstractContextManager = nullcontext()
MODEL = ("actor.", "critics.", "log_alpha")  # what of the state is the trained model


class Watcher(Protocol):
    """Somebody who looks on: the progress bar, or nobody."""

    def note(self, text: str) -> None: ...
    def tick(self, step: int) -> None: ...
    def rows(self, step: int, rows: list[dict[str, Any]]) -> None: ...


class Training:
    """Runs that share a configuration but for environment and seed, trained in lockstep; one folder each."""

    def __init__(
        self, configs: list[Config], folders: list[RunFolder], watcher: Watcher, turns: AbstractContextManager = ALONE
    ):
        self.config, self.folders, self.watcher, self.turns = configs[0], folders, watcher, turns
        self.device = engine.device(self.config.device)
        self.pool = Pool(configs, self.config.n_envs)
        try:
            self._prepare(configs)
        except BaseException:
            self.pool.close()
            raise

    def _prepare(self, configs: list[Config]) -> None:
        config, folders = self.config, self.folders
        spec, actions = self.pool.spec, self.pool.actions_of
        engine.pin(config.threads, spec.image)
        for count in actions:
            check_entropy(config, count)
        self.agent: SAC = AGENTS["sac"](spec, config, self.device, actions)
        memory.check(spec, config, len(configs), nets.parameters(self.agent.net), self.device)
        seeds = torch.tensor([c.seed for c in configs])
        keys = seeds.to(self.device)
        self.state = self.agent.init(keys)
        slots = memory.slots_for(spec, config.buffer_size, config.steps, config.n_envs)
        self.replay = Replay(spec, len(configs), config.n_envs, slots, config.n_step, config.gamma, self.device)
        self.act = engine.hasten(self.agent, self.replay, self.device)
        self.clock = Clock(config)
        row = config.log_every / config.train_freq * config.gradient_steps
        self.logs = [RunLog(f.metrics, f.episodes, row, math.log(a)) for f, a in zip(folders, actions, strict=True)]
        self.samples = Samples(self.logs)
        self.acting = rng.Stream(keys, "act", config.n_envs)
        self.picking = rng.Stream(seeds.to(self.replay.sampled_on), "batch", config.batch_size)
        self.guessing = rng.Stream(keys, "target", config.batch_size)
        self.saved = Saved(folders, self.state, self.replay, self.pool, self.clock, self.logs)

    def run(self, stop: Stop) -> None:
        """Train to the end, from the newest checkpoint if there is one."""
        clock, config = self.clock, self.config
        for text in self.saved.restore(stop.check):
            self.watcher.note(text)
        self.watcher.tick(clock.step)
        for log in self.logs:
            log.start_clock(clock.step)
        while not clock.done:
            self._turn()
            asked = stop.requested
            if clock.passed(config.log_every) or clock.done:
                self.samples.drain()
                self.watcher.rows(clock.step, [self._write_row(r) for r in range(len(self.logs))])
            regular = clock.passed(config.save_every) or clock.done
            if regular:
                self.pool.checkpoint_passed()
            if regular or asked:
                self.samples.drain()
                self.saved.save()
            self.watcher.tick(clock.step)
            if asked:
                stop.check(f"at step {clock.step}")
        for r, folder in enumerate(self.folders):
            model = {k: t.cpu() for k, t in self.state.share(r).items() if k.startswith(MODEL)}
            checkpoint.write(folder.model, model, {"step": clock.step})

    def close(self) -> None:
        """Let emulators and files go."""
        self.pool.close()
        for log in self.logs:
            log.close()

    def _write_row(self, run: int) -> dict[str, Any]:
        with blaming(self.pool.of(run)):
            return self.logs[run].write_row(self.clock.step, self.clock.updates)

    def _turn(self) -> None:
        """One step in every lane, and the learning that is due with it."""
        u = self.acting.at(self.clock.turn)
        action = self.act(self.state, self.replay.observe(), u) if self.clock.warm else self.agent.explore(u)
        chosen = action.cpu().numpy().ravel()
        self.pool.send(chosen)
        self._learn()
        step, episodes = self.pool.recv()
        self.replay.add(chosen, step)
        self.clock.tick()
        for episode in episodes:
            run, lane = divmod(episode.lane, self.config.n_envs)
            self.logs[run].episode(self.clock.step, episode, lane)

    def _learn(self) -> None:
        """The gradient steps of this turn, and the targets' move."""
        if due := self.clock.updates_due():
            batch = self._batch()  # looked up while another part of the fleet may learn
            with self.turns:
                self._update(due, batch)
        if self.clock.targets_due():
            self.agent.move_targets(self.state)

    def _batch(self) -> Batch:
        """The next update's transitions, of those before this turn's."""
        return self.replay.sample(self.picking.at(self.clock.updates), self.config.clip_reward).to(self.device)

    def _update(self, due: int, batch: Batch) -> None:
        """Gradient steps, the first of them on this batch."""
        clock = self.clock
        for number in range(due):
            batch = self._batch() if number else batch
            guess = self.guessing.at(clock.updates) if self.config.target_value == "sampled" else None
            out = self.agent.update(self.state, batch, guess, clock.fraction)
            clock.updates += 1
            if self.config.target_update_interval == 0:
                self.agent.move_targets(self.state)
            self.samples.add(out, clock.updates)
