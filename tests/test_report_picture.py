"""The report's picture: what is drawn where, read off the figure before it is saved."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sacd.report import panels, read
from sacd.report.figure import paint
from sacd.report.groups import grouped
from sacd.runs import RunFolder
from test_report import write_run


def picture(*runs: Path) -> Figure:
    """The figure of these runs, laid out."""
    figure = paint(grouped([read.read_run(RunFolder(run)) for run in runs]))
    figure.draw_without_rendering()
    return figure


def rewrite(run: Path, name: str, rows: list[dict]) -> Path:
    """The run with other rows in a log."""
    (run / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def temperatures(run: Path, values: list[float]) -> Path:
    """The run with these temperatures in its log."""
    rows = [{"step": 500 * (i + 1), "alpha": a, "entropy": 0.3, "entropy_share": 0.5} for i, a in enumerate(values)]
    return rewrite(run, "metrics.jsonl", rows)


def legends(figure: Figure) -> list[list[str]]:
    """The legends' entries."""
    return [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]


def ticks(ax: Axes) -> list[str]:
    """The labels of the vertical axis that are to be seen."""
    low, high = ax.get_ylim()
    shown = [label.get_text() for label in ax.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert all(label.get_text() == "" for label in ax.get_yticklabels(minor=True))
    assert ax.yaxis.get_offset_text().get_text() == ""
    return shown


def words(ax: Axes) -> list[str]:
    """What is written into a panel."""
    return [text.get_text() for text in ax.texts]


def dashed(ax: Axes) -> list[np.ndarray]:
    """The dashed lines of a panel."""
    return [line.get_xydata() for line in ax.lines if line.get_linestyle() == "--"]


def test_smooth():
    """At each grid step the mean of the last episodes that ended by then, nothing before the first."""
    steps, scores = np.array([10, 20, 20, 40]), np.array([1.0, 2.0, 3.0, 10.0])
    found = read.smooth(steps, scores, np.array([0, 9, 10, 20, 39, 40, 99]), window=2)
    np.testing.assert_array_equal(found, [math.nan, math.nan, 1.0, 2.5, 2.5, 6.5, 6.5])


def test_legends_name_configurations_and_cover_nothing(tmp_path):
    """A colour is a configuration, named beside the panels; one alone needs no name."""
    runs = [write_run(tmp_path / f"g{gamma}", gamma=gamma) for gamma in (0.99, 0.9, 0.5)]
    figure = picture(*runs, write_run(tmp_path / "pong", env="ALE/Pong-v5"))
    assert legends(figure)[0] == ["gamma 0.5", "gamma 0.9", "gamma 0.99", "the one configuration of its game"]
    assert len({line.get_color() for line in figure.legends[0].get_lines()}) == 4
    assert all(ax.get_legend() is None for ax in figure.axes)
    for legend in figure.legends:
        assert not any(legend.get_window_extent().overlaps(ax.get_tightbbox()) for ax in figure.axes)
    assert len(picture(runs[0]).legends) == 1


def test_long_names_take_no_room_from_the_panels(tmp_path):
    """Many configurations with much between them make the picture taller, not its panels smaller."""
    values = {"learning_rate": 1e-4, "adam_eps": 1e-5, "tau": 0.3, "batch_size": 7, "hidden": (8, 9), "gamma": 0.3}
    runs = [write_run(tmp_path / "a")]
    runs += [write_run(tmp_path / str(n), **values, n_step=n) for n in range(1, 12)]
    few, many = picture(runs[0]), picture(*runs)
    assert max(len(name) for name in legends(many)[0]) > 70
    heights = [[ax.get_window_extent().height for ax in figure.axes] for figure in (few, many)]
    assert all(many > 0.9 * few for few, many in zip(*heights, strict=True))


def test_the_key_tells_what_is_there(tmp_path):
    """Only what is drawn is explained."""
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", 1)
    one = ["one episode", "final evaluation, greedy", "final evaluation, sampled", "target entropy"]
    assert legends(picture(a)) == [["training: mean of the last 20 episodes", *one]]
    both = ["training: mean of the last 20 episodes and over seeds", *one[1:], "range over seeds"]
    assert legends(picture(a, b)) == [both]
    (b / "evaluation.json").unlink()
    assert "the same, of some seeds" in legends(picture(a, b))[0]


def test_titles(tmp_path):
    """A game's title has its name, steps and seeds, and how many runs are finished where not all are."""
    runs = [write_run(tmp_path / str(seed), seed, finished=seed < 2) for seed in range(3)]
    assert picture(runs[0]).axes[0].get_title("left") == "CartPole-v1"
    assert words(picture(runs[0]).axes[0]) == ["20,000 steps, seed 0"]
    assert words(picture(*runs).axes[0]) == ["20,000 steps, seeds 0, 1, 2 (2 of 3 finished)"]
    other = write_run(tmp_path / "other", steps=30_000)
    assert words(picture(*runs[:2], other).axes[0]) == ["20,000 to 30,000 steps, 1 to 2 seeds each"]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ({"target_entropy_ratio": "0.7"}, (0.7, 0.7)),
        ({"target_entropy_ratio": "linear(0.9, 0.1)"}, (0.9, 0.1)),
        ({"target_entropy": "linear(0.3, 0.15)"}, (0.5, 0.25)),  # log |A| is 0.6 in the rows
        ({"alpha": "0.1"}, None),
    ],
)
def test_target_entropy(tmp_path, values, ends):
    """The wanted entropy is a dashed line, as a share of log |A|; a fixed temperature has none."""
    run = temperatures(write_run(tmp_path / "run", **values), [0.1, 0.1])
    found = dashed(picture(run).axes[1])
    if ends is None:
        assert found == []
    else:
        np.testing.assert_allclose([found[0][0], found[0][-1]], [(0, ends[0]), (20_000, ends[1])])
        middle = found[0][len(found[0]) // 2]
        np.testing.assert_allclose(middle, (10_000, sum(ends) / 2))


def test_a_target_in_nats_waits_for_the_first_update(tmp_path):
    """What share of log |A| it is, is not known before."""
    run = temperatures(write_run(tmp_path / "run", target_entropy="0.3"), [])
    assert dashed(picture(run).axes[1]) == []


def test_equal_targets_are_one_line(tmp_path):
    """Configurations that want the same entropy share a grey line; others have one each in their colour."""
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", gamma=0.5)
    c = write_run(tmp_path / "c", target_entropy_ratio="0.5")
    assert len(dashed(picture(a, b).axes[1])) == 1
    assert len(dashed(picture(a, c).axes[1])) == 2


@pytest.mark.parametrize(
    ("values", "scale", "shown"),
    [
        ([0.2, 0.2, 0.2], "linear", ["0.18", "0.19", "0.2", "0.21", "0.22"]),
        ([0.6, 1.0, 4.0], "linear", ["1", "2", "3", "4"]),
        ([1e-5, 1.00001e-5], "linear", ["9e-06", "9.5e-06", "1e-05", "1.05e-05", "1.1e-05"]),
        ([0.0, 0.0], "linear", ["-0.1", "-0.05", "0", "0.05", "0.1"]),
        ([1.0, 0.05], "log", ["0.05", "0.1", "0.2", "0.5", "1"]),
        ([1.0, 0.005], "log", ["0.01", "0.03", "0.1", "0.3", "1"]),
        ([1.0, 1e-6], "log", ["1e-06", "0.0001", "0.01", "1"]),
    ],
)
def test_ticks_of_the_temperature(tmp_path, values, scale, shown):
    """Plain numbers, all different; logarithmic from a decade on."""
    ax = picture(temperatures(write_run(tmp_path / "run"), values)).axes[2]
    assert ax.get_yscale() == scale
    assert [float(text) for text in ticks(ax)] == sorted({float(text) for text in ticks(ax)})
    assert ticks(ax) == shown


def test_ticks_of_large_numbers():
    """Steps and scores are labelled whole: no factor in the corner."""
    numbers = (0, 9000, 25_000, 1e5, 2.5e6, -21, 0.25)
    assert [panels.tick(v) for v in numbers] == ["0", "9000", "25k", "100k", "2.5M", "-21", "0.25"]


def test_empty_panels_say_so(tmp_path):
    """Before the first update, and before the first episode."""
    run = write_run(tmp_path / "run", finished=False)
    rewrite(run, "metrics.jsonl", [{"step": 500, "updates": 0}])
    axes = picture(run).axes
    assert words(axes[1]) == words(axes[2]) == ["no update yet"] and ticks(axes[2]) == []
    assert "no episode yet" not in words(axes[0])
    (run / "episodes.jsonl").unlink()
    assert "no episode yet" in words(picture(run).axes[0])
    assert words(picture(temperatures(run, [1.0])).axes[1]) == []


def test_a_single_row_is_a_point(tmp_path):
    """One row of numbers has no line, but is to be seen."""
    axes = picture(temperatures(write_run(tmp_path / "run"), [0.1])).axes
    for ax, value in ((axes[1], 0.5), (axes[2], 0.1)):
        points = [line for line in ax.lines if line.get_marker() == "o"]
        assert [line.get_xydata().tolist() for line in points] == [[[500, value]]]


def test_few_episodes_are_bold_and_many_faint(tmp_path):
    """Three episodes of an Atari game are seen as well as three thousand of CartPole."""
    run, seen = write_run(tmp_path / "run"), []
    for count in (3, 3000):
        rows = [{"step": 5 * (i + 1), "score": 1.0, "length": 5} for i in range(count)]
        axes = picture(rewrite(run, "episodes.jsonl", rows)).axes
        dots = next(line for line in axes[0].lines if line.get_marker() == ".")
        seen.append((dots.get_alpha(), dots.get_markersize()))
    assert seen == [(0.9, 9), (0.2, 4)]


def test_an_unfinished_run_ends_where_it_is(tmp_path):
    """Its curve is not drawn on to the end; where it is missing the other seed's line is pale, and no jump."""
    a, b = write_run(tmp_path / "a", 0), write_run(tmp_path / "b", 1, finished=False)
    rewrite(b, "metrics.jsonl", [])
    alone = picture(b).axes[0].lines[0].get_xdata()
    assert math.isclose(alone[-1], 15_000)
    lines = picture(a, b).axes[0].lines
    assert [line.get_alpha() for line in lines[:2]] == [1.0, panels.PALE]
    whole, pale = (line.get_xdata()[np.isfinite(line.get_ydata())] for line in lines[:2])
    assert whole[-1] == 15_000 and pale[0] > 15_000 and pale[-1] == 20_000
    (alpha,) = picture(a, b).axes[2].lines  # of the seed that has any
    assert alpha.get_alpha() == panels.PALE and set(alpha.get_ydata()) == {0.1}


def test_many_games_wrap(tmp_path):
    """At most five games stand side by side; every panel keeps its place and a readable size."""
    games = [f"ALE/{name}-v5" for name in ("Pong", "Qbert", "Alien", "Amidar", "Asterix", "Enduro", "Freeway")]
    figure = picture(*[write_run(tmp_path / name[4:], env=name, finished=name != games[0]) for name in games])
    boxes = [ax.get_window_extent() for ax in figure.axes]
    assert len(boxes) == 3 * len(games)
    assert len({round(box.x0) for box in boxes}) == 5 and len({round(box.y0) for box in boxes}) == 6
    inches = [(box.width / figure.dpi, box.height / figure.dpi) for box in boxes]
    assert min(w for w, _ in inches) > 2.5 and min(h for _, h in inches) > 0.9
    labelled = [i // 3 for i, ax in enumerate(figure.axes) if ax.get_ylabel()]
    assert sorted(set(labelled)) == [0, 5]
