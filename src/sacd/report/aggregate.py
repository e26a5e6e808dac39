"""Human-normalised scores over games, with 95 % intervals: the author's, ours, the random player's.

Only for 15 games are the author's seeds published, so each of ours is aggregated over those too: only what covers the
same games can be compared.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sacd.report.baseline import Baseline
from sacd.report.compare import rounded
from sacd.report.experiment import Block, Experiment
from sacd.report.paper import FACTS
from sacd.report.read import POLICIES
from sacd.report.scores import AGGREGATES, improvement, interval, mean, median, normalised, resampled

AUTHOR = "the author's seeds"
OF_MEANS = (median, mean)  # aggregates that need no more than the games' means
KNOWN = [facts.game for facts in FACTS.values() if facts.seeds]
EXPLAINED = (
    "Human-normalised scores (0: random player, 1: human) of the seeds' means; in brackets 95 % intervals by "
    "stratified bootstrap. Only rows that cover the same games can be compared: those of "
    f"which the author's seeds are published ({len(KNOWN)}) and which all configurations here have played, or all."
)


@dataclass(frozen=True)
class Sample:
    """Normalised seed means of some games, and whose they are."""

    who: str
    known: bool  # only games whose author's seeds are known, and which everybody has played
    games: dict[str, NDArray]

    @property
    def told(self) -> str:
        """How many games, and of which."""
        return str(len(self.games)) if self.known else f"{len(self.games)} (all)"

    @property
    def seeds(self) -> str:
        counts = sorted({len(seeds) for seeds in self.games.values()})
        return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))

    def aggregates(self) -> dict[str, tuple[float, float, float]]:
        """Each aggregate's value, and the ends of its interval."""
        games = list(self.games.values())
        drawn = resampled(games)
        found = {name: (function(games), *interval(function(drawn))) for name, function in AGGREGATES.items()}
        return {name: (float(value), float(low), float(high)) for name, (value, low, high) in found.items()}


def who(block: str, policy: str) -> str:
    """A sample of ours."""
    return f"here: {block}, {policy}"


def samples(found: Experiment) -> list[Sample]:
    """All there is to aggregate, the author's first; what has no game is left out, for it has no aggregate."""
    ours = [scores for block in found.blocks if (scores := block.normalised("greedy"))]
    common = [game for game in KNOWN if all(game in scores for scores in ours)]
    drawn = [Sample(AUTHOR, True, {game: normalised(FACTS[game], FACTS[game].seeds) for game in common or KNOWN})]
    for known, games in ((True, common), (False, list(FACTS))):
        for block in found.blocks:
            drawn += [Sample(who(block.name, p), known, _of(block.normalised(p), games)) for p in POLICIES]
        drawn += [Sample(f"here: {name}", known, _random(played, games)) for name, played in found.baselines.items()]
    return [sample for sample in drawn if sample.games]


def _of(scores: dict[str, NDArray], games: list[str]) -> dict[str, NDArray]:
    return {game: scores[game] for game in games if game in scores}


def _random(played: Baseline, games: list[str]) -> dict[str, NDArray]:
    return {game: normalised(FACTS[game], played.means(game)) for game in games if game in played.games}


def aggregate_rows(found: Experiment) -> list[tuple[str, ...]]:
    """Every sample's aggregates as text, the head first."""
    told = [("whose", "games", "seeds", *AGGREGATES)]
    for sample in samples(found):
        values = [f"{value:z.4f} [{low:z.4f}, {high:z.4f}]" for value, low, high in sample.aggregates().values()]
        told.append((sample.who, sample.told, sample.seeds, *values))
    return [*told, _published()]


def _published() -> tuple[str, ...]:
    """What can be said of the paper's own means: of all games, but of no run."""
    games = [normalised(facts, [facts.sac_mean]) for facts in FACTS.values()]
    values = [f"{function(games):z.4f}" if function in OF_MEANS else "n/a" for function in AGGREGATES.values()]
    return ("the paper's means", f"{len(games)} (all)", "n/a", *values)


def improvement_rows(found: Experiment) -> list[tuple[str, ...]]:
    """The probabilities of improvement over the author as text, the head first."""
    told: list[tuple[str, ...]] = [("whose", "games", "P(ours > the author's)")]
    for block in found.blocks:
        games = str(sum(bool(cell.finished and cell.facts.seeds) for cell in block.cells))
        for policy in POLICIES:
            value = over_author(block, policy)
            said = f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" if value else "n/a"
            told.append((who(block.name, policy), games, said))
    return told


def over_author(block: Block, policy: str) -> tuple[float, float, float] | None:
    """The probability that a run of ours beats one of the author's, over the games whose seeds are known."""
    cells = [cell for cell in block.cells if cell.finished and cell.facts.seeds]
    if not cells:
        return None
    ours, his = [rounded(cell.means(policy)) for cell in cells], [np.array(cell.facts.seeds) for cell in cells]
    low, high = interval(improvement(resampled(ours, 0), resampled(his, 1)))
    return float(improvement(ours, his)), float(low), float(high)
