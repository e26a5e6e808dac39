"""The report's statistics: the paper's own headline, rliable's numbers, and slow loops over a fixed array."""

import itertools
import math
import statistics

import numpy as np
import pytest

from sacd.envs.names import PAPER_GAMES
from sacd.report import scores
from sacd.report.paper import FACTS, SEEDS

X = np.array([[((7 * r + 3 * g) % 11) / 10 + g / 20 - 0.1 for g in range(6)] for r in range(5)])  # runs, games
Y = np.array([[((5 * r + 8 * g) % 13) / 10 for g in range(6)] for r in range(4)])
Y[0, 0] = X[1, 0]
# What rliable 1.2.0 gives for X and Y (pandas 2.3, arch 7.2, scipy 1.17): aggregate_iqm, aggregate_median,
# aggregate_mean, aggregate_optimality_gap; probability_of_improvement(X, Y); and with 50,000 repetitions the intervals
# of get_interval_estimates and create_performance_profile (taus 0, 0.25, 0.5, 0.75, 1).
OF_X = (0.525, 0.525, 0.525, 0.48)
OF_Y = (0.55, 0.5625, 0.5541666666666667, 0.4583333333333333)
INTERVALS = [(0.3625, 0.684375), (0.395, 0.655), (0.411666667, 0.635), (0.371666667, 0.59)]
IMPROVEMENT, OF_IMPROVEMENT = 0.4791666666666667, (0.30833333, 0.63333333)
LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
PROFILE = [0.96666667, 0.66666667, 0.53333333, 0.33333333, 0.03333333]
OF_PROFILE = [[0.9, 0.5, 0.36666667, 0.16666667, 0.0], [1.0, 0.83333333, 0.7, 0.5, 0.1]]
NAMES = ("IQM", "median", "mean", "optimality gap")


def slow(name: str, games: list[list[float]]) -> float:
    """An aggregate in plain loops."""
    means = [statistics.fmean(game) for game in games]
    runs = sorted(itertools.chain(*games))
    quarter = len(runs) // 4
    if name == "IQM":
        return statistics.fmean(runs[quarter : len(runs) - quarter])
    if name == "optimality gap":
        return statistics.fmean(statistics.fmean(max(0.0, 1 - run) for run in game) for game in games)
    return statistics.median(means) if name == "median" else statistics.fmean(means)


def columns(matrix: np.ndarray) -> list[np.ndarray]:
    """A game each."""
    return list(matrix.T)


def test_the_papers_headline():
    """From the paper's table: better in 10 of 20 games, median -1 %, minimum -99 %; the maximum is Freeway's."""
    found = scores.headline({game: facts.sac for game, facts in FACTS.items()})
    assert (found.wins, found.games) == (10, 20)
    assert [scores.percent(v) for v in (found.median, found.least)] == ["-1 %", "-99 %"]
    assert scores.percent(found.most) == scores.percent(scores.relative("Freeway", 4.4)) == "+4300 %"


def test_the_papers_headline_before_rounding():
    """Its +4330 % is that of Freeway's mean before the table rounded it to 4.4: 22.17 / 5."""
    found = scores.headline({game: facts.sac_mean for game, facts in FACTS.items()})
    assert found.told() == "better than Rainbow in 10 of 20 games, median -1 %, maximum +4330 %, minimum -99 %"


def test_facts_are_of_the_papers_games():
    """Twenty games, in the table's order; the author's five seeds of fifteen of them give the table's mean and SD."""
    assert tuple(FACTS) == PAPER_GAMES and len(FACTS) == 20
    known = [facts for facts in FACTS.values() if facts.seeds]
    assert len(known) == 15 and {len(facts.seeds) for facts in known} == {SEEDS}
    for facts in known:
        mean, sd = scores.mean_sd(facts.seeds)
        assert abs(mean - facts.sac) <= 0.0501 and abs(sd - facts.sac_sd) <= 0.0501, facts.game
    ours = {facts.game for facts in FACTS.values() if "own run" in facts.rainbow_source}
    assert ours == {"Enduro", "SpaceInvaders"}
    assert all(facts.norm_human > facts.norm_random for facts in FACTS.values())


