"""What a run says while it runs: rows to metrics.jsonl and episodes.jsonl, and a line of numbers for people.

Updates leave tensors; a sample of them is reduced and brought to the host, and written when a row is due. Files
are only ever appended to; a resumed run first cuts them back to the length its checkpoint remembers.
"""

import contextlib
import json
import math
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from sacd.errors import AFTER, CheckpointError, DivergedError
from sacd.files import writing
from sacd.types import Episode, Out

SAMPLES = 32  # updates that enter a row at most: their mean is as good, and costs nothing


class Samples:
    """Numbers of sampled updates, left where they are until a row or a checkpoint needs them: one transfer for all."""

    def __init__(self, logs: "list[RunLog]"):
        self.logs, self.waiting = logs, list[Tensor]()
        self.names: tuple[str, ...] = ()

    def add(self, out: Out, updates: int) -> None:
        """The update with this number, if it enters the next row."""
        if updates % self.logs[0].stride == 0:
            found = out.metrics()
            self.names = tuple(found)
            self.waiting.append(torch.stack(list(found.values())))  # (M, R)

    def drain(self) -> None:
        """Hand what has gathered to the runs' logs, in order."""
        if self.waiting:
            for numbers in torch.stack(self.waiting).tolist():  # (M, R)
                for log, mine in zip(self.logs, zip(*numbers, strict=True), strict=True):
                    log.update(dict(zip(self.names, mine, strict=True)))
            self.waiting = []


class RunLog:
    """One run's two logs."""

    def __init__(self, metrics: Path, episodes: Path, updates_a_row: float, max_entropy: float):
        self.paths = {"metrics": metrics, "episodes": episodes}
        self.stride = max(1, int(updates_a_row / SAMPLES))
        self.max_entropy = max_entropy
        self.sums: dict[str, float] = {}
        self.count = self.finished = 0
        self.recent: deque[float] = deque(maxlen=100)
        self.row: dict[str, Any] = {}
        self.files: dict[str, TextIO] = {}
        self._mark = (time.monotonic(), 0)

    def open(self, saved: dict[str, Any] | None) -> None:
        """Begin, or go on where a checkpoint was written."""
        if saved:
            self.sums, self.count, self.finished = saved["sums"], saved["count"], saved["finished"]
            self.recent.extend(saved["recent"])
        for name, path in self.paths.items():
            with writing(path):
                path.touch()
                length = saved["bytes"][name] if saved else 0
                if path.stat().st_size < length:
                    raise CheckpointError(
                        f"{path} is shorter than its checkpoint remembers: rows were lost. Take another --run."
                    )
                os.truncate(path, length)
                self.files[name] = path.open("a")

    def save(self) -> dict[str, Any]:
        """What `open` needs to go on from here."""
        self._flush(to_disk=True)
        size = {name: path.stat().st_size for name, path in self.paths.items()}
        memory = {"sums": self.sums, "count": self.count, "finished": self.finished, "recent": list(self.recent)}
        return {"bytes": size, **memory}

    def episode(self, step: int, episode: Episode, lane: int) -> None:
        """A finished episode, `step` agent steps into the run."""
        self.recent.append(episode.score)
        self.finished += 1
        self._write("episodes", {"step": step, "lane": lane, "score": episode.score, "length": episode.length})

    def update(self, numbers: dict[str, float]) -> None:
        """An update's numbers."""
        for name, value in numbers.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def write_row(self, step: int, updates: int) -> dict[str, Any]:
        """The row that is due at this step; a number in it that is not finite ends the run."""
        now = time.monotonic()
        rate = (step - self._mark[1]) / max(now - self._mark[0], 1e-9)
        self._mark = (now, step)
        row: dict[str, Any] = {"step": step, "updates": updates, "steps_per_second": round(rate, 2)}
        row |= {"episodes": self.finished}
        if self.recent:
            row["score_mean_100"] = sum(self.recent) / len(self.recent)
        means = {k: v / self.count for k, v in self.sums.items()}
        if means:
            means["entropy_share"] = means["entropy"] / self.max_entropy if self.max_entropy else 1.0
        bad = [k for k, v in means.items() if not math.isfinite(v)]
        if bad:
            raise DivergedError(f"at step {step} {', '.join(bad)} is not finite: the run diverged. {AFTER}")
        self.row, self.sums, self.count = row | means, {}, 0
        self._write("metrics", self.row)
        self._flush()
        return self.row

    def start_clock(self, step: int) -> None:
        """Rates count from here."""
        self._mark = (time.monotonic(), step)

    def close(self) -> None:
        for file in self.files.values():
            with contextlib.suppress(OSError):  # what could not be written was said when it was due
                file.close()

    def _write(self, name: str, row: dict[str, Any]) -> None:
        with writing(self.paths[name]):
            self.files[name].write(json.dumps(row, allow_nan=False) + "\n")

    def _flush(self, to_disk: bool = False) -> None:
        for name, file in self.files.items():
            with writing(self.paths[name]):
                file.flush()
                if to_disk:
                    os.fsync(file.fileno())
