"""Lanes of several games side by side: each lane does what it does among its own game's lanes alone."""

import os
import signal
from typing import Any

import numpy as np
import pytest

from sacd import config
from sacd.envs import apart
from sacd.envs.apart import Apart
from sacd.envs.pool import lanes_of, make_lanes
from sacd.envs.together import Together
from sacd.errors import EnvError
from sacd.types import Step
from worlds import world

EACH = 2  # lanes a run
GAMES = {
    "toys": [world("Short"), world("Short"), world("Shifted"), world("World")],  # they end after 4, 4, 200 and 5 steps
    "Atari": ["ALE/Breakout-v5", "ALE/Pong-v5"],
}


def made(envs: list[str], **values) -> tuple[Any, list, list[int], list[int]]:
    """The lanes together, the same by game, each part's first lane, and every run's number of actions."""
    configs = [config.make(env, "paper", **values) for env in envs]
    lanes, actions = lanes_of(configs, EACH)
    games = list(dict.fromkeys(envs))
    counts = [envs.count(game) * EACH for game in games]
    parts = [make_lanes(configs[envs.index(g)], n, len(games)) for g, n in zip(games, counts, strict=True)]
    return lanes, parts, [0, *np.cumsum(counts).tolist()], actions


def share(seeds: dict[int, int], first: int, end: int) -> dict[int, int]:
    """A part's seeds by its own numbers."""
    return {lane - first: seed for lane, seed in seeds.items() if first <= lane < end}


def same(now: Step, steps: list[Step]) -> None:
    for k in ("frame", "final", "reward", "closes", "ended"):
        np.testing.assert_array_equal(getattr(now, k), np.concatenate([getattr(s, k) for s in steps]), k)


