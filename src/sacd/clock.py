"""The cadence of a run as arithmetic on its step counter: what is due now is a function of the step alone.

`step` counts the agent steps taken before this turn of the loop, over all lanes of a run; a turn takes one step in each
lane, so it covers the numbers step … step + lanes - 1.
"""

from dataclasses import dataclass

from sacd.config import Config


@dataclass
class Clock:
    """Where a run is."""

    config: Config
    step: int = 0
    updates: int = 0

    @property
    def done(self) -> bool:
        return self.step >= self.config.steps

    @property
    def turn(self) -> int:
        return self.step // self.config.n_envs

    @property
    def fraction(self) -> float:
        """Share of the run that is done."""
        return self.step / self.config.steps

    @property
    def warm(self) -> bool:
        """Whether the policy acts; before, actions are uniform."""
        return self.step >= self.config.learning_starts

    def updates_due(self) -> int:
        """Gradient steps of this turn: gradient_steps for each number > learning_starts that train_freq divides."""
        if self.turn < self.config.n_step:  # the first return is not complete
            return 0
        return self._learning(self.config.train_freq) * self.config.gradient_steps

    def targets_due(self) -> bool:
        """Whether the targets move in this turn, by their period in agent steps."""
        return self.config.target_update_interval > 0 and self._learning(self.config.target_update_interval) > 0

    def tick(self) -> None:
        self.step += self.config.n_envs

    def passed(self, every: int) -> bool:
        """Whether the last tick reached or crossed a multiple of `every`."""
        return self.step // every > (self.step - self.config.n_envs) // every

    def _learning(self, every: int) -> int:
        """Multiples of `every` among this turn's step numbers, after learning has started."""
        first = max(self.step, self.config.learning_starts + 1)
        last = self.step + self.config.n_envs - 1
        return max(last // every - (first - 1) // every, 0)
