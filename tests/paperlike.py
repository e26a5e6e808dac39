"""Made-up runs of the paper's games, as a training leaves them: what reports of the experiment are tested with."""

import json
import statistics
from pathlib import Path
from typing import Any

from sacd import config

STEPS = 20_000


def evaluation(means: dict[str, float], episodes: int = 3) -> dict[str, Any]:
    """Final scores with these means: each episode a point above or below its neighbour."""
    found = {}
    for policy, mean in means.items():
        scores = [mean + (i - (episodes - 1) / 2) for i in range(episodes)]
        found[policy] = {"mean": statistics.fmean(scores), "std": statistics.stdev(scores), "scores": scores}
    return found


def write_run(place: Path, game: str, seed: int, greedy: float | None, sampled: float = 0.0, **values: Any) -> Path:
    """A run's folder; without a greedy score it is half done."""
    chosen = config.make(f"ALE/{game}-v5", values.pop("preset", "paper"), seed=seed, **({"steps": STEPS} | values))
    place.mkdir(parents=True)
    record = {"config": config.to_dict(chosen), "versions": {"torch": "2.11", "numpy": "2.3"}, "commit": f"c{seed}"}
    (place / "config.json").write_text(json.dumps(record))
    reached = chosen.steps if greedy is not None else chosen.steps // 2
    at = range(500, reached + 1, 500)
    write_rows(place / "episodes.jsonl", [{"step": s, "lane": 0, "score": seed + s / 1000, "length": 9} for s in at])
    write_rows(place / "metrics.jsonl", [{"step": s, "alpha": 0.1, "entropy": 1.0, "entropy_share": 0.5} for s in at])
    if greedy is not None:
        found = evaluation({"greedy": greedy, "sampled": sampled})
        (place / "evaluation.json").write_text(json.dumps(found))
    return place


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_random(place: Path, games: dict[str, list[list[float]]]) -> Path:
    """random.json with these scores."""
    listed = {
        game: {"env": f"ALE/{game}-v5", "numbers": [7 + i for i in range(len(seeds))], "seeds": seeds, "seconds": 1.0}
        for game, seeds in games.items()
    }
    path = place / "random.json"
    path.write_text(json.dumps({"episodes": 2, "games": listed, "commit": "x", "versions": {}}))
    return path


# Greedy and sampled means by game and seed; None: not finished.
SCORES: dict[str, list[tuple[float | None, float]]] = {
    "Freeway": [(0.0, 1.0), (21.0, 2.0), (22.0, 3.0), (23.0, 4.0), (10.0, 5.0)],
    "Pong": [(-21.0, -21.0), (-20.5, -21.0), (None, 0.0)],
    "Assault": [(500.0, 400.0), (600.0, 300.0)],
    "Alien": [(None, 0.0)],
}


def write_experiment(place: Path) -> Path:
    """Runs of four games in the paper's configuration, one in another, and random scores of two games."""
    for game, seeds in SCORES.items():
        for seed, (greedy, sampled) in enumerate(seeds):
            write_run(place / f"{game}_s{seed}", game, seed, greedy, sampled)
    write_run(place / "author_Pong", "Pong", 0, -20.0, -20.0, preset="author")
    write_random(place, {"Freeway": [[0.0, 0.0], [1.0, 2.0]], "Pong": [[-21.0, -20.0]]})
    return place
