"""`sacd reproduce`: the paper's experiment from one command: random play, every run with its final games, the report.

Random play is scored by the evaluator that scores the runs, seed by seed, and lies beside them in random.json. It can
be resumed game by game, as the runs can step by step.
"""

import json
import time
from itertools import groupby
from pathlib import Path
from typing import Any

from sacd import sweep
from sacd.config import Config
from sacd.console import Bar, plural
from sacd.envs import names
from sacd.evaluate import RANDOM, Player, play_randomly
from sacd.files import replace_file, writing
from sacd.runs import commit, read_json, versions
from sacd.signals import Stop

DAMAGED = "has a damaged random.json (delete it, and random play is scored again)"


def reproduce(configs: list[Config], preset: str, out: Path) -> int:
    """Everything, into one folder; how many runs failed."""
    sweep.check_out(out)
    with Stop() as stop:
        play_games(configs, out / "random.json", stop)
    return sweep.sweep(configs, preset, out)


def play_games(configs: list[Config], path: Path, stop: Stop) -> None:
    """Scores of random play in every game that has none for these seeds yet."""
    found: dict[str, Any] = read_json(path, DAMAGED) if path.exists() else {"games": {}}
    games = [list(each) for _, each in groupby(configs, key=lambda c: c.env)]
    new = [each for each in games if not _played(each, found["games"])]
    if not new:
        return
    with Bar(f"{plural(len(new), 'game')}, random play", sum(len(e) * e[0].eval_episodes for e in new), "games") as bar:
        done = 0
        for each in new:
            found["games"][names.short(each[0].env)] = _scores(each, lambda n, done=done: bar.tick(done + n), stop)
            done += len(each) * each[0].eval_episodes
            found |= {"episodes": each[0].eval_episodes, "commit": commit(), "versions": versions()}
            with writing(path):
                replace_file(path, (json.dumps(found, indent=1) + "\n").encode())


def _played(configs: list[Config], games: dict[str, Any]) -> bool:
    """Whether a game's scores are there, of just these seeds and episodes."""
    there = games.get(names.short(configs[0].env), {})
    whole = [len(scores) for scores in there.get("seeds", [])] == [c.eval_episodes for c in configs]
    return whole and there.get("numbers") == [c.seed for c in configs]


def _scores(configs: list[Config], tell: Any, stop: Stop) -> dict[str, Any]:
    """One game's random scores: a list for each seed."""
    started = time.monotonic()
    scores = play_randomly([Player(c, 0, RANDOM) for c in configs], tell, stop)
    return {
        "env": configs[0].env,
        "numbers": [c.seed for c in configs],
        "seeds": scores,
        "seconds": round(time.monotonic() - started, 1),
    }
