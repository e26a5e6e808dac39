"""The experiment's figures over games: relative performance (the paper's figure 1), aggregates, performance profile."""

import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from sacd.files import storage_error
from sacd.report.aggregate import AUTHOR, Sample, samples, who
from sacd.report.experiment import Cell, Experiment
from sacd.report.figure import COLOURS, legend_beside
from sacd.report.panels import GREY, tick
from sacd.report.paper import FACTS
from sacd.report.read import POLICIES
from sacd.report.scores import AGGREGATES, interval, mean_sd, percent, profile, relative, resampled

PAPER = "0.6"  # the paper's bars
LINEAR = 1.0  # ±100 %: up to here the axis of figure 1 is linear, beyond it logarithmic
STEPS = (-1, -0.5, 0, 0.5, 1, 3, 10, 30, 100, 300)  # its ticks
WIDTH = 0.84  # of a game's bars together
ROOM = 6.0  # times the longest bar: where its axis ends, for the number
NEAR = 0.05  # normalised score: up to here the profile's axis is linear, for most runs lie there
MARKS = (-1, -0.3, -0.1, -0.05, 0, 0.05, 0.1, 0.3, 1, 3)  # its ticks
NAME = 60  # letters in a line of a sample's name
DENSITY = 120  # dots an inch


def save(figure: Figure, path: Path) -> None:
    """As PNG and as SVG, the same bytes from the same figure."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once for both: half of the time goes there
    try:
        figure.savefig(path.with_suffix(".png"), dpi=DENSITY)
        with rc_context({"svg.hashsalt": "sacd"}):
            figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    except OSError as error:
        raise storage_error(error, path) from error


def colours(found: Experiment) -> dict[str, str]:
    """Each block's colour, the same in all figures."""
    return {block.name: COLOURS[i % len(COLOURS)] for i, block in enumerate(found.blocks)}


def relative_performance(found: Experiment) -> Figure:
    """Bars of (score - Rainbow) / Rainbow: the paper's and ours, in the paper's order of games."""
    paper = [relative(game, facts.sac_mean) for game, facts in FACTS.items()]
    bars: list[tuple[str, str, list[float], list[str]]] = [("SAC, paper", PAPER, paper, [percent(v) for v in paper])]
    for block in found.blocks:
        ours = [relative(cell.game, mean_sd(cell.means("greedy"))[0]) for cell in block.cells]
        told = [_told(cell, value) for cell, value in zip(block.cells, ours, strict=True)]
        bars.append((f"here, greedy: {block.name}", colours(found)[block.name], ours, told))
    figure = Figure(figsize=(9.5, 1.4 + len(FACTS) * (0.12 + 0.16 * len(bars))), layout="constrained")
    ax, width = figure.add_subplot(), WIDTH / len(bars)
    for i, (label, colour, values, told) in enumerate(bars):
        place = np.arange(len(FACTS)) - WIDTH / 2 + width * (i + 0.5)
        ax.barh(place, values, 0.94 * width, color=colour, label=label)
        for y, value, text in zip(place, values, told, strict=True):
            end = max(value, 0.0) if math.isfinite(value) else 0.0  # right of the axis, where no name of a game is
            ax.annotate(text, (end, y), (4, 0), textcoords="offset points", va="center", fontsize=7.5, color=GREY)
    _dress_relative(ax, max(v for _, _, values, _ in bars for v in values if math.isfinite(v)))
    legend_beside(figure, ax.get_legend_handles_labels()[0], "outside upper left")
    return figure


def _told(cell: Cell, value: float) -> str:
    """A bar's number, or why there is none."""
    if not cell.finished:
        return cell.seeds if not cell.runs else f"{cell.seeds} seeds"
    return percent(value) + (f"  ({cell.seeds} seeds)" if "of" in cell.seeds else "")


