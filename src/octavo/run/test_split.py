"""The test split of a run: kept out of everything, read here alone, and each look counted."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from octavo.config import Recipe
from octavo.data import Dataset
from octavo.errors import CorpusError, InputError, OctavoError
from octavo.evaluation.result import merged
from octavo.model.base import LanguageModel
from octavo.report import ReportData, write_report
from octavo.run.data import build_dataset
from octavo.run.evaluate import (
    Evaluable,
    evaluate_split,
    figures_of,
    heard_of,
    on_cpu,
    refuse_other_text,
    whole_split,
)
from octavo.task import EvaluationContext, read_evaluation, task_of
from octavo.training.device import Runtime
from octavo.util.files import replace_text
from octavo.util.records import json_text
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.evaluation.reading_on import Heard

KEPT = (
    "loss",
    "perplexity",
    "bits_per_byte",
    "unit",
    "tokens",
    "bytes",
    "step",
    "baselines",
    "reading_on",
)
"""What the manifest keeps of a look."""


def look(
    run: Evaluable, console: Console, dataset: Dataset | None = None, *, audits: bool = False
) -> dict[str, Any]:
    """Evaluate a run's model on its test split, next to the baselines. The manifest keeps the figures of every look in
    `test_looks`; without them written there, nothing is said. `dataset`: the run's, if it is at hand; `audits`: a
    promise is compared with it, and nothing simpler. Counts that learn on have read the validation split by then.

    Raises InputError for a checkpoint alone or a run without a test split, CorpusError if the text is another one now,
    RunFolderError while another process writes the run. The run's page, if there is one, is written anew; where that
    fails it is a warning, for the look is counted.
    """
    if run.folder is None:
        raise InputError(
            "A checkpoint alone cannot count who looked at its test split.", remedy="name the run folder"
        )
    if not run.config.test:
        raise InputError(
            "This run has no test split (test=0): its text was all used to learn from and to choose on.",
            remedy="train one with test=0.05, or evaluate on a text that it has not seen: --text PATH",
        )
    recipe = whole_split(run.config)
    with run.folder.lock():
        manifest = run.folder.made_by() or {}
        dataset = dataset or build_dataset(recipe, console, run.tokenizer)
        refuse_other_text(run, dataset)
        if (split := dataset.test) is None:
            raise CorpusError("The run's text has no test split.")
        task, runtime = task_of(recipe), on_cpu(recipe)
        context = EvaluationContext(
            recipe,
            run.tokenizer,
            split,
            dataset.train,
            runtime,
            console,
            started=run.started,
            heard=heard_of(run.model, split),
            earlier=heard_before(run.model, dataset, recipe, runtime),
            alone=audits,
        )
        figures = figures_of(run.model, context, step=run.step)
        result = figures.as_dict()
        result["loss"] = result.pop("val_loss")
        if not math.isfinite(result["loss"]):
            raise OctavoError(
                f"The loss on the test split is {result['loss']}, which is no figure: nothing was noted."
            )
        standing = task.evaluate(run.model, context, figures)
        result["baselines"] = {name: one.as_dict() for name, one in standing.baselines.items()}
        result |= merged(standing.parts)
        stored = read_evaluation(path, recipe) if (path := run.folder.evaluation).is_file() else {}
        result |= merged(task.on_test(run, split, dataset, recipe, stored))
        if audits:
            result["audits"] = True
        kept = (*KEPT, *task.kept_of_test, "skipped", "audits")
        noted = {key: result[key] for key in kept if key in result}
        looks = [*manifest.get("test_looks", ()), noted]
        manifest["test_looks"] = looks
        replace_text(run.folder.manifest, json_text(manifest, indent=1, ensure_ascii=False))
    page = run.folder.report / "index.html"
    if page.is_file():
        try:
            write_report(run.folder.path, ReportData.from_run(run.folder.path))
        except (OctavoError, OSError) as error:
            why = error.what if isinstance(error, OctavoError) else error
            warnings.warn(f"{page} does not show this look yet: {why}", stacklevel=2)
    return {"split": "test", "looks": len(looks), **result}


def heard_before(model: LanguageModel, dataset: Dataset, recipe: Recipe, runtime: Runtime) -> Heard | None:
    """What a context mixer hears of the network in the validation split, which stands before the test split."""
    split = dataset.validation
    if (found := heard_of(model, split)) is None:
        return None
    if (known := found.known()) is not None:
        return known
    evaluate_split(model, split, recipe, dataset.tokenizer, runtime, heard=found)
    return found
