"""Evaluation: whole episodes, each from its own seed, none of them endless."""

import torch

from sacd import config
from sacd.agents.sac import SAC
from sacd.envs.pool import make_lanes
from sacd.evaluate import choose, play, summary
from worlds import world


def scores(policy: str = "greedy", env: str = "CartPole-v1", episodes: int = 5, **fields) -> list[float]:
    """An untrained agent's scores."""
    chosen = config.make(env, "classic", hidden=(16,), device="cpu", eval_episodes=episodes, **fields)
    lanes = make_lanes(chosen, 1)
    lanes.close()
    agent = SAC(lanes.spec, chosen)
    return play(agent, agent.init(torch.tensor([chosen.seed])), [chosen], [0], policy)[0]


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
    for policy in ("greedy", "sampled"):
        alone = [scores(policy, episodes=3, seed=s) for s in seeds]
        assert play(agent, state, configs[1:], [1, 2], policy) == alone[1:]


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
    share = (choose(agent, state, obs, u, "greedy", 0.2) != mode).double().mean().item()
    assert abs(share - 0.1) < 0.01  # of two actions, a uniform one is the mode half the time
    assert torch.equal(choose(agent, state, obs, u, "greedy", 0.0), mode)
    assert (choose(agent, state, obs, u, "sampled", 0.0) != mode).any()


def test_summary() -> None:
    """Mean, sample standard deviation and range; one episode has no deviation."""
    assert summary([1.0, 2.0, 6.0]) == {"episodes": 3, "mean": 3.0, "std": 7**0.5, "min": 1.0, "max": 6.0}
    assert summary([2.0])["std"] is None
