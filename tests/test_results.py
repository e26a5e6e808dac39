"""docs/results is what `sacd report` makes of experiments/paper: no number in it was written by hand."""

from pathlib import Path

import pytest

from sacd.report.experiment import experiment
from sacd.report.read import find, read_run
from sacd.report.results import results
from sacd.report.results_table import cells, latex, markdown
from sacd.report.table import table

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_results_are_those_of_the_runs():
    """Every page and table, to the letter."""
    folders = find([ROOT / "experiments/paper"])
    found = experiment([read_run(folder) for folder in folders])
    made = {"results.md": results, "paper_table.md": markdown, "paper_table.tex": latex, "paper_table.csv": cells}
    for name, make in made.items():
        assert (ROOT / "docs/results" / name).read_text() == make(found), f"{name}: sacd report experiments/paper"
    assert (ROOT / "docs/results/table.md").read_text() == table(folders) + "\n"
