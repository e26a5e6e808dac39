"""A run's files as data. What they cannot be is an error that names the file, never a number left out in silence."""

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from sacd.config import Config
from sacd.envs import names
from sacd.errors import CheckpointError
from sacd.runs import RunFolder, read_json

EPISODE = ("step", "score", "length")
UPDATE = ("alpha", "entropy", "entropy_share")  # of a metrics row; before the first update it has none of them
POLICIES = ("greedy", "sampled")
PACKED = ".zst"  # what a compressed log's name has on top
DAMAGED = "has a damaged evaluation.json (delete it, and 'sacd train' plays the final games again)"


@dataclass(frozen=True)
class Run:
    """One run, finished or not."""

    path: Path
    config: Config
    episodes: dict[str, NDArray]  # step, score, length
    metrics: list[dict[str, Any]]
    evaluation: dict[str, Any] | None
    versions: dict[str, str]  # of what its numbers may depend on
    commit: str

    @property
    def game(self) -> str:
        return names.short(self.config.env)

    @property
    def reached(self) -> int:
        """The step up to which something is known of it."""
        rows = [m["step"] for m in self.metrics[-1:]] + self.episodes["step"][-1:].tolist()
        return self.config.steps if self.evaluation else max(rows, default=0)


def read_run(folder: RunFolder) -> Run:
    """Everything a report needs of a run."""
    rows = read_rows(folder.episodes, EPISODE)
    episodes = {k: np.array([row[k] for row in rows]) for k in EPISODE}
    metrics = read_rows(folder.metrics, ("step",), UPDATE)
    evaluation = _evaluation(folder) if folder.finished() else None
    record = folder.record()
    versions = record.get("versions")
    told = {str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {}
    return Run(folder.path, folder.config(), episodes, metrics, evaluation, told, str(record.get("commit", "unknown")))


def read_log(path: Path) -> bytes:
    """A log as it was written, or as an archive keeps it (`.jsonl.zst`); nothing where there is neither."""
    packed = path.with_name(path.name + PACKED)
    try:
        if path.exists() or not packed.exists():
            return path.read_bytes() if path.exists() else b""
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        data = unpacker.decompress(packed.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error
    except zstandard.ZstdError as error:
        raise CheckpointError(f"{packed} is damaged: {error}.") from error
    if not unpacker.eof:
        raise CheckpointError(f"{packed} is truncated.")
    return data


def read_rows(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The rows of a JSONL file, with numbers where they are needed; a last one still being written is left out."""
    lines = read_log(path).decode(errors="replace").splitlines()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                break
            raise CheckpointError(f"{path} is damaged: row {number} is not JSON.") from error
        if not isinstance(row, dict):
            raise CheckpointError(f"{path} is damaged: row {number} is not a row of a run.")
        bad = [k for k in needed if not _number(row.get(k))] + [k for k in optional if not _number(row.get(k, 0))]
        if bad:
            raise CheckpointError(f"{path} is damaged: row {number} has no number for {', '.join(bad)}.")
        rows.append(row)
    return rows


def _evaluation(folder: RunFolder) -> dict[str, Any]:
    """The final scores, and their mean and standard deviation; one episode has none of the latter."""
    found = read_json(folder.evaluation, DAMAGED)
    for policy in POLICIES:
        told = found[policy] if isinstance(found.get(policy), dict) else {}
        values: list[Any] = [told.get(name) for name in ("mean", "std", "scores")]
        mean, std, scores = values
        if not _number(mean) or not (std is None or _number(std)) or not numbers(scores):
            raise CheckpointError(f"{folder.path} {DAMAGED}: it has no {policy} scores.")
        if not math.isclose(mean, statistics.fmean(scores), rel_tol=1e-9, abs_tol=1e-9):
            raise CheckpointError(f"{folder.path} {DAMAGED}: its {policy} mean is not that of its scores.")
    return found


def numbers(values: Any) -> bool:
    """Whether these are numbers, one at least."""
    return isinstance(values, list) and bool(values) and all(map(_number, values))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def find(paths: list[Path]) -> list[RunFolder]:
    """Run folders among the paths given, or one level or two below them."""
    found = []
    for path in paths:
        if not path.exists():
            raise CheckpointError(f"there is no run at {path}.")
        here = [
            p.parent
            for pattern in ("config.json", "*/config.json", "*/*/config.json")
            for p in sorted(path.glob(pattern))
        ]
        if not here:
            raise CheckpointError(f"{path} holds no run (no config.json in it or below it).")
        found += here
    return [RunFolder(p) for p in dict.fromkeys(found)]


def smooth(steps: NDArray, scores: NDArray, grid: NDArray, window: int) -> NDArray:
    """At each grid step, the mean score of the last `window` episodes that ended by then; NaN before the first."""
    total = np.concatenate([[0.0], np.cumsum(scores)])
    last = np.searchsorted(steps, grid, side="right")
    first = np.maximum(last - window, 0)
    return np.where(last > 0, (total[last] - total[first]) / np.maximum(last - first, 1), np.nan)
