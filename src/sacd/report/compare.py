"""Our seeds against the author's, game by game.

The rule: our greedy mean over seeds is `inside` where it lies in the range of the author's five seed means, ends
included, else `above` or `below`. Where the paper gives only their mean and SD the range is estimated, as the expected
range of five normal draws with these; the verdict says so. Scores are rounded to two decimals first, as his are.
A mean inside a range of five seeds is weak evidence: how many of our seeds lie in it, and the probability that one of
ours beats one of his, stand beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sacd.report.paper import Facts
from sacd.report.scores import improvement

HALF_RANGE = 1.163  # SDs: half the expected range of five normal draws (2.326, the constant d2 of control charts)
DECIMALS = 2  # of the author's per-seed scores


@dataclass(frozen=True)
class Comparison:
    """Where our seeds of a game fall."""

    low: float  # the author's range
    high: float
    estimated: bool  # from mean and SD: his seeds of this game are not published
    within: int  # of our seeds
    better: float | None  # the probability that one of our seeds beats one of his
    verdict: str  # inside, above or below

    def told(self) -> str:
        return self.verdict + " (estimated)" * self.estimated


def compare(facts: Facts, seeds: Sequence[float]) -> Comparison:
    """Our seed means (one at least) against the author's."""
    ours = rounded(seeds)
    low, high = author_range(facts)
    mean = round(float(np.mean(seeds)), DECIMALS)
    verdict = "below" if mean < low else "above" if mean > high else "inside"
    better = float(improvement([ours], [np.array(facts.seeds)])) if facts.seeds else None
    return Comparison(low, high, not facts.seeds, int(((low <= ours) & (ours <= high)).sum()), better, verdict)


def rounded(seeds: Sequence[float]) -> NDArray:
    """As the author's are, so that equal scores are equal."""
    return np.round(np.asarray(seeds, float), DECIMALS)


def author_range(facts: Facts) -> tuple[float, float]:
    """The author's lowest and highest seed, known or expected."""
    if facts.seeds:
        return min(facts.seeds), max(facts.seeds)
    half = HALF_RANGE * facts.sac_sd
    return round(facts.sac - half, DECIMALS), round(facts.sac + half, DECIMALS)
