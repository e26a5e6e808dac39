"""The pool: scores by lane, seeds that make runs independent of the fleet, and exact resume by replayed actions."""

import json
from typing import Any

import numpy as np
import pytest

from sacd import config
from sacd.envs import names
from sacd.envs.pool import Pool
from sacd.types import Episode
from worlds import world

EVERY = 70  # steps between regular checkpoints


def pool(env: str, seeds: tuple[int, ...] = (3, 9), lanes: int = 2, **values: Any) -> Pool:
    atari = env.startswith("ALE/")
    return Pool([config.make(env, "paper" if atari else "classic", seed=s, **values) for s in seeds], lanes)


def drive(made: Pool, actions: np.ndarray, first: int = 0, every: int = EVERY) -> list[tuple]:
    """Steps with these actions from step `first` on, regular checkpoints among them: all that comes back."""
    found = []
    for t, action in enumerate(actions, first + 1):
        made.send(action)
        step, episodes = made.recv()
        columns = (step.frame, step.final, step.reward, step.closes, step.ended)
        found.append((*(c.tobytes() for c in columns), episodes))
        if t % every == 0:
            made.checkpoint_passed()
    return found


def actions_for(made: Pool, steps: int) -> np.ndarray:
    return np.random.default_rng(0).integers(made.spec.actions, size=(steps, made.count))


def saved(made: Pool) -> tuple[list[dict], list[list[np.ndarray]]]:
    """What a checkpoint holds, through JSON and back."""
    data = [json.loads(json.dumps(made.save(r))) for r in range(made.runs)]
    return data, [made.recorded(r) for r in range(made.runs)]


