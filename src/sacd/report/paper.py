"""The paper's experiment as published: its table, the author's per-seed scores, and what scores are normalised by.

The figures lie in data/*.csv, each file with its source on top.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from importlib import resources

from sacd.envs.names import PAPER_GAMES

SEEDS = 5  # of each game
SOURCES = {"simple": "Kaiser et al. 2019", "author": "the author's own run of Dopamine"}  # whose Rainbow it is


@dataclass(frozen=True)
class Facts:
    """What is known of one game."""

    game: str
    random: float  # of the paper's table, as are the next four
    rainbow: float
    rainbow_source: str
    sac: float
    sac_sd: float  # ddof = 1, over five seeds' means
    seeds: tuple[float, ...]  # the author's, each the mean of 30 games; () where none are published
    norm_random: float
    norm_human: float

    @property
    def sac_mean(self) -> float:
        """The table's mean before it was rounded, where the seeds are known."""
        return sum(self.seeds) / len(self.seeds) if self.seeds else self.sac


def _read(name: str) -> list[dict[str, str]]:
    """The rows of a data file; lines that begin with # say where they come from."""
    text = resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _facts() -> dict[str, Facts]:
    seeds = defaultdict(list)
    for row in _read("author_seeds.csv"):
        seeds[row["game"]].append(float(row["score"]))
    norm = {row["game"]: row for row in _read("normalisation.csv")}
    table = {row["game"]: row for row in _read("paper_table.csv")}
    return {game: _of(game, table[game], tuple(seeds[game]), norm[game]) for game in PAPER_GAMES}


def _of(game: str, row: dict[str, str], seeds: tuple[float, ...], norm: dict[str, str]) -> Facts:
    return Facts(
        game=game, random=float(row["random"]), rainbow=float(row["rainbow"]),
        rainbow_source=SOURCES[row["rainbow_source"]], sac=float(row["sac"]), sac_sd=float(row["sac_sd"]),
        seeds=seeds, norm_random=float(norm["random"]), norm_human=float(norm["human"]),
    )  # fmt: skip


FACTS = _facts()
