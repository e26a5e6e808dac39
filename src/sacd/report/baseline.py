"""The random player's scores that were measured here: random.json, beside the runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sacd.errors import CheckpointError, UsageError
from sacd.report.read import numbers
from sacd.runs import read_json

NAME = "random.json"
DAMAGED = f"has a damaged {NAME} (delete it, or measure the random player again)"


@dataclass(frozen=True)
class Baseline:
    """Scores by game: a list of episodes for each seed. Without a file it has no game."""

    path: Path | None
    games: dict[str, list[list[float]]]

    def means(self, game: str) -> list[float]:
        """The seeds' means; none where the game was not played."""
        return [float(np.mean(scores)) for scores in self.games.get(game, [])]


def find_baseline(folders: Iterable[Path]) -> Baseline:
    """The one random.json in these folders, if there is one."""
    paths = [p for p in dict.fromkeys(folder.resolve() / NAME for folder in folders) if p.exists()]
    if len({p.read_bytes() for p in paths}) > 1:
        raise UsageError(f"{paths[0]} and {paths[1]} differ: report on the runs beside one of them at a time.")
    return read_baseline(paths[0]) if paths else Baseline(None, {})


def read_baseline(path: Path) -> Baseline:
    """A random.json's scores."""
    games = read_json(path, DAMAGED).get("games")
    if not isinstance(games, dict):
        raise CheckpointError(f"{path.parent} {DAMAGED}: it has no games.")
    return Baseline(path, {game: _seeds(found, game, path) for game, found in games.items()})


def _seeds(found: Any, game: str, path: Path) -> list[list[float]]:
    seeds = found.get("seeds") if isinstance(found, dict) else None
    if not isinstance(seeds, list) or not seeds or not all(map(numbers, seeds)):
        raise CheckpointError(f"{path.parent} {DAMAGED}: it has no scores of {game}.")
    return seeds
