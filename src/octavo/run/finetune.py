"""Where a run begins: from weights drawn at random, or (`training.start_from`) from those of another run.

Such a run has the other one's model and tokenizer. It keeps what it began with (start.safetensors, tokenizer/), so that
it goes on, is judged and is repeated when the other one is gone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from octavo.config import Recipe, check, flatten, stored_recipe
from octavo.config.load import named_start
from octavo.config.parts import command
from octavo.errors import CheckpointError, ConfigError, InputError, RunFolderError
from octavo.model.base import LanguageModel, build_model
from octavo.model.grow import grow_vocabulary
from octavo.run.folder import Progress, RunFolder
from octavo.task import task_of
from octavo.tokenizers import Tokenizer, load_tokenizer, with_special
from octavo.training.checkpoint import Checkpoint, fill_model, model_tensors, read_tensors, write_tensors
from octavo.training.checkpoint_folder import MANIFEST, CheckpointFolder, follow, list_checkpoints
from octavo.training.objective import Objective
from octavo.util.files import file_hash, storage_errors, written_aside

FREE = ("model.dropout.", "model.context", "tokenizer.special")
"""Keys of the model and the tokenizer that may be others than those of the run it starts from."""


@dataclass(frozen=True)
class Start:
    """What a run begins with.

    Attributes:
        tokenizer: that of the other run, with the special tokens that were added.
        fill: puts the weights into a model of the recipe's shape and of this vocabulary.
        told: for the manifest, where the weights come from.
    """

    tokenizer: Tokenizer
    fill: Callable[[LanguageModel], None]
    told: dict[str, Any]


def find_start(path: Path) -> Checkpoint:
    """The checkpoint that `path` names: a whole one itself, or the best of a finished run.

    Raises InputError where there is none, the run is not finished, or the checkpoint is damaged.
    """
    try:
        if (path / MANIFEST).is_file():
            checkpoint = CheckpointFolder(path.resolve())
        else:
            folder = RunFolder.open(path)
            newest = list_checkpoints(folder.checkpoints)[-1:]
            if not newest or not Progress.of(newest[0]).finished:
                step = f"after step {newest[0].step:,}" if newest else "without a checkpoint"
                raise RunFolderError(
                    f"{path} is not finished: it stands {step}.",
                    remedy=f"{command('octavo', 'train', '--out', path, '--resume')}, or name a checkpoint in it: "
                    f"{folder.last}",
                )
            checkpoint = follow(folder.best) or newest[0]
        checkpoint.verify()
    except CheckpointError as error:
        remedy = error.remedy or "name another checkpoint of the run, or another run"
        raise InputError(f"No training can start from {path}. {error.what}", remedy=remedy) from error
    return Checkpoint(checkpoint.folder)


def default_tree(path: Path) -> dict[str, Any]:
    """The recipe of a run that starts from another where none is named: that run's own, without what taught it."""
    tree = stored_recipe(find_start(path).folder / "config.yaml").model_dump(mode="json")
    for name in ("teachers", "adapters"):
        del tree["training"][name]
    tree["training"]["start_from"] = str(path)
    return {**tree, "description": ""}


def with_start(tree: Mapping[str, Any], earlier: Recipe | None = None) -> dict[str, Any]:
    """The plain data of a recipe that starts from a run, with that one's model and tokenizer where it leaves them open.

    `earlier` is the recipe of the run itself, where it goes on: then the other run is not asked.
    Raises ConfigError where the recipe states what cannot differ, InputError where the other run cannot be used.
    """
    path = named_start(tree)
    assert path is not None, "its weights are drawn at random"
    try:
        known = earlier or stored_recipe(find_start(path).folder / "config.yaml")
    except InputError:
        if _complete(tree):  # as a run or a study keeps it: it can be read when the other run is gone
            return dict(tree)
        raise
    return with_model_of(tree, known, path if earlier is None else None)


