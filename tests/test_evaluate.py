"""Evaluation: whole episodes, each from its own seed, none of them endless."""

import numpy as np
import torch

from sacd import config
from sacd.agents.sac import SAC
from sacd.envs.atari import AtariLanes, noops
from sacd.envs.pool import make_lanes
from sacd.envs.together import Together
from sacd.evaluate import Player, arena, choose, play_randomly, play_runs, seed, summary
from sacd.signals import Stop
from worlds import world


def scores(policy: str = "greedy", env: str = "CartPole-v1", episodes: int = 5, **fields) -> list[float]:
    """An untrained agent's scores."""
    chosen = config.make(env, "classic", hidden=(16,), device="cpu", eval_episodes=episodes, **fields)
    lanes = make_lanes(chosen, 1)
    lanes.close()
    agent = SAC(lanes.spec, chosen)
    return play_runs(agent, agent.init(torch.tensor([chosen.seed])), [Player(chosen, 0, policy)])[0]


def test_the_number_of_lanes_does_not_choose_the_episodes() -> None:
    """Episode i has the same score whichever lane plays it, so short games are not favoured."""
    for policy in ("greedy", "sampled"):
        assert scores(policy, eval_lanes=1) == scores(policy, eval_lanes=3) == scores(policy, eval_lanes=5)


def test_runs_played_together_score_as_alone() -> None:
    """Two of a fleet's three runs, played side by side, have the scores that each has by itself."""
    seeds = (4, 5, 6)
    configs = [
        config.make("CartPole-v1", "classic", hidden=(16,), device="cpu", eval_episodes=3, seed=s) for s in seeds
    ]
    lanes = make_lanes(configs[0], 1)
    lanes.close()
    agent = SAC(lanes.spec, configs[0])
    state = agent.init(torch.tensor(seeds))
    players = [Player(configs[r], r, policy) for r in (1, 2) for policy in ("greedy", "sampled")]
    alone = [scores(p.policy, episodes=3, seed=p.config.seed) for p in players]
    assert play_runs(agent, state, players) == alone


def test_the_seed_chooses_the_episodes() -> None:
    """The same seed plays the same episodes, another seed others; the two policies differ."""
    assert scores("sampled") == scores("sampled")
    assert len({tuple(scores(p, seed=s)) for p in ("greedy", "sampled") for s in (0, 1)}) == 4


def test_an_endless_episode_is_cut() -> None:
    """An environment that never ends is cut at the time limit: rewards 1, 2, … to 30, whatever the lanes."""
    for lanes in (1, 2):
        assert scores(env=world("Endless"), episodes=3, eval_lanes=lanes, time_limit=30) == [30 * 31 / 2] * 3


def test_whole_games_are_played() -> None:
    """What a lost life means for learning changes no score: a game of five lives is played to its end, or the limit."""
    modes = {m: scores("sampled", "ALE/Breakout-v5", 2, life_loss=m, time_limit=300) for m in ("ignore", "reset")}
    assert modes["reset"] == modes["ignore"]
    assert max(modes["reset"]) > 0


def test_epsilon_is_the_share_of_uniform_actions() -> None:
    """Greedy evaluation takes the mode, but for a share of uniform actions; sampled takes the mode no more often."""
    chosen = config.make("CartPole-v1", "classic", hidden=(16,))
    lanes = make_lanes(chosen, 1)
    lanes.close()
    agent = SAC(lanes.spec, chosen)
    state = agent.init(torch.tensor([0]))
    obs = torch.randn(1, 1, 4).expand(1, 20_000, 4)
    mode = agent.logits(state, obs).argmax(-1)
    u = torch.rand(1, 20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def other(policy: str, epsilon: float) -> float:
        """The share of actions that are not the mode."""
        act = choose(agent, state, [Player(config.changed(chosen, eval_epsilon=epsilon), 0, policy)])
        return (act(obs, u) != mode).double().mean().item()

    assert abs(other("greedy", 0.2) - 0.1) < 0.01  # of two actions, a uniform one is the mode half the time
    assert other("greedy", 0.0) == 0.0
    assert other("sampled", 0.2) == other("sampled", 0.0) > 0.0


def test_games_start_with_the_wanted_noops() -> None:
    """ALE's own count of the frames before the first action: 1 to 30, all of them, and as `noops` foresees."""
    chosen = config.make("ALE/Pong-v5", "author", fire_reset=False)
    assert chosen.noop_max == 0
    player = Player(chosen, 0, "greedy")
    seeds = [seed(chosen, player.stream, episode) for episode in range(240)]
    lanes = arena([player], len(seeds)).parts[0]
    assert isinstance(lanes, AtariLanes)
    _, info = lanes.env.reset(seed=np.array(seeds))
    lanes.close()
    counted = info["episode_frame_number"].tolist()
    assert counted == [noops(s, 30) for s in seeds]
    assert set(counted) == set(range(1, 31))
    anywhere = {noops(seed(config.changed(chosen, eval_noop_min=0), "x", e), 30) for e in range(240)}
    assert anywhere == set(range(31))


def test_a_player_that_is_done_stands_still(monkeypatch) -> None:
    """Who has played all episodes takes no further step, while the others finish theirs."""
    sent: list[set[int]] = []
    send = Together.send
    monkeypatch.setattr(Together, "send", lambda self, *given: (sent.append(set(self.parked)), send(self, *given))[1])
    chosen = config.make("CartPole-v1", "classic", hidden=(16,), device="cpu", eval_episodes=2, eval_lanes=1)
    lanes = make_lanes(chosen, 1)
    lanes.close()
    agent = SAC(lanes.spec, chosen)
    players = [Player(config.changed(chosen, seed=s), i, "sampled") for i, s in enumerate((0, 1, 2))]
    found = [int(sum(s)) for s in play_runs(agent, agent.init(torch.arange(3)), players)]
    assert len(set(found)) == 3  # a step is a point, so that is when each is done
    assert sent == [{p for p in range(3) if found[p] <= t} for t in range(max(found))]


def test_random_play_is_uniform() -> None:
    """CartPole falls after 22 steps on average when pushed at random."""
    chosen = config.make("CartPole-v1", "classic", eval_episodes=300)
    found = play_randomly([Player(chosen, 0, "random")], lambda n: None, Stop())[0]
    assert len(found) == 300
    assert 20 < sum(found) / 300 < 25


def test_summary() -> None:
    """Mean, sample standard deviation and range; one episode has no deviation."""
    assert summary([1.0, 2.0, 6.0]) == {"episodes": 3, "mean": 3.0, "std": 7**0.5, "min": 1.0, "max": 6.0}
    assert summary([2.0])["std"] is None
