"""Lanes of several games side by side: each lane does what it does among its own game's lanes alone."""

import numpy as np
import pytest

from sacd import config
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


def made(envs: list[str], **values) -> tuple[Together, list, list[int], list[int]]:
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


@pytest.mark.parametrize("games", GAMES)
def test_lanes_play_as_in_their_own_game_alone(games):
    """Frames, final frames, rewards and ends of every lane, through seeded ends and resets of some lanes only."""
    lanes, parts, at, actions = made(GAMES[games], time_limit=7, sticky=0.25, noop_max=3)
    count, ends = at[-1], np.zeros(at[-1], int)
    spans = list(zip(parts, at, at[1:], strict=False))
    assert lanes.spec.actions == max(actions) and lanes.spec.action_start == 0
    rng = np.random.default_rng(0)
    seeds = {i: 100 + i for i in range(count)}
    frame = lanes.reset(seeds, first=True)
    np.testing.assert_array_equal(frame, np.concatenate([p.reset(share(seeds, a, b), first=True) for p, a, b in spans]))
    for t in range(18):
        action = np.array([rng.integers(actions[i // EACH]) for i in range(count)])
        lanes.send(action)
        for part, a, b in spans:
            part.send(action[a:b])
        again = {i: 1000 * t + i for i in range(count) if (i + t) % 3}  # for the others the next game just follows
        now = lanes.recv(dict(again))
        same(now, [part.recv(share(again, a, b)) for part, a, b in spans])
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
        part.send = lambda actions, p=p, send=send: (calls.append(("send", p, actions.tolist())), send(actions))
        part.recv = lambda seeds, p=p, recv=recv: (calls.append(("recv", p, seeds)), recv(seeds))[1]
    lanes.send(np.array([0, 1, 2, 0, 1, 2]))
    lanes.recv({1: 5, 2: 6, 5: 7})
    assert calls == [("send", 0, [0, 1]), ("send", 1, [2, 0, 1, 2]), ("recv", 0, {1: 5}), ("recv", 1, {0: 6, 3: 7})]


def test_games_that_show_other_things_are_no_fleet():
    """Environments whose observations differ are refused in a sentence that names both shapes."""
    with pytest.raises(EnvError, match=r"\(3,\).*\(4,\)"):
        lanes_of([config.make(env, "classic") for env in (world("Short"), "CartPole-v1")], EACH)
