"""The statistics of scores, in NumPy. Seeds are the runs of a game; a game's scores are the means of its seeds.

Aggregates, performance profile, probability of improvement and their intervals follow Agarwal et al. 2021, "Deep
Reinforcement Learning at the Edge of the Statistical Precipice"; games may have unequally many seeds here. All take
scores as a list of games, each with an array (…, seeds) of which the leading dimensions are bootstrap samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sacd.report.paper import FACTS, Facts

Games = Sequence[NDArray]
REPEATS = 5000  # bootstrap samples
SPAN = (2.5, 97.5)  # percentiles: a 95 % interval
TRIM = 0.25  # of the scores at either end, which the interquartile mean leaves out
GAMMA = 1.0  # the optimality gap counts up to this: a human's score
PONG_SHIFT = 21.0  # what the paper adds to every Pong score before it takes ratios


def mean_sd(seeds: Sequence[float]) -> tuple[float, float]:
    """Mean and sample SD (ddof = 1); NaN where there are too few seeds for one."""
    values = np.asarray(seeds, float)
    mean = float(values.mean()) if len(values) else np.nan
    return mean, float(values.std(ddof=1)) if len(values) > 1 else np.nan


def relative(game: str, score: float) -> float:
    """The paper's relative performance, (score - Rainbow) / Rainbow."""
    shift = PONG_SHIFT if game == "Pong" else 0.0
    rainbow = FACTS[game].rainbow + shift
    return (score + shift - rainbow) / rainbow


@dataclass(frozen=True)
class Headline:
    """What the paper's abstract rests on."""

    wins: int
    games: int
    median: float
    most: float
    least: float

    def told(self) -> str:
        """In the paper's words' order."""
        return (
            f"better than Rainbow in {self.wins} of {self.games} games, median {percent(self.median)}, "
            f"maximum {percent(self.most)}, minimum {percent(self.least)}"
        )


def headline(scores: Mapping[str, float]) -> Headline:
    """Of mean scores by game."""
    found = np.array([relative(game, score) for game, score in scores.items()])
    return Headline(int((found > 0).sum()), len(found), float(np.median(found)), float(found.max()), float(found.min()))


def percent(share: float) -> str:
    """A share in whole percent, of three digits at most, as the paper writes it."""
    whole = round(100 * share)
    return f"{float(f'{whole:.3g}'):+.0f} %" if whole else "0 %"


def normalised(facts: Facts, scores: ArrayLike) -> NDArray:
    """Human-normalised: 0 is the random player, 1 the human."""
    return (np.asarray(scores, float) - facts.norm_random) / (facts.norm_human - facts.norm_random)


def iqm(games: Games) -> NDArray:
    """The interquartile mean of all runs of all games together."""
    runs = np.sort(np.concatenate(games, -1), -1)
    cut = int(TRIM * runs.shape[-1])
    return runs[..., cut : runs.shape[-1] - cut].mean(-1)


def median(games: Games) -> NDArray:
    """The median of the games' means."""
    return np.median(_means(games), -1)


def mean(games: Games) -> NDArray:
    """The mean of the games' means."""
    return _means(games).mean(-1)


def optimality_gap(games: Games) -> NDArray:
    """By how much runs fall short of a human, on average; what is better than human counts as human."""
    return GAMMA - _means([np.minimum(game, GAMMA) for game in games]).mean(-1)


def _means(games: Games) -> NDArray:
    return np.stack([game.mean(-1) for game in games], -1)


AGGREGATES: dict[str, Callable[[Games], NDArray]] = {
    "IQM": iqm, "median": median, "mean": mean, "optimality gap": optimality_gap
}  # fmt: skip


def profile(games: Games, levels: NDArray) -> NDArray:
    """The share of runs that score above each level: (…, levels)."""
    runs = np.sort(np.concatenate(games, -1), -1)
    above = [runs.shape[-1] - np.searchsorted(row, levels, "right") for row in runs.reshape(-1, runs.shape[-1])]
    return np.reshape(above, (*runs.shape[:-1], len(levels))) / runs.shape[-1]


def improvement(ours: Games, theirs: Games) -> NDArray:
    """The chance that one of our runs beats one of theirs in a game, ties half, averaged over games."""
    return np.stack([_beats(x, y) for x, y in zip(ours, theirs, strict=True)], -1).mean(-1)


def _beats(x: NDArray, y: NDArray) -> NDArray:
    x, y = x[..., :, None], y[..., None, :]
    return ((x > y) + 0.5 * (x == y)).mean((-2, -1))


def resampled(games: Games, stream: int = 0) -> list[NDArray]:
    """Stratified bootstrap: each game's runs drawn anew with replacement, (REPEATS, seeds). The same every time."""
    rng = np.random.default_rng(stream)
    return [game[rng.integers(len(game), size=(REPEATS, len(game)))] for game in games]


def interval(found: NDArray) -> NDArray:
    """The percentile interval of bootstrap samples, along the first dimension: (2, …)."""
    return np.percentile(found, SPAN, axis=0)
