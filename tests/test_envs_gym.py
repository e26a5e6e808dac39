"""Gymnasium lanes: ends, limits, seeds and actions as the caller wants them, and what a faulty environment comes to."""

import numpy as np
import pytest

from sacd import config
from sacd.envs.gym import GymLanes
from sacd.errors import DivergedError, EnvError
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Step
from tiny import finish, start, words
from worlds import SICK, world


def lanes(name: str, count: int = 1, **values) -> GymLanes:
    """Lanes of a test world, or of any other environment by its id."""
    env = name if "-v" in name else world(name)
    return GymLanes(config.make(env, "classic", **values), count)


def begin(made: GymLanes, *seeds: int) -> np.ndarray:
    return made.reset(dict(enumerate(seeds)), first=True)


def step(made: GymLanes, *actions: int, seeds: dict[int, int] | None = None) -> Step:
    made.send(np.array(actions), seeds or {})
    return made.recv()


def test_a_time_limit_is_a_truncation():
    """At its time limit a lane truncates, shows its true last frame, and has begun the next episode."""
    made = lanes("World")
    begin(made, 1)
    for t in range(1, 5):
        now = step(made, 0)
        assert (now.closes[0], now.ended[0], now.frame[0, 1]) == (NOT_ENDED, False, t)
    last = step(made, 2)
    assert (last.closes[0], last.ended[0]) == (TRUNCATED, True)
    assert last.final[0, 1:].tolist() == [5, 2]
    assert last.frame[0, 1:].tolist() == [0, -1]
    assert last.reward.tolist() == [5.0]


def test_a_termination_is_not_a_truncation():
    """An environment's own end terminates, and so does one that comes together with the time limit."""
    for name, length in (("Short", 4), ("Both", 5)):
        made = lanes(name)
        begin(made, 1)
        closes = [step(made, 0).closes[0] for _ in range(length)]
        assert closes == [NOT_ENDED] * (length - 1) + [TERMINATED]


def test_a_time_limit_may_count_as_terminal():
    """`time_limit_terminal` stores the limit as a terminal state: the author's code does."""
    made = lanes("World", time_limit_terminal=True)
    begin(made, 1)
    assert [step(made, 0).closes[0] for _ in range(5)] == [NOT_ENDED] * 4 + [TERMINATED]


def test_lanes_end_on_their_own():
    """An end in one lane leaves the others where they are."""
    made = lanes("World", 3)
    begin(made, 1, 2, 3)
    step(made, 0, 0, 0)
    frames = made.reset({1: 9})
    assert frames[:, 1].tolist() == [1, 0, 1]
    for t in range(2, 5):
        assert step(made, 0, 0, 0).frame[:, 1].tolist() == [t, t - 1, t]
    last = step(made, 0, 0, 0)
    assert last.ended.tolist() == [True, False, True]
    assert last.frame[:, 1].tolist() == [0, 4, 0]
    assert last.final[:, 1].tolist() == [5, 4, 5]


def test_seeds_go_to_their_lanes():
    """The same seed starts the same episode in any lane, at the first reset and at an episode's end."""
    made = lanes("World", 2)
    first = begin(made, 7, 8)
    marks = {7: first[0, 0], 8: first[1, 0]}
    assert marks[7] != marks[8]
    for _ in range(4):
        step(made, 0, 0)
    swapped = step(made, 0, 0, seeds={0: 8, 1: 7}).frame
    assert swapped[:, 0].tolist() == [marks[8], marks[7]]


def test_an_unseeded_lane_goes_on_with_its_own_generator():
    """Without a new seed the next episode differs from the last, and still follows from the first seed."""
    marks = []
    for _ in range(2):
        made = lanes("World")
        begin(made, 5)
        marks.append([step(made, 0).frame[0, 0] for _ in range(20)][4::5])
    assert marks[0] == marks[1]
    assert len(set(marks[0])) > 1


