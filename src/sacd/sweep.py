"""Many runs at once: games x seeds packed into fleets, trained in lockstep, one ordinary run folder each.

On a GPU a fleet is as many runs as fit, of any mix of games, in parts that take turns: while the emulators of some
run, the GPU acts and learns for another. Each part is a loop of its own in a thread of its own, so the order of
operations within a run is that of a run alone. On a CPU, where nets are computed one after the other anyway, a fleet is
the seeds of one game.

A run that fails leaves its fleet; the others go on from their last checkpoints.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import torch

from sacd import engine, memory, nets, report
from sacd.commands import keep_traceback
from sacd.config import Config, check_entropy
from sacd.console import Bar, complain, numbers, plural, say
from sacd.envs import names
from sacd.envs.pool import make_lanes
from sacd.errors import Interrupted, ResourceError, UsageError, blaming
from sacd.files import writing
from sacd.runs import RunFolder
from sacd.scoring import final_games
from sacd.signals import Stop
from sacd.train import ALONE, Training
from sacd.types import Spec

RESERVE = 4 * 2**30  # bytes of a GPU left for its own context, libraries and kernels
PARTS, LEAST = 3, 16  # parts that take turns, at most; runs of each where they are more than two
REPORTS = 10  # lines a game over a run


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    config: Config
    folder: RunFolder

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def trained(self) -> bool:
        """Whether only its final games are missing."""
        return self.folder.model.exists()

    @property
    def step(self) -> int:
        """Where it goes on from: its newest checkpoint's step, or 0; a trained run's is the last."""
        if self.trained:
            return self.config.steps
        return max((int(p.name.removeprefix("step_")) for p in self.folder.saved_steps()), default=0)


def sweep(configs: list[Config], preset: str, out: Path) -> int:
    """Train, evaluate and report every configuration; how many failed. Finished runs stay as they are."""
    check_out(out)
    every = [Job(c, RunFolder(out / f"{names.short(c.env)}_{preset}_s{c.seed}")) for c in configs]
    for job in every:
        job.folder.check(job.config)
    for config in {c.env: c for c in configs}.values():  # a game that cannot be played stops the sweep before it begins
        spec = _spec(config)
        check_entropy(config, spec.actions)
        nets.build(spec, config)
    jobs = [job for job in every if not job.folder.finished()]
    if len(jobs) < len(every):
        say(f"{len(every) - len(jobs)} of {len(every)} runs are finished already.")
    say(f"{plural(len({c.env for c in configs}), 'game')}, {plural(len(every), 'run')}, preset {preset} -> {out}")
    failed = 0
    with Stop() as stop:
        planned = fleets(jobs, engine.device(configs[0].device))
        for number, fleet in enumerate(planned, 1):
            failed += Fleet(fleet, stop, f"{number} of {len(planned)}: " if len(planned) > 1 else "").go()
    for folder in (job.folder for job in jobs if job.folder.finished()):  # here, where emulators wait for nothing
        report.curve([folder], folder.curve)
    begun = [job.folder for job in every if (job.folder.path / "config.json").exists()]
    report.write_all(begun, out)
    return failed


def check_out(out: Path) -> None:
    """Refuse a place that cannot hold runs."""
    if out.exists() and not out.is_dir():
        raise ResourceError(f"{out} is a file; name a folder with --out.")
    if (out / "config.json").exists():
        raise UsageError(f"{out} is itself a run's folder; name another with --out.")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)


def fleets(jobs: list[Job], device: torch.device) -> list[list[list[Job]]]:
    """Fleets one after the other, each of parts that are trained side by side. Their runs are at the same step."""
    jobs = sorted(jobs, key=lambda job: (-job.trained, -job.step))
    if device.type == "cpu":
        return [[list(each)] for _, each in groupby(jobs, key=lambda job: (job.trained, job.step, job.config.env))]
    return [split(alike, min(max(len(alike) // LEAST, 2), PARTS)) for alike in batches(jobs, device)]


def split(runs: list[Any], count: int) -> list[list[Any]]:
    """Runs in so many parts of one size, or of one less."""
    ends = [len(runs) * i // count for i in range(count + 1)]
    return [runs[a:b] for a, b in pairwise(ends) if b > a]


def batches(jobs: list[Job], device: torch.device) -> Iterable[list[Job]]:
    """As many runs at a time as the GPU's memory holds; says so if those are not all. Shapes do not mix."""
    free = torch.cuda.mem_get_info(device)[0] - RESERVE
    specs = {job.config.env: _spec(job.config) for job in {job.config.env: job for job in jobs}.values()}
    actions = max((spec.actions for spec in specs.values()), default=0)

    def shape(job: Job) -> Spec:
        return replace(specs[job.config.env], actions=actions, action_start=0)

    for (*_, spec), same in groupby(jobs, key=lambda job: (job.trained, job.step, shape(job))):
        mine = list(same)
        one = memory.needed_on_gpu(spec, mine[0].config, nets.parameters(nets.build(spec, mine[0].config)))
        most = max(int(free // one), 1)
        if len(mine) > most:
            say(
                f"{len(mine)} runs of {one / 1e9:.2f} GB, and {free / 1e9:.0f} GB of GPU memory free: {most} at a time."
            )
        yield from (mine[i : i + most] for i in range(0, len(mine), most))


def _spec(config: Config) -> Spec:
    lanes = make_lanes(config, 1)
    lanes.close()
    return lanes.spec


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
            jobs = [job for job in jobs if job not in lost] if lost else []

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
            self._evaluate(jobs)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the other runs go on
            runs = {lane // jobs[0].config.n_envs for lane in getattr(error, "lanes", ())}
            lost = [jobs[r] for r in sorted(runs)] or jobs
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
            with self.lock:
                self.bar.note(f"{names.short(env)}: final games of {plural(len(mine), 'run')}")
            final_games([job.config for job in mine], [job.folder for job in mine], lambda n: None, self.stop)


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
