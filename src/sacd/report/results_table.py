"""The paper's table with our columns beside it: as Markdown, LaTeX and CSV; and every single score as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from sacd.report.compare import DECIMALS, HALF_RANGE
from sacd.report.experiment import Block, Cell, Experiment
from sacd.report.paper import FACTS, SEEDS, SOURCES
from sacd.report.read import POLICIES
from sacd.report.scores import mean_sd, relative
from sacd.report.table import aligned

HEAD = (
    "Game", "Random, paper", "Random, here", "Rainbow, paper", "SAC, paper", "SAC here, greedy", "seeds",
    "SAC here, sampled", "author's range", "of ours in it", "P(ours > his)", "verdict",
)  # fmt: skip
NONE = "n/a"
LATEX = {"±": r"$\pm$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "~": r"$\sim$", ">": "$>$"}
PREAMBLE = r"""\documentclass{article}
\usepackage[landscape,margin=1cm]{geometry}
\usepackage{booktabs}
\begin{document}
"""
CELLS = (
    "configuration", "game", "random_paper", "random_mean", "random_sd", "random_seeds", "rainbow_paper",
    "sac_paper_mean", "sac_paper_sd", "greedy_mean", "greedy_sd", "sampled_mean", "sampled_sd", "seeds_finished",
    "seeds_begun", "relative_paper", "relative_greedy", "author_low", "author_high", "author_range_estimated",
    "greedy_seeds_in_range", "probability_greedy_above_author", "verdict",
)  # fmt: skip
OWN = [facts.game for facts in FACTS.values() if facts.rainbow_source == SOURCES["author"]]
NOTE = (
    f"SAC, paper: mean ± SD of {SEEDS} seeds' means. Random and Rainbow as the paper prints them, from "
    f"{SOURCES['simple']}; Rainbow of {' and '.join(OWN)}: {SOURCES['author']}. Ours: mean ± sample SD of the finished "
    f"seeds' means. The author's range is that of his {SEEDS} seeds, to {DECIMALS} decimals; where they are not "
    f"published it is estimated (~) as mean ± {HALF_RANGE} SD. Verdict: whether our greedy mean lies in it. P: the "
    "probability that one of our seeds beats one of his, ties half."
)


def number(value: float) -> str:
    """A score with as many decimals as it needs: two below a hundred, else one."""
    if not math.isfinite(value):
        return NONE
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def spread(seeds: Sequence[float]) -> str:
    """Mean and sample SD of seeds; one has no SD."""
    mean, sd = mean_sd(seeds)
    return f"{number(mean)} ± {number(sd)}" if len(seeds) > 1 else number(mean)


def rows(block: Block) -> list[tuple[str, ...]]:
    """The table's rows as text, one for each of the paper's games."""
    return [_row(cell, block.baseline.means(cell.game)) for cell in block.cells]


def _row(cell: Cell, random: list[float]) -> tuple[str, ...]:
    facts, against = cell.facts, cell.comparison
    told = [NONE] * 4
    if against:
        ends = f"{'~' * against.estimated}{against.low:g} to {against.high:g}"
        better = NONE if against.better is None else f"{against.better:.2f}"
        told = [ends, f"{against.within} of {len(cell.finished)}", better, against.told()]
    return (
        cell.game, f"{facts.random:g}", spread(random), f"{facts.rainbow:g}", f"{facts.sac:g} ± {facts.sac_sd:g}",
        spread(cell.means("greedy")), cell.seeds, spread(cell.means("sampled")), *told,
    )  # fmt: skip


def markdown(found: Experiment, level: str = "##") -> str:
    """A section for each configuration, with its headline."""
    parts = [f"{level} {block.name}\n\n{block.told()}.\n\n{aligned([HEAD, *rows(block)])}" for block in found.blocks]
    return "\n\n".join([*parts, NOTE]) + "\n"


def latex(found: Experiment) -> str:
    """A document that compiles as it is: a table for each configuration."""
    return PREAMBLE + "\n\\clearpage\n".join(_tabular(block) for block in found.blocks) + "\n\\end{document}\n"


def _tabular(block: Block) -> str:
    lines = [" & ".join(map(escape, row)) + r" \\" for row in (HEAD, *rows(block))]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    table = "\n".join([f"\\begin{{tabular}}{{l{'r' * (len(HEAD) - 2)}l}}", *body, r"\end{tabular}"])
    caption = f"\\caption{{{escape(f'{block.name}: {block.told()}. {NOTE}')}}}"
    return "\n".join(
        [r"\begin{table}[t]", r"\centering\scriptsize\setlength{\tabcolsep}{3pt}", caption, table, r"\end{table}"]
    )


def escape(text: str) -> str:
    """Text as LaTeX prints it; what it has no letter for goes."""
    known = "".join(LATEX.get(letter, letter) for letter in text.replace("\\", "/"))
    return known.encode("ascii", "ignore").decode()


def cells(found: Experiment) -> str:
    """A CSV row for each configuration and game; what is missing is empty."""
    return _csv(CELLS, (_cell(b.name, c, b.baseline.means(c.game)) for b in found.blocks for c in b.cells))


def _cell(name: str, cell: Cell, random: list[float]) -> list[Any]:
    facts, against = cell.facts, cell.comparison
    greedy, sampled = (mean_sd(cell.means(policy)) for policy in POLICIES)
    ours = relative(cell.game, greedy[0])
    told = (
        [against.low, against.high, against.estimated, against.within, against.better, against.verdict]
        if against
        else [None] * 6
    )
    return [
        name, cell.game, facts.random, *mean_sd(random), len(random), facts.rainbow, facts.sac, facts.sac_sd,
        *greedy, *sampled, len(cell.finished), len(cell.runs), relative(cell.game, facts.sac_mean), ours, *told,
    ]  # fmt: skip


def every_score(found: Experiment) -> str:
    """A CSV row for each final episode of each run, and of the random player."""
    ours = (
        (cell.game, block.name, run.config.seed, policy, episode, score)
        for block in found.blocks for cell in block.cells for run in cell.finished for policy in POLICIES
        for episode, score in enumerate((run.evaluation or {})[policy]["scores"])
    )  # fmt: skip
    random = (
        (game, name, seed, "uniform", episode, score)
        for name, played in found.baselines.items() for game, seeds in played.games.items()
        for seed, scores in seeds.items() for episode, score in enumerate(scores)
    )  # fmt: skip
    return _csv(("game", "configuration", "seed", "policy", "episode", "score"), (*ours, *random))


def _csv(head: Sequence[str], found: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_plain(value) for value in row] for row in found)
    return file.getvalue()


def _plain(value: Any) -> Any:
    """Ten digits of a number, and nothing for one that is not there."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value
