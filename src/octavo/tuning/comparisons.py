"""Comparisons that nobody has to make: two texts of a run, and a reward says which one is better."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from octavo.config.parts import MOST, FilePath, PartConfig, PartOf, SplitBy, register
from octavo.corpus import Document, Report, Source
from octavo.corpus.records.base import Form, refuse_as_text
from octavo.corpus.records.turns import Turns, messages_of
from octavo.errors import InputError
from octavo.util.seeds import derived

TRIES = 64
"""For each pair that is wanted, this many are written at most: those that tie teach nothing."""


class Comparisons(Source):
    """Pairs of a run's texts as preferences, the better one chosen."""

    def __init__(self, config: ComparisonsSource) -> None:
        self._config = config

    def documents(self) -> Iterator[Document]:
        """Raises InputError where the texts tie too often."""
        told = json.dumps(self.describe(), sort_keys=True)
        for number, turns in enumerate(_compared(self._config.run, told), start=1):
            yield Document(f"comparison {number}", iter([turns.text()]))

    def describe(self) -> dict[str, Any]:
        """The weights, not the folder, say what is written."""
        from octavo.run.finetune import find_start
        from octavo.util.files import file_hash

        weights = find_start(self._config.run).folder / "model.safetensors"
        return {**self._config.model_dump(mode="json", exclude={"run"}), "weights": file_hash(weights)}


@lru_cache(maxsize=4)
def _compared(run: Path, told: str) -> tuple[Turns, ...]:
    """The pairs of the source that describes itself as `told`; a run reads its text several times."""
    from octavo.run.run import Run
    from octavo.tuning.best import asked_of, pairs_of

    plain = json.loads(told)
    del plain["weights"]
    config = ComparisonsSource.model_validate({**plain, "run": run})
    opened, reward = Run.open(run), config.reward.build()
    questions, found, asked = asked_of(opened), [], 0
    while len(found) < config.pairs:
        if asked >= TRIES * config.pairs:
            raise InputError(
                f"Of {asked:,} pairs of texts of {run} {len(found):,} differ by the reward {config.reward.kind!r}; "
                f"{config.pairs:,} are asked for.",
                remedy="fewer pairs, or a reward that tells its texts apart",
            )
        count = min(2 * config.pairs, TRIES * config.pairs - asked)
        chosen = [questions[at % len(questions)] for at in range(asked, asked + count)]
        seed = derived(config.seed, asked)
        for record in pairs_of(opened, reward, chosen, seed=seed):
            found.append(Turns(messages_of(record["messages"]), record["chosen"], record["rejected"]))
        asked += count
    return tuple(found[: config.pairs])


@register("source")
class ComparisonsSource(PartConfig):
    """Pairs of texts that a run of yours wrote, the better one by a reward first: for learning a reward, or for
    preference tuning, where the true one is known."""

    kind: Literal["comparisons"] = "comparisons"
    run: FilePath
    """The run that writes them. One that was tuned on conversations answers what its training asked."""
    reward: Annotated[PartConfig, PartOf("reward", "pidgin")] = Field(
        {"kind": "pidgin"}, validate_default=True
    )
    """What says which of two texts is better."""
    pairs: int = Field(500, ge=1, le=MOST)
    """How many. Texts that are worth the same make none."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which texts: the same seed gives the same ones."""

    form: ClassVar[Form] = "preferences"
    splits: ClassVar[tuple[SplitBy, ...]] = ("documents", "prompts")

    def refuse(self, recipe: Any) -> str | None:
        return refuse_as_text(self.form, recipe)

    def build(self, report: Report | None = None) -> Comparisons:
        """Make the source; texts are written as they are read."""
        return Comparisons(self)