def test_pong_is_shifted():
    """21 is added to every Pong score before the ratio: -21 is the least there can be, -100 %."""
    assert scores.relative("Pong", -21.0) == -1.0
    assert scores.relative("Pong", -18.0) == pytest.approx(1.0)
    assert scores.relative("Breakout", 6.6) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("share", "shown"),
    [(43.34, "+4330 %"), (0.0, "0 %"), (-0.0109, "-1 %"), (-0.987, "-99 %"), (0.004, "0 %"), (1.234, "+123 %")],
)
def test_percent(share, shown):
    """Whole percent, three digits at most."""
    assert scores.percent(share) == shown


def test_mean_and_sample_sd():
    """SD over seeds has n - 1 below; one seed has none, no seed not even a mean."""
    assert scores.mean_sd([1.0, 2.0, 6.0]) == (3.0, statistics.stdev([1, 2, 6]))
    one, none = scores.mean_sd([2.0]), scores.mean_sd([])
    assert one[0] == 2.0 and math.isnan(one[1]) and all(map(math.isnan, none))


def test_human_normalised():
    """The random player is 0, the human 1."""
    pong = FACTS["Pong"]
    np.testing.assert_allclose(scores.normalised(pong, [pong.norm_random, pong.norm_human]), [0, 1])
    np.testing.assert_allclose(scores.normalised(FACTS["Breakout"], [16.1]), [0.5])


@pytest.mark.parametrize(("matrix", "theirs"), [(X, OF_X), (Y, OF_Y)])
def test_aggregates_are_rliables(matrix, theirs):
    """IQM, median, mean and optimality gap, as rliable gives them and as loops do."""
    assert tuple(scores.AGGREGATES) == NAMES
    for name, wanted in zip(NAMES, theirs, strict=True):
        found = float(scores.AGGREGATES[name](columns(matrix)))
        assert found == pytest.approx(wanted, abs=1e-12)
        assert found == pytest.approx(slow(name, matrix.T.tolist()), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_aggregates_of_unequal_games(name):
    """Games may have unequally many seeds: median, mean and gap weigh games alike, IQM weighs runs."""
    games = [[0.1, 0.9, 1.4], [0.2], [0.3, 2.5, -0.2, 0.4]]
    found = float(scores.AGGREGATES[name]([np.array(game) for game in games]))
    assert found == pytest.approx(slow(name, games), abs=1e-12)


def test_intervals_are_rliables():
    """95 % intervals by stratified bootstrap come out where rliable's do, but for chance."""
    drawn = scores.resampled(columns(X))
    for name, (low, high) in zip(NAMES, INTERVALS, strict=True):
        found = scores.interval(scores.AGGREGATES[name](drawn))
        np.testing.assert_allclose(found, (low, high), atol=0.02)
    assert all(np.isin(game, X[:, g]).all() for g, game in enumerate(drawn)), "a game's runs come from that game"
    assert [game.shape for game in drawn] == [(scores.REPEATS, 5)] * 6


def test_intervals_are_the_same_every_time():
    """A report is a function of the files."""
    first, second, other = (scores.resampled(columns(X), stream) for stream in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_performance_profile_is_rliables():
    """The share of runs strictly above each level, with its band."""
    np.testing.assert_allclose(scores.profile(columns(X), LEVELS), PROFILE, atol=1e-8)
    wanted = [sum(run > level for run in X.ravel()) / X.size for level in LEVELS]
    np.testing.assert_allclose(scores.profile(columns(X), LEVELS), wanted, atol=1e-12)
    found = scores.interval(scores.profile(scores.resampled(columns(X)), LEVELS))
    np.testing.assert_allclose(found, OF_PROFILE, atol=0.035)  # a run is a thirtieth


def test_probability_of_improvement_is_rliables():
    """The chance that a run of X beats one of Y in a game, ties half."""
    assert float(scores.improvement(columns(X), columns(Y))) == pytest.approx(IMPROVEMENT, abs=1e-12)
    pairs = [
        statistics.fmean(1.0 if x > y else 0.5 if x == y else 0.0 for x in X[:, g] for y in Y[:, g]) for g in range(6)
    ]
    assert statistics.fmean(pairs) == pytest.approx(IMPROVEMENT, abs=1e-12)
    drawn = scores.improvement(scores.resampled(columns(X), 0), scores.resampled(columns(Y), 1))
    np.testing.assert_allclose(scores.interval(drawn), OF_IMPROVEMENT, atol=0.02)
    assert scores.improvement(columns(X), columns(X)) == 0.5
