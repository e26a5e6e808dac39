"""Runs of the paper's games as an experiment: a block for each configuration, in it a cell for each of the 20 games.

A game without runs has a cell too, an empty one: nothing that is missing can be overlooked by what is made from blocks.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sacd.config import Config
from sacd.envs import names
from sacd.report.baseline import Baseline, baseline
from sacd.report.compare import Comparison, compare
from sacd.report.groups import COMPARED, describe
from sacd.report.paper import FACTS, SEEDS, Facts
from sacd.report.read import Run
from sacd.report.scores import Headline, headline, mean_sd, normalised

ACROSS = [name for name in COMPARED if name != "env"]  # what runs of a block have in common


@dataclass(frozen=True)
class Cell:
    """The runs of one game in one configuration; there may be none."""

    facts: Facts
    runs: list[Run]

    @property
    def game(self) -> str:
        return self.facts.game

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.evaluation]

    def means(self, policy: str) -> list[float]:
        """The finished seeds' mean scores."""
        return [float(np.mean(run.evaluation[policy]["scores"])) for run in self.finished if run.evaluation]

    @property
    def seeds(self) -> str:
        """How many seeds have scores, and of how many where that is fewer than begun or than the paper's."""
        done, wanted = len(self.finished), max(len(self.runs), SEEDS)
        return "no runs" if not self.runs else f"{done}" if done == wanted else f"{done} of {wanted}"

    @cached_property
    def comparison(self) -> Comparison | None:
        """Against the author's seeds, once there is a score."""
        return compare(self.facts, self.means("greedy")) if self.finished else None


@dataclass(frozen=True)
class Block:
    """All runs of one configuration."""

    name: str
    cells: list[Cell]  # of all of the paper's games, in its order
    baseline: Baseline  # beside these runs

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    @property
    def config(self) -> Config:
        return self.runs[0].config

    @property
    def headline(self) -> Headline | None:
        """Of the greedy means of the games that have any."""
        found = {cell.game: mean_sd(cell.means("greedy"))[0] for cell in self.cells if cell.finished}
        return headline(found) if found else None

    def told(self) -> str:
        """The headline in words, with what it is missing."""
        found = self.headline
        return (found.told() if found else "no run is finished") + self.missing

    @property
    def missing(self) -> str:
        """In words, what there is less of than in the paper; nothing where there is nothing."""
        none = sum(not cell.finished for cell in self.cells)
        few = sum(0 < len(cell.finished) < SEEDS for cell in self.cells)
        counted = ((none, "without scores"), (few, f"with fewer than {SEEDS} seeds"))
        said = [f"{n} game{'s' * (n > 1)} {what}" for n, what in counted if n]
        return f" ({', '.join(said)})" if said else ""

    @property
    def verdicts(self) -> dict[str, list[str]]:
        """Games by where our mean lies: inside the author's range, above or below it, or not known."""
        found: dict[str, list[str]] = {"inside": [], "above": [], "below": [], "no score": []}
        for cell in self.cells:
            found[cell.comparison.verdict if cell.comparison else "no score"].append(cell.game)
        return {verdict: games for verdict, games in found.items() if games}

    @property
    def origin(self) -> dict[str, str]:
        """Commits and versions that the runs were made with; where they differ, each with its number of runs."""
        names = dict.fromkeys(name for run in self.runs for name in run.versions)
        found = {"commit": Counter(run.commit for run in self.runs)}
        found |= {name: Counter(run.versions.get(name, "unknown") for run in self.runs) for name in names}
        return {name: _counted(seen) for name, seen in found.items()}

    def normalised(self, policy: str) -> dict[str, NDArray]:
        """Human-normalised seed means of games that have any."""
        return {cell.game: normalised(cell.facts, cell.means(policy)) for cell in self.cells if cell.finished}


@dataclass(frozen=True)
class Experiment:
    """What a report of the paper's games is made from."""

    blocks: list[Block]

    @cached_property
    def baselines(self) -> dict[str, Baseline]:
        """The random players that were measured: one, or one for each block that has its own."""
        found: dict[str, Baseline] = {}
        for block in self.blocks:
            if block.baseline.games and block.baseline not in found.values():
                found[f"random player ({block.name})" if found else "random player"] = block.baseline
        return found


def experiment(runs: list[Run]) -> Experiment:
    """Blocks of the runs of the paper's games, the one with the most runs first; other runs are left to the table.

    Runs belong together whose configurations are told in the same words, as departures from a preset: that it sets a
    field otherwise in one game (author, three frames a step in SpaceInvaders) makes no other experiment.
    """
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if names.is_atari(run.config.env) and run.game in FACTS:
            found[describe(run.config, ACROSS).removeprefix("as ")].append(run)
    blocks = [_block(name, mine) for name, mine in found.items()]
    return Experiment(sorted(blocks, key=lambda block: (-len(block.runs), block.name)))


def _counted(seen: Counter[str]) -> str:
    if len(seen) == 1:
        return next(iter(seen))
    return ", ".join(f"{value} ({count} runs)" for value, count in sorted(seen.items()))


def _block(name: str, runs: list[Run]) -> Block:
    by_seed = sorted(runs, key=lambda run: run.config.seed)
    cells = [Cell(facts, [run for run in by_seed if run.game == game]) for game, facts in FACTS.items()]
    return Block(name, cells, baseline(run.path for run in runs))
