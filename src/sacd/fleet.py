"""A fleet: runs trained as one program, in parts that take turns on the GPU, and the final games of each part.

Each part is a loop of its own in a thread of its own, so the order of operations within a run is that of a run alone.
A run that fails leaves its fleet; the others go on from their last checkpoints.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from sacd import engine
from sacd.commands import keep_traceback
from sacd.config import Config
from sacd.console import Bar, complain, numbers, plural
from sacd.envs import names
from sacd.errors import Interrupted, SacdError, blaming
from sacd.runs import RunFolder
from sacd.scoring import final_games, trained
from sacd.signals import Stop
from sacd.train import ALONE, Training

REPORTS = 10  # lines a game over a run


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    config: Config
    folder: RunFolder

    @property
    def name(self) -> str:
        return self.folder.path.name

    @cached_property
    def trained(self) -> bool:
        """Whether only its final games are missing."""
        return trained(self.folder, self.config)

    @property
    def step(self) -> int:
        """Where it goes on from: its newest checkpoint's step, or 0; a trained run's is the last."""
        if self.trained:
            return self.config.steps
        return max((int(p.name.removeprefix("step_")) for p in self.folder.saved_steps()), default=0)


class Fleet:
    """Parts trained side by side under one progress bar."""

    def __init__(self, parts: list[list[Job]], stop: Stop, which: str = ""):
        self.parts, self.stop, self.lock = parts, stop, threading.Lock()
        jobs = [job for part in parts for job in part]
        games, first = len({job.config.env for job in jobs}), jobs[0].config
        title = f"{which}{plural(games, 'game')}, {plural(len(jobs), 'run')}"
        steps = sum(job.config.steps for job in jobs)
        self.bar = Bar(title, steps, typical=first.learning_starts * steps // first.steps)
        self.turns = engine.Turns() if len(parts) > 1 else ALONE
        self.done = [0] * len(parts)
        self.failed = 0

    def go(self) -> int:
        """Train and evaluate; how many runs failed."""
        with self.bar, ThreadPoolExecutor(len(self.parts)) as threads:
            for future in [threads.submit(self._part, i) for i in range(len(self.parts))]:
                future.result()
        return self.failed

    def _part(self, index: int) -> None:
        """Train a part to its end. Runs that fail leave it."""
        jobs = self.parts[index]
        device = engine.device(jobs[0].config.device)
        while jobs:
            with engine.own_stream(device):
                lost, reason = self._try(index, jobs)
            engine.free_memory(device)
            for job in lost:
                self.failed += 1
                complain(f"{job.name} failed: {reason}")
            jobs = [job for job in jobs if job not in lost and not job.folder.finished()] if lost else []

    def _try(self, index: int, jobs: list[Job]) -> tuple[list[Job], str]:
        """One go at a part's training and evaluation; the runs that failed, and why."""
        held: list[Job] = []
        training = None
        try:
            for number, job in enumerate(jobs):
                self.stop.check("before it began")
                each = job.config.n_envs
                with blaming(range(number * each, (number + 1) * each)):
                    job.folder.claim(job.config)
                held.append(job)
            if not jobs[0].trained:
                configs, folders = [job.config for job in jobs], [job.folder for job in jobs]
                training = Training(configs, folders, Part(self, index, jobs), self.turns)
                training.run(self.stop)
                training.close()
                training = None  # its memory is the final games' now
            self._evaluate(jobs)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the other runs go on
            runs = {lane // jobs[0].config.n_envs for lane in getattr(error, "lanes", ())}
            lost = [jobs[r] for r in sorted(runs)] or [job for job in jobs if not job.folder.finished()]
            for job in lost:
                if job in held:  # else the folder is another's
                    keep_traceback(job.folder)
            return lost, str(error)  # the error itself holds on to all that the fleet had
        finally:
            if training is not None:
                training.close()
            for job in held:
                job.folder.release()
        return [], ""

    def _evaluate(self, jobs: list[Job]) -> None:
        """Final games, game by game."""
        for env, each in groupby(jobs, key=lambda job: job.config.env):
            mine = list(each)
            title = f"{names.short(env)}: final games of {plural(len(mine), 'run')}"
            with self.lock:
                self.bar.note(title)
            try:
                final_games([job.config for job in mine], [job.folder for job in mine], lambda n: None, self.stop)
            except SacdError as error:
                error.lanes = [jobs.index(mine[run]) * mine[run].config.n_envs for run in error.lanes]
                raise
            with self.lock:
                self.bar.note(f"{title}: played")


class Part:
    """Watches one part of a fleet for its bar."""

    def __init__(self, fleet: Fleet, index: int, jobs: list[Job]):
        self.fleet, self.index, self.jobs = fleet, index, jobs
        self.every = max(jobs[0].config.steps // REPORTS, 1)
        self.told = 0

    def note(self, text: str) -> None:
        with self.fleet.lock:
            self.fleet.bar.note(text)

    def tick(self, step: int) -> None:
        with self.fleet.lock:
            self.fleet.done[self.index] = step * len(self.jobs)
            self.fleet.bar.tick(sum(self.fleet.done))

    def rows(self, step: int, rows: list[dict[str, Any]]) -> None:
        with self.fleet.lock:
            self.fleet.bar.rows(step, rows)
            if step // self.every > self.told:
                self.told = step // self.every
                for game, each in groupby(zip(self.jobs, rows, strict=True), key=lambda pair: pair[0].config.env):
                    self.fleet.bar.note(f"{names.short(game)}, step {step}: {numbers([row for _, row in each])}")
