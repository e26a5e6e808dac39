"""`sacd reproduce`: the paper's experiment from one command: random play, every run with its final games, the report.

Random play is scored by the evaluator that scores the runs, seed by seed, and lies beside them in random.json. It can
be resumed game by game, as the runs can step by step.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from sacd import sweep
from sacd.config import Config, flag
from sacd.console import Bar, plural
from sacd.envs import names
from sacd.errors import UsageError
from sacd.evaluate import RANDOM, Player, play_randomly
from sacd.files import replace_file, writing
from sacd.report.baseline import DAMAGED, NAME, read_random
from sacd.runs import commit, read_json, versions
from sacd.signals import Stop

MATTER = (  # fields that random play depends on
    "frame_skip", "max_pool", "sticky", "full_actions", "fire_reset", "time_limit", "eval_episodes", "eval_noop_min",
    "eval_noop_max",
)  # fmt: skip


def reproduce(configs: list[Config], preset: str, out: Path) -> int:
    """Everything, into one folder; how many runs failed."""
    jobs = sweep.prepare(configs, preset, out)
    with Stop() as stop:
        play_games(configs, out / NAME, stop)
    return sweep.carry_out(jobs, preset, out)


def play_games(configs: list[Config], path: Path, stop: Stop) -> None:
    """Random play in every game, with every seed that has no scores yet."""
    found = scores_at(path)
    games = [list(each) for _, each in groupby(configs, key=lambda c: c.env)]
    for each in games:
        require_same(each[0], found.get(names.short(each[0].env), {}), path)
    new = [missing for each in games if (missing := _missing(each, found))]
    total, done = sum(config.eval_episodes for each in new for config in each), 0
    if not new:
        return
    with Bar(f"{plural(len(new), 'game')}, random play", total, "games") as bar:
        for each in new:
            game, tell = names.short(each[0].env), partial(_later, bar, done)
            found[game] = _played(found.get(game), each, tell, stop)
            done += len(each) * each[0].eval_episodes
            with writing(path):
                replace_file(path, (json.dumps({"games": found}, indent=1) + "\n").encode())


def _later(bar: Bar, done: int, number: int) -> None:
    bar.tick(done + number)


def scores_at(path: Path) -> dict[str, Any]:
    """What random.json has, by game; none where there is no such file."""
    if not path.exists():
        return {}
    read_random(path)  # refuses what is damaged
    found: dict[str, Any] = read_json(path, DAMAGED)["games"]
    return found


def require_same(config: Config, there: dict[str, Any], path: Path) -> None:
    """Refuse scores of games that were played in another way."""
    settings = there.get("config", {})
    other = [
        f"{flag(k)} {settings[k]} there, {getattr(config, k)} asked"
        for k in settings
        if settings[k] != getattr(config, k)
    ]
    if other:
        raise UsageError(f"{path} holds random play under other rules ({'; '.join(other)}). Take another --out.")


def _missing(configs: list[Config], found: dict[str, Any]) -> list[Config]:
    """Those of a game's configurations whose seeds have no scores."""
    there = found.get(names.short(configs[0].env), {}).get("numbers", [])
    return [config for config in configs if config.seed not in there]


def _played(
    there: dict[str, Any] | None, configs: list[Config], tell: Callable[[int], None], stop: Stop
) -> dict[str, Any]:
    """A game's random scores, a list for each seed, with those of these configurations."""
    started = time.monotonic()
    scores = play_randomly([Player(c, 0, RANDOM) for c in configs], tell, stop)
    before = there or {"numbers": [], "seeds": [], "seconds": 0.0}
    return {
        "env": configs[0].env,
        "numbers": before["numbers"] + [c.seed for c in configs],
        "seeds": before["seeds"] + scores,
        "config": {k: getattr(configs[0], k) for k in MATTER},
        "seconds": round(before["seconds"] + time.monotonic() - started, 1),
        "commit": commit(),
        "versions": versions(),
    }