def with_model_of(tree: Mapping[str, Any], known: Recipe, path: Path | None) -> dict[str, Any]:
    """A recipe's plain data with the model and tokenizer of a run of the recipe `known`, where it leaves them open.

    `path` is how messages name that run; None: it was asked for before, and everything is stated. Raises ConfigError
    where the recipe states what cannot differ.
    """
    full = dict(tree)
    for part in ("model", "tokenizer"):
        before = getattr(known, part).model_dump(mode="json")
        full[part] = _merged(before, tree[part]) if part in tree else before
    stated = tree.get("model")
    if known.model.held_out and not (isinstance(stated, Mapping) and "counts" in stated) and _tunes(full):
        full["model"]["counts"] = {"kind": "none"}
    special = full["tokenizer"].get("special") if isinstance(full["tokenizer"], dict) else None
    if isinstance(special, list):
        full["tokenizer"]["special"] = list(dict.fromkeys([*known.tokenizer.special, *special]))
    if path is not None:
        resolved = check(full)
        refuse_other_model(resolved, known, path)
        if resolved.training.adapters.kind != "none" and "dropout" in full["model"]:
            stated = tree.get("model")  # what is small is not dropped as well, unless that is asked for
            if not (isinstance(stated, Mapping) and "dropout" in stated):
                full["model"]["dropout"] = 0.0
    return full


def _complete(tree: Mapping[str, Any]) -> bool:
    """Whether it leaves nothing of the model and tokenizer open, as the recipe that a run keeps."""
    try:
        recipe = check(tree)
    except ConfigError:
        return False
    parts = ("model", "tokenizer")
    return all(_covers(tree.get(part), getattr(recipe, part).model_dump(mode="json")) for part in parts)


def _covers(stated: Any, full: Any) -> bool:
    """Whether every option is stated, however deep; a short form that is no part's name states all of its own."""
    if not isinstance(full, dict):
        return True
    if not isinstance(stated, Mapping):
        return "kind" not in full
    return all(key in stated and _covers(stated[key], full[key]) for key in full)


def _merged(before: Any, stated: Any) -> Any:
    """Plain data of a part with what was stated in its place; of the same kind, the rest stays."""
    if not isinstance(before, dict):
        return stated
    if "kind" in before and (stated is None or isinstance(stated, str)):
        stated = {"kind": stated or "none"}
    if not isinstance(stated, Mapping) or stated.get("kind", before.get("kind")) != before.get("kind"):
        return copy.deepcopy(stated)
    return {
        key: _merged(before.get(key), stated[key]) if key in stated else before.get(key) for key in before
    } | {key: value for key, value in stated.items() if key not in before}


def _leaves_counts(recipe: Recipe, known: Recipe) -> bool:
    """Whether a run has none of the counts that stand beside the network that it starts from."""
    return bool(known.model.held_out) and not recipe.model.held_out


def _tunes(tree: dict[str, Any]) -> bool:
    """Whether a recipe's plain data tunes a model: answers or a reward, of which counts of a text know nothing."""
    try:
        recipe = check({**tree, "model": {**tree["model"], "counts": "none"}})
    except (ConfigError, TypeError):
        return False  # what is wrong is said later
    return task_of(recipe).tunes(recipe)


def refuse_other_model(recipe: Recipe, known: Recipe, path: Path) -> None:
    """Raise ConfigError where a recipe's model or tokenizer is not that of the run that it starts from."""
    mine, theirs = flatten(recipe), flatten(known)
    free = (*FREE, "model.counts") if _leaves_counts(recipe, known) else FREE
    differing = [
        key
        for key in sorted(mine.keys() | theirs.keys())
        if key.startswith(("model.", "tokenizer."))
        and not key.startswith(free)
        and mine.get(key) != theirs.get(key)
    ]
    others = tuple(
        key.removesuffix("kind") for key in differing if key.endswith(".kind")
    )  # their options say no more
    wrong = [
        f"{key}: {mine.get(key)!r} in the recipe, {theirs.get(key)!r} in the run"
        for key in differing
        if key.endswith(".kind") or not key.startswith(others)
    ]
    least, most = known.model.contexts
    if not least <= recipe.model.context <= most:
        reach = f"{most}" if least == most else f"{least} to {most}"
        wrong.append(
            f"model.context: {recipe.model.context} in the recipe, the run's positions allow {reach}"
        )
    if wrong:
        raise ConfigError(
            f"A run that starts from {path} has its model and its tokenizer:",
            problems=wrong,
            remedy="leave these out of the recipe; model.dropout, a shorter model.context and more tokens in "
            "tokenizer.special may differ",
        )


