"""Tables and pictures of runs, from their files alone: no torch, no training code.

Seeds of one environment and configuration stand together: mean and sample standard deviation of the seeds' means, and
a curve with their range. Runs of the paper's games are also an experiment: set against the paper's table and its
author's seeds, in tables, figures and a page.
"""

from sacd.report.figure import curve
from sacd.report.table import table
from sacd.report.write import write, write_all

__all__ = ["curve", "table", "write", "write_all"]
