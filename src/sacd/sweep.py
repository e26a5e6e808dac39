"""Many runs at once: games x seeds packed into fleets, one ordinary run folder each.

On a GPU a fleet is as many runs as fit, of any mix of games, in parts that take turns: while the emulators of some
run, the GPU acts and learns for another. On a CPU, where nets are computed one after the other anyway, a fleet is the
seeds of one game.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import torch

from sacd import engine, memory, nets, report
from sacd.commands import warnings
from sacd.config import Config, check_entropy
from sacd.console import complain, plural, say
from sacd.envs import names
from sacd.envs.pool import make_lanes
from sacd.errors import ResourceError, UsageError
from sacd.files import writing
from sacd.fleet import Fleet, Job
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.types import Spec

RESERVE = 4 * 2**30  # bytes of a GPU left for its own context, libraries and kernels
PARTS, LEAST = 3, 16  # parts that take turns, at most; runs of each where they are more than two


def sweep(configs: list[Config], preset: str, out: Path) -> int:
    """Train, evaluate and report every configuration; how many failed. Finished runs stay as they are."""
    return carry_out(prepare(configs, preset, out), preset, out)


def carry_out(every: list[Job], preset: str, out: Path) -> int:
    """The same for runs that are prepared."""
    jobs = [job for job in every if not job.folder.finished()]
    if len(jobs) < len(every):
        say(f"{len(every) - len(jobs)} of {len(every)} runs are finished already.")
    games = {job.config.env for job in every}
    say(f"{plural(len(games), 'game')}, {plural(len(every), 'run')}, preset {preset} -> {out}")
    failed = 0
    with Stop() as stop:
        planned = fleets(jobs, engine.device(every[0].config.device))
        for number, fleet in enumerate(planned, 1):
            failed += Fleet(fleet, stop, f"{number} of {len(planned)}: " if len(planned) > 1 else "").go()
    for folder in (job.folder for job in every if job.folder.finished() and not job.folder.curve.exists()):
        report.curve([folder], folder.curve)  # here, where emulators wait for nothing
    begun = [job.folder for job in every if (job.folder.path / "config.json").exists()]
    report.write_all(begun, out)
    return failed


def prepare(configs: list[Config], preset: str, out: Path) -> list[Job]:
    """The runs to be made. What cannot be is refused before anything begins."""
    check_out(out)
    engine.device(configs[0].device)
    every = [Job(c, RunFolder(out / f"{names.short(c.env)}_{preset}_s{c.seed}")) for c in configs]
    for job in every:
        job.folder.check(job.config)
    for config in {c.env: c for c in configs}.values():  # a game that cannot be played stops the sweep before it begins
        spec = _spec(config)
        check_entropy(config, spec.actions)
        nets.build(spec, config)
        for text in warnings(config, spec.actions):
            complain(f"{names.short(config.env)}: {text}")
    return every


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
