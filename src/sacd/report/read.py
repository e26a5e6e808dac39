"""A run's files as data."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sacd.config import Config
from sacd.envs import names
from sacd.errors import CheckpointError
from sacd.runs import RunFolder, read_json


@dataclass(frozen=True)
class Run:
    """One run, finished or not."""

    path: Path
    config: Config
    record: dict[str, Any]
    episodes: dict[str, NDArray]  # step, score, length
    metrics: list[dict[str, Any]]
    evaluation: dict[str, Any] | None

    @property
    def game(self) -> str:
        return names.short(self.config.env)


def read_run(folder: RunFolder) -> Run:
    """Everything a report needs of a run."""
    rows = read_rows(folder.episodes)
    episodes = {k: np.array([row[k] for row in rows]) for k in ("step", "score", "length")}
    evaluation = read_json(folder.evaluation, "has a damaged evaluation.json") if folder.finished() else None
    return Run(folder.path, folder.config(), folder.record(), episodes, read_rows(folder.metrics), evaluation)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a JSONL file; a last one that is still being written is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


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
