"""The experiment in words and tables: results.md, whole from the runs' files."""

from sacd.report.aggregate import EXPLAINED, aggregate_rows, improvement_rows
from sacd.report.experiment import Block, Experiment
from sacd.report.paper import FACTS
from sacd.report.results_table import markdown
from sacd.report.scores import Headline, headline, percent
from sacd.report.table import aligned

PAPER = "SAC, paper"
FIGURES = {  # a figure's name: what it shows
    "paper_figure1": "Relative performance over Rainbow, the paper's bars beside ours",
    "paper_curves": "Learning curves: score over agent steps",
    "paper_aggregates": "Human-normalised aggregates with 95 % intervals",
    "paper_profile": "Performance profile: the share of runs above a score",
}
INTRODUCTION = (
    "What 'sacd report' found in the runs' files, beside the figures of the paper (Christodoulou 2019). This page is "
    "generated: change the runs, not the page."
)


def results(found: Experiment) -> str:
    """Headline, table, verdicts, aggregates, figures and origin, in Markdown."""
    figures = [f"![{text}]({name}.png)\n\n{text}." for name, text in FIGURES.items()]
    parts = [
        "# Results", INTRODUCTION, "## Headline", aligned(headlines(found)), "## The paper's table",
        markdown(found, "###").strip(), "## Against the author's seeds", *(_verdicts(block) for block in found.blocks),
        "## Over games", EXPLAINED, aligned(aggregate_rows(found)), aligned(improvement_rows(found)),
        "## Figures", *figures, "## Where it comes from", *(_origin(block) for block in found.blocks),
        random_told(found),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def headlines(found: Experiment) -> list[tuple[str, ...]]:
    """The paper's headline and ours, the head first."""
    told: list[tuple[str, ...]] = [("", "better than Rainbow", "median", "maximum", "minimum", "missing")]
    told.append(_headline(PAPER, headline({game: facts.sac_mean for game, facts in FACTS.items()}), ""))
    for block in found.blocks:
        told.append(_headline(f"here: {block.name}", block.headline, block.missing.strip(" ()")))
        same = {cell.game: cell.facts.sac_mean for cell in block.cells if cell.finished}
        if 0 < len(same) < len(FACTS):
            told.append(_headline(f"{PAPER}, in the games of the line above", headline(same), ""))
    return told


def _headline(who: str, found: Headline | None, missing: str) -> tuple[str, ...]:
    if not found:
        return (who, *["n/a"] * 4, missing)
    shares = (percent(share) for share in (found.median, found.most, found.least))
    return (who, f"{found.wins} of {found.games} games", *shares, missing)


def _verdicts(block: Block) -> str:
    lines = [f"* {verdict}: {len(games)} ({', '.join(games)})" for verdict, games in block.verdicts.items()]
    return f"Our greedy means ({block.name}) and the range of the author's seeds:\n\n" + "\n".join(lines)


def _origin(block: Block) -> str:
    lines = [f"* {name}: {value}" for name, value in block.origin.items()]
    return f"{block.name}: {len(block.runs)} runs of {block.config.steps:,} agent steps.\n\n" + "\n".join(lines)


def random_told(found: Experiment) -> str:
    """What the random player's column comes from."""
    if not found.baselines:
        return "No random player was measured here (no random.json beside the runs)."
    return " ".join(f"Here, {name}: {played.told()}." for name, played in found.baselines.items())