def start_of(recipe: Recipe, say: Callable[[str], None] = lambda said: None) -> Start | None:
    """What a new run begins with, from the run that its recipe names. Raises as `with_start` does."""
    path = recipe.training.start_from
    if path is None:
        return None
    checkpoint = find_start(path)
    known = stored_recipe(checkpoint.folder / "config.yaml")
    refuse_other_model(recipe, known, path)
    before = load_tokenizer(checkpoint.folder / "tokenizer")
    tokenizer = with_special(before, recipe.tokenizer.special)
    weights = checkpoint.folder / "model.safetensors"

    def fill(model: LanguageModel) -> None:
        trained = build_model(known.model, vocab_size=before.vocab_size, seed=0)
        checkpoint.load_model(trained)
        grow_vocabulary(trained, tokenizer.vocab_size)
        if recipe.model.context < trained.context:
            trained.shorten(recipe.model.context)
        weights_of = trained.state_dict()
        if _leaves_counts(recipe, known):
            weights_of = {name: each for name, each in weights_of.items() if not name.startswith("counts.")}
        fill_model(model, weights_of, checkpoint.folder)

    record = {
        "checkpoint": str(checkpoint.folder),
        "step": checkpoint.step,
        "sha256": file_hash(weights),
        "added": list(tokenizer.added[len(before.added) :]),
    }
    if _leaves_counts(recipe, known):
        say("what was counted beside the network stays behind")
    return Start(tokenizer, fill, record)


def begun_with(
    folder: RunFolder,
    recipe: Recipe,
    say: Callable[[str], None],
    *,
    goes_on: bool,
    like: RunFolder | None = None,
) -> Start | None:
    """What the run in a folder begins with: what it keeps itself where it goes on, what the run in `like` keeps where
    it repeats that one, else what its recipe names."""
    return kept_start(like or folder) if goes_on or like else start_of(recipe, say)


def kept_start(folder: RunFolder) -> Start | None:
    """What a run began with, as it keeps it; CheckpointError where that is damaged when it is needed."""
    manifest = folder.made_by()
    record = manifest and manifest.get("start_from")
    if not record:
        return None

    def fill(model: LanguageModel) -> None:
        if not folder.start.is_file() or file_hash(folder.start) != record["kept_sha256"]:
            raise CheckpointError(
                f"{folder.start} is not what this run began with.",
                remedy="bring it back, or start a new run with another --out",
            )
        fill_model(model, read_tensors(folder.start), folder.path)

    return Start(load_tokenizer(folder.tokenizer), fill, dict(record))


def started_of(folder: RunFolder, recipe: Recipe, tokenizer: Tokenizer) -> Callable[[], LanguageModel] | None:
    """What makes the model of a run as it was before its first step, where these were another run's weights that are
    still kept."""
    if (start := kept_start(folder)) is None:
        return None

    def make() -> LanguageModel:
        model = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=recipe.seed)
        start.fill(model)
        return model.eval()

    return make


def comparing(recipe: Recipe, reference: LanguageModel | None, device: torch.device) -> Objective:
    """A recipe's objective, told which model its run started from. Raises InputError where it compares with that, and
    it is not there."""
    objective = recipe.objective.build()
    objective.compare_with(reference, device)
    return objective


def keep_start(folder: RunFolder, model: LanguageModel, start: Start) -> dict[str, Any]:
    """Save the weights that a run begins with, whole or not at all; returns what its manifest tells of them."""
    with storage_errors(folder.path), written_aside(folder.made.file(folder.start)) as aside:
        write_tensors(aside, model_tensors(model))
    return {"start_from": {**start.told, "kept_sha256": file_hash(folder.start)}}


def ready_tokenizer(recipe: Recipe) -> Tokenizer | None:
    """The tokenizer that a run of a recipe would have before it sees a text: that of the run it starts from."""
    start = start_of(recipe)
    return start.tokenizer if start else None
