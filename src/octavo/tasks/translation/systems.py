"""A run on given pairs, beside copying the source and translating word for word, and beside another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from octavo.data.batches import Known
from octavo.errors import CorpusError, InputError, TokenizerError
from octavo.evaluation.result import LeftOut
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.tasks.translation.alignment import Sides, WordModel
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.bleu import Difference, Scores, bootstrap, judged
from octavo.tasks.translation.evaluate import sides
from octavo.tasks.translation.lines import translated
from octavo.tasks.translation.source import Pair, one_line
from octavo.tasks.translation.translator import Skipped, left_out_of
from octavo.util.records import OPTIONAL
from octavo.util.terminal import Console


@dataclass(frozen=True)
class Systems:
    """Translations of given pairs by several systems.

    Attributes:
        pairs: those whose source every run can read; `skipped`: the others.
        known: how many of their sources were learned from; None if the training text is gone.
        difference: between two runs.
    """

    pairs: int
    skipped: LeftOut | None = field(default=None, metadata=OPTIONAL)
    known: Known | None = field(default=None, metadata=OPTIONAL)
    systems: dict[str, Scores] = field(default_factory=dict)
    difference: Difference | None = field(default=None, metadata=OPTIONAL)


def compared(
    run: Run,
    other: Run | None,
    pairs: Sequence[Pair],
    search: Search,
    *,
    report: Callable[[str], None],
) -> Systems:
    """Judge each system on the pairs.

    Raises InputError where no source can be read, MissingExtra without sacrebleu.
    """
    if other is not None and other.path.resolve() == run.path.resolve():
        raise InputError(f"{run.path} cannot be compared with itself.")
    runs = [run] if other is None else [run, other]
    translators = [one.translator() for one in runs]
    kept, skipped = [], []
    for pair in pairs:
        read = (one.read(pair.source, pair.place) for one in translators)
        refused = next((one for one in read if isinstance(one, Skipped)), None)
        kept += [pair] if refused is None else []
        skipped += [] if refused is None else [refused]
    if not kept:
        raise InputError(f"None of {len(pairs):,} pairs can be judged. {skipped[0]}.")
    sources, references = [one_line(one.source) for one in kept], [one_line(one.target) for one in kept]
    judged(references[:1], references[:1])  # may raise: now, not after the translation
    written = {str(one.path): texts(one, sources, search) for one in runs}
    written["copy of the source"] = sources
    known, learned = None, learned_pairs(run)
    if learned is None:
        report("the training text is gone: word for word is left out")
    else:
        ids = [run.tokenizer.encode_source(source) for source in sources]
        there = {np.asarray(source, np.uint32).tobytes() for source, _ in learned}
        again = sum(np.asarray(one, np.uint32).tobytes() in there for one in ids)
        known = Known(again, len(sources))
        written["word for word (IBM model 1)"] = word_for_word(run, sources, learned)
    difference = None
    if other is not None:
        first, second = (written[str(one.path)] for one in runs)
        difference = bootstrap(first, second, references)
    return Systems(
        pairs=len(kept),
        skipped=left_out_of(skipped, len(pairs)),
        known=known,
        systems={name: judged(one, references) for name, one in written.items()},
        difference=difference,
    )


def texts(run: Run, sources: Sequence[str], search: Search) -> list[str]:
    """A run's best translations. Raises InputError for a source that it cannot read."""
    best_texts = []
    for _, best in translated(run.translator(), sources, search, name="the sources"):
        if isinstance(best, Skipped):
            raise InputError(f"{best}.")
        best_texts.append(best[0].text if best else "")
    return best_texts


def word_for_word(run: Run, sources: Sequence[str], learned: Sequence[Sides]) -> list[str]:
    """Each source token by the likeliest target token, by the pairs that a run learned from."""
    tokenizer, words = run.tokenizer, WordModel(learned)
    written = (tokenizer.decode(words.translate(tokenizer.encode_source(source))) for source in sources)
    return [one_line(text) for text in written]


def learned_pairs(run: Run) -> list[Sides] | None:
    """The pairs that a run learned from; None if these are gone."""
    try:
        dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
    except (CorpusError, TokenizerError):
        return None
    return sides(dataset.train, run.config, run.tokenizer)
