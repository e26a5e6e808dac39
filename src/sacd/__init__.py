"""sacd: Soft Actor-Critic for discrete actions. The command is `sacd`; see README.md."""

__version__ = "0.1.0"
__all__ = ["__version__"]
