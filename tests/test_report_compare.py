"""Our seeds against the author's: the verdict's rule, its range, the probability of improvement."""

import numpy as np
import pytest

from paperlike import write_run
from sacd.cli import main
from sacd.report.compare import HALF_RANGE, compare
from sacd.report.paper import FACTS


@pytest.mark.parametrize(
    ("game", "seeds", "within", "verdict"),
    [
        ("Freeway", [0.0] * 5, 5, "inside"),
        ("Freeway", [22.1666] * 5, 5, "inside"),  # his 22.17 is rounded
        ("Freeway", [22.2] * 4 + [0.0], 1, "inside"),
        ("Freeway", [23.0], 0, "above"),
        ("Enduro", [0.0666, 0.0667], 2, "inside"),
        ("Enduro", [0.0, 0.1], 1, "below"),
        ("Assault", [350.0 - 1.16 * 40, 350.0 + 1.16 * 40], 2, "inside (estimated)"),
        ("Assault", [350.0 - 1.17 * 40], 0, "below (estimated)"),
    ],
)
def test_verdicts(game, seeds, within, verdict):
    """Our mean against the author's range, ends included, and how many of our seeds lie in it."""
    found = compare(FACTS[game], seeds)
    assert (found.within, found.told()) == (within, verdict)
    assert (found.better is None) == found.estimated


def test_the_estimated_range_is_that_of_five_normal_draws():
    """Half of the expected range, in SDs."""
    draws = np.random.default_rng(0).normal(size=(200_000, 5))
    assert np.ptp(draws, axis=1).mean() / 2 == pytest.approx(HALF_RANGE, abs=0.003)


def test_probability_over_the_author():
    """Of our seeds over his, ties half: equal seeds are a half, also where his are rounded."""
    assert compare(FACTS["CrazyClimber"], [3400.0]).better == pytest.approx((4 * 0.5 + 0) / 5)
    assert compare(FACTS["Freeway"], [22.1668, 0.0]).better == pytest.approx((4 + 0.5 + 4 * 0.5 + 0) / 10)


def test_configurations_with_no_game_in_common(tmp_path):
    """There is nothing to compare over games: the report is there all the same."""
    write_run(tmp_path / "a", "Pong", 0, -20.0)
    write_run(tmp_path / "b", "Freeway", 0, 2.0, precision="bf16")
    assert main(["report", str(tmp_path)]) == 0
    assert "| the author's seeds" in (tmp_path / "results.md").read_text()