def test_actions_are_shifted_to_the_environments():
    """Discrete(3, start=5) gets 5, 6 and 7 for the actions 0, 1 and 2."""
    made = lanes("Shifted")
    assert (made.spec.actions, made.spec.action_start) == (3, 5)
    begin(made, 0)
    assert [step(made, a).frame[0, 2] for a in range(3)] == [5, 6, 7]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_given_out_does_not_change(asynchronous):
    """Frames and rewards already given out stay as they were, even if the environment reuses one array."""
    made = lanes("Reuser", 2, async_envs=asynchronous)
    first = begin(made, 1, 2)
    given = [step(made, t % 3, 0) for t in range(4)]
    made.close()
    assert first[:, 1].tolist() == [0, 0]
    assert [s.frame[0, 1] for s in given] == [s.final[1, 1] for s in given] == [1, 2, 3, 4]
    assert [s.reward[0] for s in given] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pixels"])
def test_workers_give_what_one_process_gives(name):
    """`async_envs` changes where the lanes run and nothing else."""
    actions = np.random.default_rng(0).integers(2, size=(60, 3))
    runs = []
    for asynchronous in (False, True):
        made = lanes(name, 3, async_envs=asynchronous)
        frames = [begin(made, 1, 2, 3)]
        steps = [step(made, *a, seeds={0: 4, 2: 5}) for a in actions]
        made.close()
        columns = ("frame", "final", "reward", "closes", "ended")
        runs.append([*frames, *(np.stack([getattr(s, c) for s in steps]) for c in columns)])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_images_and_vectors_are_told_apart():
    """Bytes in two or three dimensions are images and are stacked; numbers in one are vectors and are not."""
    pixels, numbers = lanes("Pixels", stack=3).spec, lanes("World", stack=3).spec
    assert (pixels.image, pixels.frame, pixels.obs) == (True, (40, 44, 3), (3, 40, 44, 3))
    assert (numbers.image, numbers.frame, numbers.obs, numbers.stack) == (False, (3,), (3,), 1)
    frame = begin(lanes("Pixels"), 0)
    assert frame.dtype == np.uint8


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("NanReward", DivergedError, "reward"),
        ("InfReward", DivergedError, "reward"),
        ("NanObs", DivergedError, "observation"),
        ("Raiser", EnvError, "no such reward"),
        ("Crooked", EnvError, "raised"),
    ],
)
# Gymnasium tells of a failing worker in a warning of its own before it raises.
@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
def test_a_fault_is_an_error_at_its_step(name, error, said, asynchronous):
    """Not a number, an exception, another shape: the sentence names the environment, and no step is handed out."""
    made = lanes(name, 2, async_envs=asynchronous)
    begin(made, 1, 2)
    for _ in range(SICK - 1):
        step(made, 0, 0)
    with pytest.raises(error, match=said) as caught:
        step(made, 0, 0)
    assert name in str(caught.value)
    made.close()


@pytest.mark.slow
def test_a_dead_worker_is_a_sentence(tmp_path):
    """A worker that was killed is reported in words, not as an end of file, and everything is let go."""
    process = start([*words(world("Dier"), tmp_path / "run"), "--async-envs", "true", "--n-envs", "2"])
    said = finish(process, 3)
    assert "a worker of worlds:worlds/Dier-v0 was killed" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Continuous", "Continuous actions need another agent"),
        ("Many", "discrete SAC needs Discrete"),
        ("DictSeen", "FlattenObservation"),
        ("TupleSeen", "FlattenObservation"),
        ("NumberSeen", "FlattenObservation"),
        ("FloatImage", "type float32"),
    ],
)
def test_spaces_that_do_not_fit(name, said):
    """Spaces this package cannot take are refused when the lanes are made, with what to do."""
    with pytest.raises(EnvError, match=said):
        lanes(name)


@pytest.mark.parametrize("env", ["no_such_module:Env-v0", "worlds:worlds/Nothing-v0"])
def test_what_cannot_be_made(env):
    """An id that Gymnasium cannot make is an error with its reason."""
    with pytest.raises(EnvError, match="cannot be made"):
        GymLanes(config.make(env, "classic"), 1)
