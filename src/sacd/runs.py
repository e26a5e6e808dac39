"""A run's folder: what lies where, who may write it, and whether it is this run at all.

config.json      the configuration, with versions and git commit     metrics.jsonl    a row each log_every steps
episodes.jsonl   a row an episode                                     evaluation.json  the final scores
checkpoints/     the newest two                                       replay/          their replay, append-only
model/           the trained networks                                 curve.png        the learning curve
"""

import json
import os
import platform
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sacd.config import Config, flag, from_dict, to_dict
from sacd.errors import CheckpointError, LockedError, ResourceError, UsageError
from sacd.files import replace_file, storage_error, writing

OURS = ("run.", ".tmp-", "error.log")  # what a process that died while it made the folder may leave
NO_RUN = "is no run's folder: it has no readable config.json"
FREE = {"device", "threads", "eval_lanes"}  # fields that a resumed run may change: how it is computed, not what


class RunFolder:
    """One run on disk, held by one process at a time."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints, self.replay, self.model = path / "checkpoints", path / "replay", path / "model"
        self.metrics, self.episodes = path / "metrics.jsonl", path / "episodes.jsonl"
        self.evaluation, self.curve = path / "evaluation.json", path / "curve.png"
        self._lock = FileLock(path / "run.lock")

    def check(self, config: Config) -> None:
        """Refuse a folder that cannot hold this run. Changes nothing of one that is there."""
        with writing(self.path):
            self._check(config)

    def _check(self, config: Config) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ResourceError(f"{self.path} is a file; name another folder with --run.")
        if (self.path / "config.json").exists():
            same_run(self.config(), config, self.path)
            self._take()  # so that a second process is told at once
            self._lock.release()
        elif self.path.is_dir() and any(not p.name.startswith(OURS) for p in self.path.iterdir()):
            raise UsageError(f"{self.path} is not empty and holds no run; name another folder with --run.")

    def claim(self, config: Config) -> None:
        """Make the folder if it is not there, and hold it against other processes."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
            (self.path / "run.pid").write_text(f"{os.getpid()} on {platform.node()}\n")
            if not (self.path / "config.json").exists():
                record = {"config": to_dict(config), "versions": versions(), "commit": commit()}
                replace_file(self.path / "config.json", (json.dumps(record, indent=1) + "\n").encode())
            places = (self.path, self.checkpoints, self.replay)
            for left in (p for place in places for p in place.glob(".tmp-*")):  # by a process that died
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        except OSError as error:
            raise storage_error(error, self.path) from error

    def _take(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            pid = self.path / "run.pid"
            holder = pid.read_text().strip() if pid.exists() else "unknown"
            raise LockedError(
                f"{self.path} is in use by process {holder}; wait for it, or take another --run."
            ) from None

    def require_new(self) -> None:
        """Refuse to begin where a trained run has lost its model and checkpoints: beginning would overwrite it."""
        if any(path.exists() and path.stat().st_size for path in (self.metrics, self.episodes)) and self.model.exists():
            raise CheckpointError(
                f"{self.path} holds a trained run without sound model and checkpoints: it cannot go on, and beginning "
                "anew would overwrite it. Take another folder, or delete this one."
            )

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._lock.is_locked

    def release(self) -> None:
        """Let another process have the folder."""
        if self.held:
            (self.path / "run.pid").unlink(missing_ok=True)
            self._lock.release()

    def config(self) -> Config:
        """The configuration in the folder."""
        try:
            return from_dict(self.record()["config"])
        except UsageError as error:
            raise CheckpointError(f"{self.path / 'config.json'} is damaged: {error}") from error

    def record(self) -> dict[str, Any]:
        """config.json: configuration, versions, commit."""
        record = read_json(self.path / "config.json", NO_RUN)
        if not isinstance(record.get("config"), dict):
            raise CheckpointError(f"{self.path} {NO_RUN}.")
        return record

    def finished(self) -> bool:
        """Whether the run was trained and evaluated to its end."""
        return self.evaluation.exists()

    def saved_steps(self) -> list[Path]:
        """Checkpoint folders, newest first."""
        return sorted((p for p in self.checkpoints.glob("step_*") if p.name[5:].isdecimal()), reverse=True)


def read_json(path: Path, complaint: str) -> dict[str, Any]:
    """A JSON object of a run, or a sentence."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.parent} {complaint}.") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path.parent} {complaint}.")
    return found


def same_run(there: Config, asked: Config, path: Path) -> None:
    """Refuse a folder whose configuration differs, naming the differences."""
    a, b = to_dict(there), to_dict(asked)
    shown = {k: [v if v != "" else "not set" for v in (a[k], b[k])] for k in a if a[k] != b[k] and k not in FREE}
    differences = [f"{flag(k)} {there} there, {asked} asked" for k, (there, asked) in shown.items()]
    if differences:
        raise UsageError(
            f"{path} holds another run ({'; '.join(differences)}). Take another folder, or the same values."
        )


@cache
def versions() -> dict[str, str]:
    """What the run's numbers may depend on."""
    names = ("sacd", "torch", "numpy", "gymnasium", "ale-py")
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def commit() -> str:
    """The git commit of the source, `-dirty` with uncommitted changes; unknown where the source is not in git."""
    here = Path(__file__)
    try:
        git = ["git", "-C", str(here.parent)]
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, timeout=5, check=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(describe, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
