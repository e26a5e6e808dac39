"""The experiment's figures, read off before they are saved: every bar, line and level is the files'."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from paperlike import SCORES, STEPS, write_experiment, write_run
from sacd.envs.names import PAPER_GAMES
from sacd.report.aggregate import AUTHOR, KNOWN, aggregate_rows, over_author, samples
from sacd.report.charts import aggregate_bands, colours, performance_profile, relative_performance
from sacd.report.experiment import experiment
from sacd.report.grid import curves
from sacd.report.paper import FACTS
from sacd.report.read import find, read_run
from sacd.report.results import FIGURES
from sacd.report.scores import AGGREGATES, normalised, relative
from sacd.report.write import DRAWN


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The made-up experiment."""
    place = write_experiment(tmp_path_factory.mktemp("runs"))
    return experiment([read_run(folder) for folder in find([place])])


def test_every_figure_has_its_text():
    """What is drawn is what results and page show."""
    assert tuple(DRAWN) == tuple(FIGURES)


def test_bars_of_figure_1(found):
    """The paper's bar and ours for each game; a game without a score has no bar but says why."""
    ax = relative_performance(found).axes[0]
    bars = {c.get_label(): [bar.get_width() for bar in c] for c in ax.containers}
    assert list(bars) == ["SAC, paper", *(f"here, greedy: {block.name}" for block in found.blocks)]
    np.testing.assert_allclose(bars["SAC, paper"], [relative(g, f.sac_mean) for g, f in FACTS.items()])
    ours = dict(zip(PAPER_GAMES, bars[f"here, greedy: {found.blocks[0].name}"], strict=True))
    assert {game for game, width in ours.items() if np.isfinite(width)} == {"Freeway", "Pong", "Assault"}
    assert ours["Assault"] == pytest.approx((550 - 300.3) / 300.3)
    said = [text.get_text() for text in ax.texts]
    assert said.count("no runs") == 16 + 19 and "0 of 5 seeds" in said and "+83 %  (2 of 5 seeds)" in said
    assert [label.get_text() for label in ax.get_yticklabels()] == list(PAPER_GAMES)


def test_no_number_of_figure_1_leaves_it(found):
    """Every text lies within the figure."""
    figure = relative_performance(found)
    figure.draw_without_rendering()
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1


def test_curves_have_levels_seeds_and_mean(found):
    """A panel a game: three published levels, a thin line a seed, the mean as far as all have come, the final mean."""
    panels = dict(zip(PAPER_GAMES, curves(found).axes, strict=True))
    for game, ax in panels.items():
        facts = FACTS[game]
        levels = [line.get_ydata()[0] for line in ax.lines[:3]]
        assert levels == [facts.random, facts.rainbow, facts.sac_mean]
        begun = len(SCORES.get(game, [])) + (game == "Pong")
        assert sum(line.get_linewidth() == 0.7 for line in ax.lines) == begun
        assert bool(begun) == (ax.get_title("right") != "no runs")
    assert panels["Pong"].get_title("right") == "seeds: 2 of 5, 1 of 5"
    mean = next(line for line in panels["Pong"].lines if line.get_linewidth() == 2)
    x, y = mean.get_xdata(), mean.get_ydata()
    assert x[np.isfinite(y)].max() == STEPS / 2, "the mean ends where the slowest seed is"
    (final,) = (line for line in panels["Assault"].lines if line.get_marker() == "D")
    assert final.get_xydata().tolist() == [[STEPS, 550.0]]


def test_colours_are_the_blocks(found):
    """One colour a configuration, the same in every figure."""
    shades = colours(found)
    assert len(set(shades.values())) == len(found.blocks)
    bars = relative_performance(found).axes[0].containers[1:]
    assert [to_hex(bar[0].get_facecolor()) for bar in bars] == list(shades.values())


def test_samples_cover_equal_games(found):
    """First the games of the author's fifteen that every configuration has played, for everybody; then all that each
    has played, with our own numbers."""
    drawn = samples(found)
    assert len(KNOWN) == 15 and drawn[0].who == AUTHOR
    assert all(list(s.games) == ["Pong"] for s in drawn if s.known) and sum(s.known for s in drawn) > 3
    greedy = [s for s in drawn if s.who == f"here: {found.blocks[0].name}, greedy"]
    assert [list(s.games) for s in greedy] == [["Pong"], ["Freeway", "Assault", "Pong"]]
    np.testing.assert_allclose(greedy[1].games["Freeway"], normalised(FACTS["Freeway"], [0, 21, 22, 23, 10]))
    random = [s for s in drawn if "random" in s.who]
    assert [s.told for s in random] == ["1", "2 (all)"] and random[1].seeds == "1 to 2"


def test_aggregates_stand_in_their_intervals(found):
    """A value for each aggregate, between the ends of its interval; a panel each, a row a sample."""
    for sample in samples(found):
        values = sample.aggregates()
        assert tuple(values) == tuple(AGGREGATES)
        assert all(low - 1e-12 <= value <= high + 1e-12 for value, low, high in values.values())
    axes = aggregate_bands(found).axes
    assert [ax.get_title() for ax in axes] == list(AGGREGATES)
    assert [len(ax.patches) for ax in axes] == [len(samples(found))] * len(AGGREGATES)
    rows = aggregate_rows(found)
    assert len(rows) == 1 + len(samples(found)) + 1 and len({len(row) for row in rows}) == 1
    means = [normalised(facts, facts.sac_mean) for facts in FACTS.values()]
    assert rows[-1][3:] == ("n/a", f"{np.median(means):.4f}", f"{np.mean(means):.4f}", "n/a")


def test_probability_over_the_author(found):
    """Over the games whose author's seeds are known: by hand, Freeway's and Pong's."""
    value, low, high = over_author(found.blocks[0], "greedy")
    freeway = (4 * 0.5 + 4 + 4 + 5 + 4) / 25  # 0, 21, 22, 23 and 10 against four zeros and 22.17
    pong = (4 * 0.5 + 5) / 10  # -21 and -20.5 against four of -21 and -20.9
    assert value == pytest.approx((freeway + pong) / 2)
    assert low <= value <= high


def test_profile_lines_fall_from_one_to_nought(found):
    """Each sample's line begins at 1, never rises and ends at 0."""
    ax = performance_profile(found).axes[0]
    assert len(ax.lines) == sum(sample.known for sample in samples(found))
    for line in ax.lines:
        y = line.get_ydata()
        assert y[0] == 1 and y[-1] == 0 and (np.diff(y) <= 0).all()


def test_one_seed_has_no_spread(tmp_path):
    """A single finished run draws: bands of no width, no error."""
    write_run(tmp_path / "a", "Pong", 0, -20.0)
    one = experiment([read_run(folder) for folder in find([tmp_path])])
    for draw in DRAWN.values():
        draw(one).draw_without_rendering()
    value, low, high = samples(one)[1].aggregates()["IQM"]
    assert value == low == high
