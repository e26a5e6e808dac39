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
DAMAGED = f"has a damaged {NAME} (delete it, and measure the random player again)"


@dataclass(frozen=True)
class Baseline:
    """Episodes' scores by game and seed. Where nothing was measured it has no game."""

    games: dict[str, dict[int, list[float]]]

    def means(self, game: str) -> list[float]:
        """The seeds' means; none where the game was not played."""
        return [float(np.mean(scores)) for scores in self.games.get(game, {}).values()]

    def told(self) -> str:
        """How much was played."""
        seeds = [scores for game in self.games.values() for scores in game.values()]
        return f"{len(self.games)} games, {len(seeds)} seeds, {sum(map(len, seeds)):,} episodes in all"


def beside(runs: Iterable[Path]) -> list[Path]:
    """Each random.json that lies beside one of these runs."""
    paths = dict.fromkeys(run.resolve().parent / NAME for run in runs)
    return [path for path in paths if path.exists()]


def baseline(runs: Iterable[Path]) -> Baseline:
    """All random scores beside these runs."""
    games: dict[str, dict[int, list[float]]] = {}
    for path in beside(runs):
        for game, seeds in read_random(path).items():
            if games.setdefault(game, seeds) != seeds:
                raise UsageError(f"{path} differs from another {NAME} in {game}: report on these runs apart.")
    return Baseline(games)


def read_random(path: Path) -> dict[str, dict[int, list[float]]]:
    """A random.json's scores."""
    games = read_json(path, DAMAGED).get("games")
    if not isinstance(games, dict):
        raise CheckpointError(f"{path.parent} {DAMAGED}: it has no games.")
    return {game: _seeds(found, game, path) for game, found in games.items()}


def _seeds(found: Any, game: str, path: Path) -> dict[int, list[float]]:
    """The seeds' numbers are written beside their scores; where they are not, they count from 0."""
    seeds = found.get("seeds") if isinstance(found, dict) else None
    if isinstance(seeds, list) and seeds and all(map(numbers, seeds)):
        which = found.get("numbers", list(range(len(seeds))))
        if numbers(which) and len(set(which)) == len(which) == len(seeds):
            return dict(zip(which, seeds, strict=True))
    raise CheckpointError(f"{path.parent} {DAMAGED}: it has no scores of {game}.")