slow = pytest.mark.slow
CASES = [
    pytest.param("ALE/Breakout-v5", 0.0, marks=slow), pytest.param("ALE/Breakout-v5", 0.25, marks=slow),
    pytest.param("ALE/Qbert-v5", 0.0, marks=slow), ("ALE/Qbert-v5", 0.25),
    ("CartPole-v1", 0.0), ("sacd/Catch-v0", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("env", "sticky"), CASES)
def test_a_loaded_pool_goes_on_exactly(env, sticky):
    """Saved at any moment and loaded into new emulators, all lanes of all runs go on frame by frame as if never left.

    Qbert and sticky actions are where restored emulator states diverge.
    """
    values = {"sticky": sticky, "time_limit": 90}
    whole = pool(names.resolve(env), **values)
    acts = actions_for(whole, 220)
    whole.start()
    shown, moments, at = [], {}, 0
    for stop in (0, 70, 71, 139):
        shown += drive(whole, acts[at:stop], at)
        moments[stop], at = saved(whole), stop
    shown += drive(whole, acts[at:], at)
    assert sum(len(s[-1]) for s in shown) >= 8, "the test is about episodes that end"
    for stop, (data, recorded) in moments.items():
        copy = pool(env, **values)
        assert copy.load(data, recorded) == []
        assert saved(copy)[0] == data
        assert drive(copy, acts[stop : stop + 80], stop) == shown[stop : stop + 80]
        copy.close()
    whole.close()


def test_lanes_are_reseeded_only_after_a_regular_checkpoint():
    """Episodes end without a new seed until a checkpoint has passed; then each lane gets one, at its next end, once."""
    made = pool(world("Short"))  # episodes of four steps
    made.start()
    acts = actions_for(made, 100)
    drive(made, acts[:14], every=1000)
    assert made.resets.tolist() == [0] * 4
    assert [len(a) for a in made.recorded(0)] == [14, 14]
    made.checkpoint_passed()
    drive(made, acts[:1], every=1000)
    assert made.resets.tolist() == [0] * 4
    drive(made, acts[:1], every=1000)
    assert made.resets.tolist() == [1] * 4
    assert [len(a) for a in made.recorded(1)] == [0, 0]
    drive(made, acts[:40], every=1000)
    assert made.resets.tolist() == [1] * 4
    assert [len(a) for a in made.recorded(1)] == [40, 40]


def test_an_extra_save_changes_nothing():
    """What happens after a save on request (an interruption) is what would have happened without it."""
    plain, asked = pool("CartPole-v1"), pool("CartPole-v1")
    acts = actions_for(plain, 150)
    assert (plain.start() == asked.start()).all()
    shown = drive(plain, acts)
    for t in range(0, 150, 25):
        assert drive(asked, acts[t : t + 25], t) == shown[t : t + 25]
        saved(asked)
    assert saved(asked)[0] == saved(plain)[0]


def test_an_environment_that_does_not_repeat_itself_is_noticed():
    """Lanes whose replay does not show the saved frame are named, and stand at the start of a new episode."""
    made = pool(world("Fickle"))
    made.start()
    drive(made, actions_for(made, 10))
    data, recorded = saved(made)
    copy = pool(world("Fickle"))
    assert copy.load(data, recorded) == [0, 1, 2, 3]
    assert copy.frame[:, 1].tolist() == [0] * 4
    assert copy.score.tolist() == copy.length.tolist() == [0] * 4
    assert [len(a) for a in copy.recorded(0)] == [0, 0]
    assert copy.resets.tolist() == [1] * 4


def test_one_lost_lane_leaves_the_others():
    """Only the lane that came out differently is started anew; the rest are where they were."""
    made = pool("CartPole-v1")
    made.start()
    acts = actions_for(made, 40)
    drive(made, acts[:30], every=1000)
    data, recorded = saved(made)
    data[1]["frame"][0] = "of another world"
    copy = pool("CartPole-v1")
    assert copy.load(data, recorded) == [2]
    for lane in (0, 1, 3):
        np.testing.assert_array_equal(copy.frame[lane], made.frame[lane])
        assert (copy.score[lane], copy.length[lane]) == (made.score[lane], made.length[lane])
    assert (copy.score[2], copy.length[2]) == (0.0, 0)
    kept = copy.frame[[0, 1, 3]].copy()
    made.send(acts[30])
    copy.send(acts[30])
    after, twin = made.recv()[0], copy.recv()[0]
    np.testing.assert_array_equal(after.final[[0, 1, 3]], twin.final[[0, 1, 3]])
    assert (kept != twin.final[[0, 1, 3]]).any()


def test_scores_are_raw_and_by_lane():
    """An episode's score is the sum of its raw rewards, its length the number of agent steps; both begin anew."""
    made = pool(world("Short"), seeds=(1,), lanes=2)
    made.start()
    shown = drive(made, actions_for(made, 8))
    assert [s[-1] for s in shown if s[-1]] == [[Episode(0, 10.0, 4), Episode(1, 10.0, 4)]] * 2
    assert made.score.tolist() == [0, 0]


def test_a_lifes_end_is_not_an_episodes():
    """With life_loss=terminal the score is that of the whole game, over all its lives."""
    scores = {}
    for mode in ("terminal", "ignore"):
        made = pool("ALE/Breakout-v5", seeds=(1,), lanes=1, life_loss=mode)
        made.start()
        scores[mode] = [e for s in drive(made, actions_for(made, 500)) for e in s[-1]]
    assert scores["terminal"] == scores["ignore"] != []


@pytest.mark.parametrize("env", ["ALE/Breakout-v5", "CartPole-v1"])
def test_a_run_in_a_fleet_is_the_run_alone(env):
    """Run 1 of a fleet of two sees what it sees alone; run 0, of another seed, sees something else."""
    fleet, alone = pool(env, (3, 9), sticky=0.25), pool(env, (9,), sticky=0.25)
    acts = actions_for(fleet, 150)
    np.testing.assert_array_equal(fleet.start()[2:], alone.start())
    for t, action in enumerate(acts):
        fleet.send(action)
        alone.send(action[2:])
        a, b = fleet.recv()[0], alone.recv()[0]
        np.testing.assert_array_equal(a.frame[2:], b.frame)
        np.testing.assert_array_equal(a.reward[2:], b.reward)
        if t == EVERY:
            fleet.checkpoint_passed()
            alone.checkpoint_passed()
    assert len({f.tobytes() for f in fleet.frame}) == 4
