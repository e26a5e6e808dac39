"""Tiny runs: over in a second or two, with every part that a long one has; and how to compare what they leave."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sacd import checkpoint
from sacd.cli import main
from sacd.clock import Clock
from sacd.memory import slots_for
from sacd.replay import Replay
from sacd.runs import RunFolder
from sacd.types import Spec

PATH = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))  # to find `worlds`
COMMON = {
    "learning_starts": 100, "batch_size": 8, "eval_episodes": 2, "eval_lanes": 2,
    "save_every": 100, "log_every": 100, "threads": 1, "device": "cpu", "hidden": "16",
}  # fmt: skip


CARTPOLE = {"steps": 600, "n_envs": 2, "n_step": 3, "buffer_size": 360}  # rings of 180, which wrap


class Crash(BaseException):
    """What a test raises where a process would die: nothing catches it."""


def options(**values: Any) -> list[str]:
    """Fields as the command line's words."""
    return [w for k, v in values.items() for w in (f"--{k.replace('_', '-')}", str(v))]


def words(env: str, run: Path, **values: Any) -> list[str]:
    """`sacd train` of a tiny run."""
    return ["train", env, "--run", str(run), *options(**(COMMON | values))]


def start(arguments: list[str], **more: Any) -> subprocess.Popen:
    """A process of the command line, its two outputs in one pipe."""
    command = [sys.executable, "-m", "sacd", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, **(pipes | more), env={**os.environ, "PYTHONPATH": PATH})


def finish(process: subprocess.Popen, code: int = 0) -> str:
    """Wait for a process; what it said."""
    said, _ = process.communicate(timeout=240)
    assert process.returncode == code, said
    return said


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """End the training when it has reached this step."""
    tick = Clock.tick

    def call(clock: Clock) -> None:
        tick(clock)
        if clock.step == step:
            raise Crash

    monkeypatch.setattr(Clock, "tick", call)


def broken_off(run: Path, step: int = 450, env: str = "CartPole-v1", **values: Any) -> list[str]:
    """A run that ended at this step without saving; its command."""
    command = words(env, run, **(CARTPOLE | values))
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, step)
        with pytest.raises(Crash):
            main(command)
    return command


def listing(run: Path) -> dict[str, str]:
    """All files of a run by their contents, but for the lock and the account of the last error."""
    skipped = ("run.lock", "run.pid", "error.log")
    files = (p for p in run.rglob("*") if p.is_file() and p.name not in skipped)
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def newest(run: Path) -> int:
    """The step of the newest checkpoint; 0 before the first."""
    return max((int(p.name.removeprefix("step_")) for p in RunFolder(run).saved_steps()), default=0)


def results(run: Path) -> dict[str, Any]:
    """All that two runs with equal numbers must have in common: everything but how fast they were."""
    folder = RunFolder(run)
    tensors, facts = checkpoint.read(folder.saved_steps()[0])
    model, _ = checkpoint.read(folder.model)
    evaluation = json.loads(folder.evaluation.read_text())
    del evaluation["seconds"]
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    for row in rows:
        del row["steps_per_second"]
    return {
        "tensors": {k: bits(t) for k, t in tensors.items()}, "model": {k: bits(t) for k, t in model.items()},
        "replay": tape(folder, facts), "episodes": folder.episodes.read_bytes(), "metrics": rows,
        "evaluation": evaluation, "pool": facts["pool"], "at": (facts["step"], facts["updates"]),
        "log": {k: facts["log"][k] for k in ("sums", "count", "finished", "recent")},
    }  # fmt: skip


def bits(t: torch.Tensor) -> tuple[tuple[int, ...], bytes]:
    return tuple(t.shape), t.numpy().tobytes()


def tape(folder: RunFolder, facts: dict[str, Any]) -> list[bytes]:
    """The slots of a checkpoint's replay that are held, column by column, as they are loaded."""
    config, names = folder.config(), sorted(k for k in facts["files"] if k.startswith("replay/"))
    wanted = [{k: facts["files"][name][k] for k in ("bytes", "sha256")} for name in names]
    chunks = [checkpoint.read_chunk(folder.path / n, w) for n, w in zip(names, wanted, strict=True)]
    frame = chunks[0]["0.frame"]
    spec = Spec(tuple(frame.shape[1:]), frame.dtype == torch.uint8, config.stack, 18)
    replay = Replay(spec, 1, config.n_envs, slots_for(spec, config.buffer_size, config.steps, config.n_envs))
    replay.load(0, chunks, facts["replay"])
    found = [json.dumps(facts["replay"]).encode()]
    for lane, head in enumerate(replay.head):
        held = np.arange(max(0, head + 1 - replay.slots), head + 1) % replay.slots
        found += [np.asarray(getattr(replay, k)[lane])[held].tobytes() for k in ("frame", *("action", "reward"))]
        found += [np.asarray(getattr(replay, k)[lane])[held].tobytes() for k in ("closes", "age")]
    return found


def same_results(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Equal in every part; a difference is named by its part only, for the parts are long."""
    different = [k for k in a if a[k] != b[k]]
    assert not different, f"{', '.join(different)} differ"