def _dress_relative(ax: Axes, most: float) -> None:
    ax.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    ax.set_xlim(-1.1, ROOM * max(most, LINEAR))
    ax.set_xticks([t for t in STEPS if t <= ax.get_xlim()[1]])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+,.0f} %" if value else "0"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(axis="x", labelsize=8)
    ax.set_yticks(range(len(FACTS)), list(FACTS), fontsize=9)
    ax.set_ylim(len(FACTS) - 0.45, -0.55)
    ax.axvline(0, color="0.2", lw=0.8)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("(SAC - Rainbow) / Rainbow, 21 added to Pong; linear to ±100 %, logarithmic beyond", fontsize=9)


def aggregate_bands(found: Experiment) -> Figure:
    """Each aggregate with its 95 % interval, a line for each sample."""
    drawn = samples(found)
    figure = Figure(figsize=(12, 1.5 + sum(0.3 + 0.3 * (len(s.who) // NAME) for s in drawn)), layout="constrained")
    axes = figure.subplots(1, len(AGGREGATES), sharey=True)
    shade = _shades(found)
    for y, sample in enumerate(drawn):
        for ax, (value, low, high) in zip(axes, sample.aggregates().values(), strict=True):
            ax.barh(y, high - low, 0.55, low, color=shade(sample), alpha=0.45, lw=0)
            ax.plot([value] * 2, [y - 0.28, y + 0.28], color=shade(sample), lw=2)
    for ax, name in zip(axes, AGGREGATES, strict=True):
        ax.set_title(name, fontsize=10)
        ax.use_sticky_edges = False
        ax.margins(x=0.08)
        ax.axhline(sum(sample.known for sample in drawn) - 0.5, color=GREY, lw=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.grid(axis="x", alpha=0.3)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=8.5)
    names = [textwrap.fill(f"{s.who} · games {s.told}, seeds {s.seeds}", NAME) for s in drawn]
    axes[0].set_yticks(range(len(drawn)), names, fontsize=8.5)
    axes[0].set_ylim(len(drawn) - 0.5, -0.5)
    figure.supxlabel(
        "human-normalised score of final evaluations; bands: 95 % intervals, stratified bootstrap", fontsize=9
    )
    return figure


def performance_profile(found: Experiment) -> Figure:
    """The share of runs above each score, over the games whose author's seeds are known, with 95 % bands."""
    drawn = [sample for sample in samples(found) if sample.known]
    figure = Figure(figsize=(8.5, 5), layout="constrained")
    ax, shade = figure.add_subplot(), _shades(found)
    levels = np.unique(np.concatenate([seeds for sample in drawn for seeds in sample.games.values()]))
    levels = np.concatenate([levels[:1] - NEAR, levels])  # so that every line begins at 1
    for sample in drawn:
        games = list(sample.games.values())
        low, high = interval(profile(resampled(games), levels))
        style = "--" if sample.who.endswith("sampled") else "-"
        told: dict[str, Any] = {"color": shade(sample), "label": f"{sample.who} ({len(games)} games)"}
        ax.plot(levels, profile(games, levels), style, **told, drawstyle="steps-post")
        ax.fill_between(levels, low, high, color=shade(sample), alpha=0.15, lw=0, step="post")
    ax.set_xscale("symlog", linthresh=NEAR)
    ax.set_xlim(levels[0], levels[-1] * 1.1)
    ax.set_xticks([t for t in MARKS if levels[0] <= t <= levels[-1] * 1.1])
    ax.xaxis.set_major_formatter(FuncFormatter(tick))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"human-normalised score τ (linear to ±{NEAR:g}, logarithmic beyond)")
    ax.set_ylabel("share of runs that score above τ")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    legend_beside(figure, ax.get_legend_handles_labels()[0], "outside lower left")
    return figure


def _shades(found: Experiment) -> Callable[[Sample], str]:
    """A sample's colour: its block's; grey for what is not ours to tune."""
    mine = {who(name, policy): shade for name, shade in colours(found).items() for policy in POLICIES}
    return lambda sample: mine.get(sample.who, "0.3" if sample.who == AUTHOR else "0.65")
