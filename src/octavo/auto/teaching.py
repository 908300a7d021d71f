"""Whether a model is worth a teacher: a training of the same model before it, from which it then learns too. Nothing
here imports torch.

Where a text is seen often, a teacher's predictions are worth more than the time that it takes: they say what else could
have come, and so there is less to learn by heart (Furlanello et al. 2018). The gains were measured by
`benchmarks/teaching.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.auto.family import dropout_for
from octavo.config.teachers import ASKING

SEEN, WORN = 8.0, 50.0
"""From how many passes of each training on, and from how many of these times weights for each token of the text, a
teacher is worth its time."""
SURE = 0.5
"""Of what a teacher is said to bring, the standard deviation."""
LESS = 0.1
"""Less dropout than its teacher is best for a model that is taught."""


@dataclass(frozen=True)
class Teaching:
    """So many teachers, and a model that takes `longer` times as many steps as each. `gain`: how much more it learns
    than one of them, as a share of what that learned: by how much it has fewer bits than before its first step."""

    teachers: int
    longer: int
    gain: float

    def share(self, alone: float) -> float:
        """The share of its first bits that a model ends with where one that nobody teaches has `alone`."""
        return 1 - (1 + self.gain) * (1 - alone)

    def steps_in(self, most: int) -> int:
        """Of each training, in the time of so many steps without a teacher."""
        taught = 1 + ASKING if self.teachers else 1.0
        return int(most / (self.teachers + taught * self.longer))

    @staticmethod
    def is_worth_it(passes: float, weights_per_token: float) -> bool:
        """Whether trainings that see their text so often have enough to learn by heart."""
        return passes >= SEEN and passes * weights_per_token >= WORN

    def dropout(self, passes: float, weights_per_token: float) -> float:
        """Of the model itself, whose teachers see the text so often."""
        alone = dropout_for(passes, weights_per_token)
        return max(0.0, round(alone - LESS, 3)) if self.teachers else alone


ALONE = Teaching(0, 1, 0.0)
TAUGHT = (Teaching(1, 1, 0.18), Teaching(3, 2, 0.25))
