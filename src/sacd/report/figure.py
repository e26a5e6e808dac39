"""Learning curves and the temperature's story, as a picture."""

import textwrap
from itertools import cycle, groupby
from pathlib import Path
from typing import Any, Literal

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sacd.files import storage_error
from sacd.report.groups import Group, grouped
from sacd.report.panels import GREY, PALE, WINDOW, draw, draw_targets, dress, target
from sacd.report.read import read_run
from sacd.runs import RunFolder

ABREAST = 5  # games side by side; more go below
HEIGHTS = (2, 1, 1)  # of a game's panels
LETTER = 0.066  # inches, about, of the legends' type
COLOURS = [to_hex(colormaps["tab20"](i)) for i in (*range(0, 20, 2), *range(1, 20, 2))]  # ten strong, ten pale
LINE = 0.16  # inches, about, of a line of it
Side = Literal["outside upper left", "outside lower left"]
ONLY = "the one configuration of its game"


def curve(folders: list[RunFolder], path: Path) -> None:
    """The picture of these runs."""
    figure = paint(grouped([read_run(folder) for folder in folders]))
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise storage_error(error, path) from error


def paint(groups: list[Group]) -> Figure:
    """Score, entropy and temperature over agent steps, a column a game, a colour a configuration."""
    games = [list(mine) for _, mine in groupby(groups, key=lambda group: group.game)]
    names = list(dict.fromkeys(group.name or ONLY for group in groups))
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    columns = min(len(games), ABREAST)
    rows = -(-len(games) // columns)
    width, height = (max(7.2, 4.0 * columns), 8.0 if rows == 1 else 6.4 * rows)
    figure = Figure(figsize=(width, height), layout="constrained")  # no pyplot: a sweep's threads draw at once
    grid = figure.add_gridspec(3 * rows, columns, height_ratios=HEIGHTS * rows)
    for i, mine in enumerate(games):
        axes = _axes(figure, grid, 3 * (i // columns), i % columns)
        shades = [colours[group.name or ONLY] for group in mine]
        for group, shade in zip(mine, shades, strict=True):
            draw(axes, group, shade)
        draw_targets(axes[1], mine, shades)
        dress(axes, mine, first=i % columns == 0)
    if len(names) > 1:
        legend_beside(
            figure, [Line2D([], [], lw=3, color=colours[name], label=name) for name in names], "outside upper left"
        )
    legend_beside(figure, _key(groups, COLOURS[0] if len(names) == 1 else GREY), "outside lower left")
    return figure


def _axes(figure: Figure, grid: GridSpec, row: int, column: int) -> list[Axes]:
    """A game's panels, one below the other, over the same steps."""
    score = figure.add_subplot(grid[row, column])
    axes = [score, *(figure.add_subplot(grid[row + i, column], sharex=score) for i in (1, 2))]
    figure.align_ylabels(axes)
    return axes


def _key(groups: list[Group], colour: str) -> list[Artist]:
    """How to read the panels: only of what is there."""
    runs = [run for group in groups for run in group.runs]
    several = any(len(group.runs) > 1 for group in groups)
    shown: dict[str, tuple[dict[str, Any], bool]] = {
        f"training: mean of the last {WINDOW} episodes" + " and over seeds" * several: ({"lw": 1.8}, True),
        "the same, of some seeds": ({"lw": 1.8, "alpha": PALE},
                                    any(len(g.runs) > 1 and len(g.finished) < len(g.runs) for g in groups)),
        "one episode": ({"marker": ".", "ls": "", "ms": 6, "alpha": 0.6},
                        any(len(g.runs) == 1 and len(g.runs[0].episodes["step"]) for g in groups)),
        "final evaluation, greedy": ({"marker": "D", "ls": ""}, any(run.evaluation for run in runs)),
        "final evaluation, sampled": ({"marker": "o", "ls": "", "mfc": "none"}, any(run.evaluation for run in runs)),
        "target entropy": ({"lw": 1, "ls": "--", "color": GREY}, any(target(g) is not None for g in groups)),
    }  # fmt: skip
    handles: list[Artist] = [
        Line2D([], [], label=label, **({"color": colour} | style)) for label, (style, there) in shown.items() if there
    ]
    if several:
        handles.append(Patch(color=colour, alpha=0.2, lw=0, label="range over seeds"))
    return handles


def legend_beside(
    figure: Figure, handles: list[Artist], side: Literal["outside upper left", "outside lower left"]
) -> None:
    """Beside the panels, never on them, in as many columns as fit; the figure grows by its height."""
    room = figure.get_figwidth() / LETTER
    for handle in handles:
        handle.set_label(textwrap.fill(str(handle.get_label()), int(0.9 * room)))
    lines = [str(handle.get_label()).splitlines() for handle in handles]
    longest = max(len(line) for label in lines for line in label)
    columns = min(max(int(room / (longest + 6)), 1), len(handles))
    figure.set_figheight(figure.get_figheight() + LINE * sum(map(len, lines)) / columns)
    figure.legend(handles=handles, loc=side, ncols=columns, fontsize=8, frameon=False)
