"""Learning curves of the paper's games: a panel a game, seeds thin, their mean bold, published levels as lines."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sacd.report.charts import colours
from sacd.report.experiment import Cell, Experiment
from sacd.report.figure import legend_beside
from sacd.report.panels import GREY, PALE, WINDOW, tick, training
from sacd.report.paper import FACTS
from sacd.report.scores import mean_sd

ABREAST = 4
POINTS = 201  # of a curve
LEVELS = {"random": ("Random, paper", ":"), "rainbow": ("Rainbow, paper", "--"), "sac_mean": ("SAC, paper", "-.")}


def curves(found: Experiment) -> Figure:
    """Score over agent steps."""
    shades = colours(found)
    rows = -(-len(FACTS) // ABREAST)
    figure = Figure(figsize=(3.5 * ABREAST, 2.3 * rows), layout="constrained")
    axes = figure.subplots(rows, ABREAST).ravel()
    for i, (ax, game) in enumerate(zip(axes, FACTS, strict=True)):
        cells = [block.cells[i] for block in found.blocks]
        for field, (_, style) in LEVELS.items():
            ax.axhline(getattr(FACTS[game], field), color=GREY, lw=1, ls=style)
        for block, cell in zip(found.blocks, cells, strict=True):
            draw(ax, cell, shades[block.name])
        _dress(ax, game, cells, first=i % ABREAST == 0, last=i >= len(FACTS) - ABREAST)
    figure.align_ylabels(axes)
    legend_beside(figure, _key(shades), "outside lower left")
    return figure


def draw(ax: Axes, cell: Cell, colour: str) -> None:
    """A game's seeds, their mean where all of them have come, and the final greedy mean."""
    if not cell.runs:
        return
    steps = cell.runs[0].config.steps
    steps_at = np.linspace(0, steps, POINTS)
    lines = np.array([training(run, steps_at) for run in cell.runs])
    ax.plot(steps_at, lines.T, color=colour, lw=0.7, alpha=PALE)
    ax.plot(steps_at, lines.mean(0), color=colour, lw=2)  # NaN where a seed is missing
    if cell.finished:
        ax.plot([steps], [mean_sd(cell.means("greedy"))[0]], "D", color=colour, ms=5, clip_on=False)


def _dress(ax: Axes, game: str, cells: list[Cell], first: bool, last: bool) -> None:
    ax.set_title(game, loc="left", fontsize=10, weight="bold")
    ax.set_title(_missing(cells), loc="right", fontsize=8, color=GREY)
    ends = [cell.runs[0].config.steps for cell in cells if cell.runs]
    ax.set_xlim(0, max(ends, default=1))
    ax.set_xticks(ax.get_xticks() if ends else [])
    ax.xaxis.set_major_formatter(FuncFormatter(tick))
    ax.yaxis.set_major_formatter(FuncFormatter(tick))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.margins(y=0.12)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.set_ylabel("raw score" if first else "", fontsize=9)
    ax.set_xlabel("agent steps" if last else "", fontsize=9)


def _missing(cells: list[Cell]) -> str:
    """What a panel has too few of."""
    if not any(cell.runs for cell in cells):
        return "no runs"
    told = [cell.seeds if cell.runs else "0" for cell in cells]
    return "" if all(cell.seeds.isdecimal() for cell in cells) else f"seeds: {', '.join(told)}"


def _key(shades: dict[str, str]) -> list[Artist]:
    ours = [Line2D([], [], lw=2, color=shade, label=f"here: {name}") for name, shade in shades.items()]
    told = [
        Line2D([], [], lw=0.7, color=GREY, label=f"one seed: mean of the last {WINDOW} episodes"),
        Line2D([], [], lw=2, color=GREY, label="mean of the seeds"),
        Line2D([], [], ls="", marker="D", ms=5, color=GREY, label="final evaluation, greedy"),
    ]
    levels = [Line2D([], [], lw=1, ls=style, color=GREY, label=label) for label, style in LEVELS.values()]
    return [*ours, *told, *levels]
