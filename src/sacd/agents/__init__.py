"""Agents: `init` / `act` / `update` on an explicit state. A new agent is one file here and one line in AGENTS."""

from sacd.agents.sac import SAC

AGENTS = {"sac": SAC}
