"""Passages planted in a text, and what a run that learned from it remembers of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from octavo.data.batch import SideInputs
from octavo.errors import CorpusError, InputError
from octavo.evaluation.canaries import Continued, Memory, Passage, Planting, memory, planted
from octavo.evaluation.stored import Planted
from octavo.generation import TextRequest, in_order
from octavo.run.corpus import corpus_recipe, read_by
from octavo.run.data import Paths, build_dataset, build_source
from octavo.run.evaluate import refuse_other_text
from octavo.run.prompts import refresh_report
from octavo.run.run import Run
from octavo.tokenizers import UnknownTextError
from octavo.util.files import replace_text, storage_errors
from octavo.util.output import Output, all_or_none
from octavo.util.records import json_text, read_record
from octavo.util.terminal import Console

MOST = 0.1
"""The most of a text that may be planted; more would make it another text."""


@dataclass(frozen=True)
class PlantedFiles:
    """What planting wrote."""

    text: Path
    plan: Path
    passages: int
    controls: int
    share: float
    """Of the text, how much was planted."""


def plant(text: Paths, out: Path, how: Planting, console: Console, *, force: bool = False) -> PlantedFiles:
    """Write a text with passages planted in it, and beside it the plan, which says how often each.

    Raises InputError where the text is too short, or several documents.
    """
    if min(how.counts, default=0) < 1 or len(set(how.counts)) < len(how.counts):
        raise InputError("Passages are planted once at least, and each count is named once.")
    if min(how.each, how.controls, how.beginning, how.rest) < 1 or how.seed < 0:
        raise InputError(
            "There are at least 1 passage of each count, 1 control, 1 character of beginning and of rest, and seed 0."
        )
    recipe = corpus_recipe(text, None, None)
    if out.suffix == ".json":
        raise InputError(
            f"{out} is to hold the text; the plan is the .json beside it.", remedy="--out NAME.txt"
        )
    plan = out.with_suffix(".json")
    files = [Output(path, inputs=read_by(recipe), force=force) for path in (out, plan)]
    documents = ["".join(document.pieces) for document in build_source(recipe, console).documents()]
    if len(documents) != 1:
        raise InputError(f"The text is {len(documents):,} documents; passages are planted into one file.")
    size = len(documents[0])
    if how.characters > MOST * size:
        raise InputError(
            f"{how.characters:,} characters would be planted into a text of {size:,}; at most a tenth may be.",
            remedy="a longer text, or fewer: --each 4, or --counts 1 4 16",
        )
    planting = planted(documents[0], how)
    if planting is None:
        raise InputError(
            f"The text has too few lines that are {how.beginning + how.rest} characters before a stretch of it ends.",
            remedy="shorter passages: --beginning 30 --rest 30; or fewer: --each 4 --controls 16",
        )
    changed, passages = planting
    document = {"planting": asdict(how), "passages": [asdict(passage) for passage in passages]}
    contents = (changed, json_text(document, indent=1, ensure_ascii=False))
    with all_or_none(*files):
        for file, content in zip(files, contents, strict=True):
            with file.writing() as written:
                written.write(content)
    return PlantedFiles(out, plan, len(passages) - how.controls, how.controls, how.characters / size)


def remembered(run: Run, plan: Path, console: Console) -> Memory:
    """What a run remembers of the passages of a plan. The run folder keeps it, and its page shows it.

    Raises CorpusError where the run's training text does not hold each passage as often as the plan says, InputError
    where the plan cannot be read or its passages are beyond the vocabulary.
    """
    if not plan.is_file():
        raise InputError(f"There is no plan {plan}.", remedy="octavo corpus plant writes one beside its text")
    document = read_record(plan, Planted, of="the plan", error=InputError)
    passages = [Passage(one["beginning"], one["rest"], one["times"]) for one in document["passages"]]
    check_counts(run, passages, console)
    result = memory(continued(run, readable(run, passages, console)))
    if run.folder is not None:
        kept = {**result.as_dict(), "step": run.step}
        with storage_errors(run.folder.path), run.folder.lock():
            replace_text(run.folder.memory, json_text(kept, indent=1))
            refresh_report(run)
    return result


def check_counts(run: Run, passages: Sequence[Passage], console: Console) -> None:
    """Raise CorpusError unless the run's training text holds the passages as the plan says."""
    dataset = build_dataset(run.config, console, run.tokenizer)
    refuse_other_text(run, dataset)
    text = dataset.train.text_path.read_text(encoding="utf-8")
    for passage in passages:
        there = text.count(passage.text)
        if there != passage.times:
            raise CorpusError(
                f"The run's training text holds {passage.text!r} {there} times, and the plan says {passage.times}.",
                remedy="train on the text that octavo corpus plant wrote, held out at its end (split=contiguous)",
            )


Readable = list[tuple[int, tuple[list[int], list[int]]]]
"""How often a passage was planted, the ids of its beginning and those of its rest."""


def readable(run: Run, passages: Sequence[Passage], console: Console) -> Readable:
    """Those that are in the vocabulary. Raises InputError where there are too few of them."""
    read = [(passage.times, ids) for passage in passages if (ids := _ids(run, passage)) is not None]
    counts = {times for times, _ in read}
    if 0 not in counts or len(counts) < 2:
        raise InputError(
            "A verdict needs planted passages and others that never were; the run can read none of one kind."
        )
    if len(read) < len(passages):
        console.say(f"{len(passages) - len(read)} passages hold what the vocabulary lacks; they are left out")
    return read


def _ids(run: Run, passage: Passage) -> tuple[list[int], list[int]] | None:
    """The ids of a passage's beginning and of its rest; None where the vocabulary lacks any."""
    start = [] if run.tokenizer.start is None else [run.tokenizer.start]
    try:
        whole = start + run.tokenizer.encode(passage.text).tolist()
        cut = len(start) + len(run.tokenizer.encode(passage.beginning))
    except UnknownTextError:
        return None
    cut = min(cut, len(whole) - 1)  # where tokens reach across
    return (whole[:cut], whole[cut:]) if cut else None


def continued(run: Run, passages: Readable) -> list[Continued]:
    """How the run goes on from each beginning, and how much the rest surprises it."""
    requests = [TextRequest(beginning) for _, (beginning, _) in passages]
    most = max(len(rest) for _, (_, rest) in passages)
    samples = in_order(
        sample for sample, _ in run.write_each(requests, tokens=most, temperature=0, repetition_penalty=1.0)
    )
    continuations = []
    for (times, (beginning, rest)), sample in zip(passages, samples, strict=True):
        same = [own == true for own, true in zip(sample.ids, rest, strict=False)]
        same += [False] * (len(rest) - len(same))
        matched = same.index(False) if False in same else len(rest)
        continuations.append(Continued(times, matched, len(rest), _nats(run, beginning, rest)))
    return continuations


@torch.no_grad()
def _nats(run: Run, beginning: Sequence[int], rest: Sequence[int]) -> float:
    """Mean nats per token of the rest, or of as much of its end as fits into the context."""
    ids = torch.tensor([*beginning, *rest])
    inputs, targets = ids[:-1], ids[1:]
    seen, before = inputs[-run.model.context :], run.config.model.before
    side = {}
    if before:
        stand = inputs[: len(inputs) - len(seen)][-before:]
        earlier = torch.nn.functional.pad(stand, (before - len(stand), 0), value=-1)[None]
        side["side"] = SideInputs(earlier=earlier)
    logits = run.model(seen[None], **side)[0].double()
    nats = torch.nn.functional.cross_entropy(logits, targets[-len(seen) :], reduction="none")
    return float(np.mean(nats.numpy()[-len(rest) :]))