@pytest.mark.parametrize(("games", "count"), [("toys", 0), ("Atari", 0), ("Atari", 2)])
def test_lanes_play_as_in_their_own_game_alone(games, count, monkeypatch):
    """Frames, final frames, rewards and ends of every lane, through seeded ends and resets of some lanes only.

    The same whether the games are served here or by processes of their own.
    """
    monkeypatch.setattr(apart, "processes", lambda games: count)
    lanes, parts, at, actions = made(GAMES[games], time_limit=7, sticky=0.25, noop_max=3)
    assert isinstance(lanes, Apart if count else Together)
    count, ends = at[-1], np.zeros(at[-1], int)  # of lanes
    spans = list(zip(parts, at, at[1:], strict=False))
    assert lanes.spec.actions == max(actions) and lanes.spec.action_start == 0
    rng = np.random.default_rng(0)
    seeds = {i: 100 + i for i in range(count)}
    frame = lanes.reset(seeds, first=True)
    np.testing.assert_array_equal(frame, np.concatenate([p.reset(share(seeds, a, b), first=True) for p, a, b in spans]))
    for t in range(18):
        action = np.array([rng.integers(actions[i // EACH]) for i in range(count)])
        again = {i: 1000 * t + i for i in range(count) if (i + t) % 3}  # for the others the next game just follows
        lanes.send(action, dict(again))
        for part, a, b in spans:
            part.send(action[a:b], share(again, a, b))
        now = lanes.recv()
        same(now, [part.recv() for part, _, _ in spans])
        ends += now.ended
        if t == 9:
            wanted = now.frame.copy()
            for some in ((t, t + 1), (t + 2,)):  # of one game or two, and again before the next step
                chosen = {i % count: 7 * t + i for i in some}
                for part, a, b in spans:
                    if mine := share(chosen, a, b):
                        wanted[a:b] = part.reset(mine)
                np.testing.assert_array_equal(lanes.reset(dict(chosen)), wanted)
    assert ends[:EACH].all() and ends[-EACH:].all()
    for each in (lanes, *parts):
        each.close()


def test_every_emulator_works_before_one_is_waited_for():
    """All parts get their actions first, in order, each its own lanes' share; then the answers are taken in order."""
    lanes, _, at, _ = made([world("Short"), world("Both"), world("Both")])
    lanes.reset({i: i for i in range(at[-1])}, first=True)
    calls = []
    for p, part in enumerate(lanes.parts):
        send, recv = part.send, part.recv
        part.send = lambda acts, seeds, p=p, send=send: (calls.append((p, acts.tolist(), seeds)), send(acts, seeds))
        part.recv = lambda p=p, recv=recv: (calls.append(p), recv())[1]
    lanes.send(np.array([0, 1, 2, 0, 1, 2]), {1: 5, 2: 6, 5: 7})
    lanes.recv()
    assert calls == [(0, [0, 1], {1: 5}), (1, [2, 0, 1, 2], {0: 6, 3: 7}), 0, 1]


def test_games_that_show_other_things_are_no_fleet():
    """Environments whose observations differ are refused in a sentence that names both shapes."""
    with pytest.raises(EnvError, match=r"\(3,\).*\(4,\)"):
        lanes_of([config.make(env, "classic") for env in (world("Short"), "CartPole-v1")], EACH)


def three_games(monkeypatch, count: int) -> Apart:
    monkeypatch.setattr(apart, "processes", lambda games: count)
    lanes, *_ = made(["ALE/Breakout-v5", "ALE/Pong-v5", "ALE/Freeway-v5"])
    lanes.reset({i: i for i in range(6)}, first=True)
    return lanes


def test_a_killed_process_is_told(monkeypatch):
    """The emulators' process dies: a sentence, for the lanes it served; the others are closed without a wait."""
    lanes = three_games(monkeypatch, 3)
    os.kill(lanes.processes[1].it.pid, signal.SIGKILL)
    lanes.processes[1].it.wait()  # so that what it is told cannot reach it
    lanes.send(np.zeros(6, np.int64), {})
    with pytest.raises(EnvError, match="was killed") as caught:
        lanes.recv()
    assert list(caught.value.lanes) == [2, 3]
    lanes.close()
    assert [p.it.returncode for p in lanes.processes] == [0, -signal.SIGKILL, 0]


def test_processes_may_be_left_in_the_middle_of_a_step(monkeypatch, capfd):
    """Something else failed between a step's begin and its end: they go, and say nothing."""
    lanes = three_games(monkeypatch, 2)
    lanes.send(np.zeros(6, np.int64), {})
    lanes.close()
    assert [p.it.returncode for p in lanes.processes] == [0, 0]
    assert "Traceback" not in capfd.readouterr().err


def test_an_error_in_a_process_is_raised_here(monkeypatch):
    """What an emulator refuses comes back as the package's error, with the lanes by the fleet's numbers."""
    lanes = three_games(monkeypatch, 2)
    lanes.processes[1].tell({"reset": [[99, 1]], "all": False})  # it has no such lane
    with pytest.raises(EnvError, match="Error") as caught:
        lanes.processes[1].answer(lanes._lanes(1))
    assert list(caught.value.lanes) == list(range(lanes.starts[1], 6))
    lanes.close()


def test_processes_end_with_the_one_that_trains(monkeypatch):
    """Signals are left to it; when its end of the pipe goes they go too, and nothing is left over."""
    lanes = three_games(monkeypatch, 2)
    for process in lanes.processes:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(process.it.pid, number)
    lanes.send(np.zeros(6, np.int64), {0: 1})
    assert lanes.recv().frame.shape == (6, 84, 84)
    for process in lanes.processes:
        process.it.stdin.close()
    assert [process.it.wait(5) for process in lanes.processes] == [0, 0]
    lanes.close()


def test_a_parked_game_stands_still():
    """It gets no step and answers with its frame; the others play on as if it were not there. In processes too."""
    games = [(config.make(f"ALE/{game}-v5", "paper", seed=s), 1) for s, game in enumerate(("Pong", "Breakout", "Pong"))]
    found = []
    for lanes in (Together([make_lanes(c, n) for c, n in games], [1, 1, 1]), Apart(games, 2)):
        frame = lanes.reset({i: 7 + i for i in range(3)}, first=True).copy()
        lanes.park([1])
        if isinstance(lanes, Together):
            lanes.parts[1].send = None  # whoever calls it fails
        for _ in range(12):
            lanes.send(np.array([2, 1, 3]), {})
            step = lanes.recv()
        assert (step.frame[1] == frame[1]).all() and (step.frame[0] != frame[0]).any()
        found.append(step.frame.copy())
        lanes.close()
    assert (found[0] == found[1]).all()
