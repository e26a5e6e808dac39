"""What people see while they wait."""

import pytest

from sacd.console import Bar, clock


def test_the_bar_fits_a_narrow_terminal(capsys, monkeypatch):
    """At 80 columns the count and the newest numbers are there."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Bar("CartPole-v1", 15_000) as bar:
        bar.rows(500, [{"score_mean_100": 47.5, "alpha": 0.2, "critic_loss": 3.0, "entropy_share": 0.5}])
        bar.tick(0)
        bar.tick(15_000)
    said = capsys.readouterr().err
    assert "15000/15000" in said and "score 47.5" in said and "entropy 50% of max" in said


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.7, "1 min 00 s"), (61, "1 min 01 s"), (48257, "13 h 24 min")]
)
def test_times_to_wait(seconds, text):
    """As people say them."""
    assert clock(seconds) == text


def test_no_time_is_promised_from_the_random_steps(monkeypatch, capsys):
    """They are a hundred times quicker than what follows."""
    bar, now = Bar("test", 1000, typical=500), [0.0]
    monkeypatch.setattr("sacd.console.time.monotonic", lambda: now[0])
    for done in range(0, 1001, 100):
        bar.tick(done)
        now[0] += 11
    said = capsys.readouterr().err.splitlines()
    assert not any("left" in line for line in said if int(line.split()[1].split("/")[0]) <= 500)
    assert any("left" in line for line in said)
