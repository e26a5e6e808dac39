"""Atari lanes against Gymnasium's own preprocessing of the same emulator, frame by frame; the protocol's options."""

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

from sacd import config
from sacd.envs import names
from sacd.envs.atari import AtariLanes
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Step

PLAIN = {"noop_max": 0, "fire_reset": False, "life_loss": "ignore"}  # what the oracle can do


def lanes(game: str, count: int = 1, **values) -> AtariLanes:
    return AtariLanes(config.make(f"ALE/{game}-v5", "paper", **values), count)


def oracle(game: str) -> AtariPreprocessing:
    """Gymnasium's wrapper: gray, 84x84, the maximum over the last two of four frames; rewards raw, plain starts."""
    gym.register_envs(ale_py)
    emulator = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    return AtariPreprocessing(emulator, noop_max=0, frame_skip=4, screen_size=84, grayscale_obs=True)


def play(made: AtariLanes, actions: np.ndarray) -> list[Step]:
    """Steps (T, lanes), unseeded."""
    found = []
    for action in actions:
        made.send(action, {})
        found.append(made.recv())
    return found


def random_actions(made: AtariLanes, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(made.spec.actions, size=(steps, made.lanes))


@pytest.mark.parametrize(("game", "steps"), [("Breakout", 400), ("SpaceInvaders", 600), ("Qbert", 400)])
def test_frames_are_gymnasiums(game, steps):
    """With the same actions every frame, reward and end is the same, through the ends of several games."""
    made, twin = lanes(game, max_pool=True, **PLAIN), oracle(game)
    np.testing.assert_array_equal(made.reset({0: 5}, first=True)[0], twin.reset(seed=5)[0])
    ends = 0
    for action, now in zip(acts := random_actions(made, steps), play(made, acts), strict=True):
        frame, reward, terminated, truncated, _ = twin.step(int(action[0]))
        assert (now.reward[0], now.closes[0], now.ended[0]) == (
            reward,
            TERMINATED if terminated else NOT_ENDED,
            terminated,
        )
        assert not truncated
        np.testing.assert_array_equal(now.final[0], frame)
        if terminated:
            ends += 1
            frame, _ = twin.reset()
        np.testing.assert_array_equal(now.frame[0], frame)
    assert ends


def test_without_max_pool_a_frame_is_the_last_of_the_skipped():
    """The paper's emulator showed the newest frame alone: never brighter than the maximum of two, sometimes darker."""
    made, pooled = (lanes("SpaceInvaders", max_pool=flag, **PLAIN) for flag in (False, True))
    for m in (made, pooled):
        m.reset({0: 1}, first=True)
    acts = random_actions(made, 60)
    a, b = (np.stack([s.final[0] for s in play(m, acts)]) for m in (made, pooled))
    assert (a <= b).all()
    assert (a < b).any()


def lives_lost(mode: str, steps: int = 450) -> tuple[AtariLanes, np.ndarray, list[Step]]:
    """Breakout with random actions, the emulator's lives after each step beside it."""
    made = lanes("Breakout", life_loss=mode, noop_max=0, fire_reset=False)
    first = made.reset({0: 3}, first=True)
    return made, first, play(made, random_actions(made, steps, 1))


def test_a_lost_life_closes_the_return_only():
    """life_loss=terminal: four lives close the return while the game goes on, the fifth ends the game."""
    _, _, steps = lives_lost("terminal")
    ended = [bool(s.ended[0]) for s in steps if s.closes[0] != NOT_ENDED]
    assert ended[:10] == [False, False, False, False, True] * 2
    for s in steps:
        assert s.closes[0] != TRUNCATED
        assert s.ended[0] or (s.frame == s.final).all()


def test_a_lost_life_may_be_ignored():
    """life_loss=ignore: only the game's end closes the return, and the frames are those of life_loss=terminal."""
    _, _, steps = lives_lost("ignore")
    _, _, other = lives_lost("terminal")
    for s, o in zip(steps, other, strict=True):
        assert (s.closes[0] != NOT_ENDED) == s.ended[0] == o.ended[0]
        assert (s.frame == o.frame).all()
        assert s.reward == o.reward


def test_a_lost_life_may_reset_the_game():
    """life_loss=reset: each life lost ends the episode, and the next frame is that of a new game with all lives."""
    _, first, steps = lives_lost("reset")
    _, _, other = lives_lost("terminal")
    ends = [t for t, s in enumerate(steps) if s.ended[0]]
    assert ends[0] == next(t for t, s in enumerate(other) if s.closes[0])
    assert len(ends) > 5
    for t in ends:
        assert steps[t].closes[0] == TERMINATED
        np.testing.assert_array_equal(steps[t].frame, first)


@pytest.mark.parametrize(("terminal", "closes"), [(False, TRUNCATED), (True, TERMINATED)])
@pytest.mark.parametrize("noops", [0, 30])
def test_the_time_limit_counts_agent_steps(noops, terminal, closes):
    """An episode is truncated after `time_limit` agent steps, no-ops not counted; as a terminal state if so told."""
    made = lanes("Pong", 2, time_limit=40, noop_max=noops, time_limit_terminal=terminal)
    made.reset({0: 1, 1: 2}, first=True)
    for t, now in enumerate(play(made, random_actions(made, 130)), 1):
        assert now.ended.tolist() == [t % 40 == 0] * 2
        assert now.closes.tolist() == [closes if t % 40 == 0 else NOT_ENDED] * 2


def test_the_frame_at_a_time_limit_is_the_true_one():
    """What a truncation shows as its final frame is what the emulator shows without a limit; then the game is new."""
    cut, whole = (lanes("Pong", time_limit=limit, noop_max=0) for limit in (40, 1000))
    first = [made.reset({0: 1}, first=True) for made in (cut, whole)]
    acts = random_actions(cut, 40)
    a, b = (play(made, acts)[-1] for made in (cut, whole))
    assert (a.ended[0], b.ended[0]) == (True, False)
    np.testing.assert_array_equal(a.final, b.final)
    assert (a.frame != a.final).any()
    np.testing.assert_array_equal(a.frame, first[0])


def test_starts_differ_by_their_no_ops():
    """Up to `noop_max` frames pass before an episode begins, drawn from its seed; none if it is 0."""
    for most in (0, 1, 2):
        _, info = lanes("Breakout", 40, noop_max=most, fire_reset=False).env.reset(seed=np.arange(40))
        assert set(info["episode_frame_number"].tolist()) == set(range(most + 1))
    random, plain = lanes("Breakout", 5), lanes("Breakout", 5, noop_max=0)
    seeds = {i: i for i in range(5)}
    a, b = random.reset(dict(seeds), first=True), plain.reset(dict(seeds), first=True)
    assert len({f.tobytes() for f in a}) > 2
    assert len({f.tobytes() for f in b}) == 1
    np.testing.assert_array_equal(a, random.reset(dict(seeds), first=True))


def test_fire_starts_the_ball():
    """fire_reset presses FIRE at a start, so that in Breakout a ball is in play without the agent's doing."""
    lost = {}
    for fire in (True, False):
        made = lanes("Breakout", fire_reset=fire, noop_max=0)
        made.reset({0: 1}, first=True)
        lost[fire] = sum(int(s.closes[0] != NOT_ENDED) for s in play(made, np.zeros((120, 1), np.int64)))
    assert lost == {True: 1, False: 0}


def frames_of(actions: np.ndarray, **values) -> np.ndarray:
    """What a game of Breakout shows, from one seed, without no-ops."""
    made = lanes("Breakout", **(PLAIN | values))
    made.reset({0: 7}, first=True)
    found = np.stack([s.final[0] for s in play(made, actions)])
    made.close()
    return found


@pytest.mark.parametrize("skip", [2, 3, 4, 7])
def test_a_step_takes_the_frames_it_is_told(skip):
    """Each step of `frame_skip` frames shows what as many steps of one frame show last, the action held meanwhile."""
    acts = np.random.default_rng(0).integers(4, size=(30, 1))
    each = frames_of(acts.repeat(skip, axis=0), frame_skip=1)
    np.testing.assert_array_equal(frames_of(acts, frame_skip=skip), each[skip - 1 :: skip])
    assert (each[1:] != each[:-1]).any()


def test_sticky_actions_reach_the_emulator():
    """With sticky=1 no action is ever heard, with 0 every one, in between some; the draws follow from the seed."""
    acts = np.random.default_rng(0).integers(4, size=(60, 1))
    heard, some, deaf = (frames_of(acts, sticky=p) for p in (0.0, 0.5, 1.0))
    np.testing.assert_array_equal(deaf, frames_of(np.zeros_like(acts)))
    np.testing.assert_array_equal(some, frames_of(acts, sticky=0.5))
    assert (heard != deaf).any() and (heard != some).any() and (some != deaf).any()


def test_lanes_are_seeded_and_reset_on_their_own():
    """A lane's game follows from its seed alone, wherever the lane lies; the other lanes play on undisturbed."""
    made, alone = lanes("Breakout", 3, sticky=0.25), lanes("Breakout", 1, sticky=0.25)
    made.reset({0: 4, 1: 5, 2: 6}, first=True)
    acts = random_actions(made, 60)
    before = play(made, acts[:30])
    frames = made.reset({1: 9})
    np.testing.assert_array_equal(frames[[0, 2]], before[-1].frame[[0, 2]])
    after = play(made, acts[30:])
    for lane, seed, part, steps in ((2, 6, acts, before + after), (1, 9, acts[30:], after)):
        alone.reset({0: seed}, first=True)
        for a, b in zip(play(alone, part[:, [lane]]), steps, strict=True):
            np.testing.assert_array_equal(a.frame[0], b.frame[lane])
            assert (a.reward[0], a.closes[0]) == (b.reward[lane], b.closes[lane])


def test_action_sets():
    """A game's own actions, or all eighteen."""
    for game, own in (("Pong", 6), ("Breakout", 4), ("Freeway", 3), ("Seaquest", 18)):
        assert lanes(game).spec.actions == own
        assert lanes(game, full_actions=True).spec.actions == 18
    assert lanes("Pong", stack=3).spec.obs == (3, 84, 84)


@pytest.mark.slow
@pytest.mark.parametrize("game", names.PAPER_GAMES)
def test_every_game_of_the_paper_plays(game):
    """Each game shows changing 84x84 frames and finite raw rewards."""
    made = lanes(game)
    made.reset({0: 0}, first=True)
    steps = play(made, random_actions(made, 100))
    assert len({s.frame.tobytes() for s in steps}) > 10
    assert np.isfinite([s.reward for s in steps]).all()
