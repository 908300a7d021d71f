"""A run that can be used: its model writes, and is evaluated on any text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from octavo.config import Recipe, stored_recipe
from octavo.config.parts import command
from octavo.errors import CheckpointError, InputError, RunFolderError
from octavo.generation import Engine, Prompt, Sample, TextRequest
from octavo.generation.sampling import SamplingFields, SamplingOptions, sampling_of
from octavo.model.base import LanguageModel, build_model
from octavo.ngram.mixture import NoCountsConfig
from octavo.run.data import ids_of
from octavo.run.finetune import started_of
from octavo.run.folder import RunFolder
from octavo.task import task_of
from octavo.tokenizers import Tokenizer, load_tokenizer
from octavo.training.checkpoint import Checkpoint, model_tensors, read_tensors
from octavo.training.checkpoint_folder import MANIFEST, CheckpointFolder
from octavo.util.files import file_hash
from octavo.util.terminal import shown

if TYPE_CHECKING:
    from octavo.corpus.validators.base import Validator
    from octavo.data import Dataset
    from octavo.report.figure import Plot
    from octavo.util.terminal import Console


COUNTS = "counts."
"""What the names of the weights beside the network begin with."""


class Run:
    """A trained model with everything that belongs to it, from a run folder or from one checkpoint folder."""

    def __init__(
        self,
        *,
        checkpoint: CheckpointFolder,
        folder: RunFolder | None,
        notices: Sequence[str] = (),
        dataset: Dataset | None = None,
    ) -> None:
        self.checkpoint = Checkpoint(checkpoint.folder)
        self.folder = folder
        self.notices = list(notices)
        self.network_only = False  # see `network`
        self.dataset = dataset
        self.config: Recipe = stored_recipe(checkpoint.folder / "config.yaml")

    @classmethod
    def open(cls, path: str | Path, *, checkpoint: str = "best", dataset: Dataset | None = None) -> Run:
        """The run in `path` (a run folder, or a checkpoint folder) at `checkpoint`: best, last, or a step.

        `dataset` is its text, where that is at hand.

        A damaged checkpoint is never used: the newest whole one takes its place, said by a warning and in
        `notices`. Raises RunFolderError, or CheckpointError if none is whole.
        """
        path = Path(path)
        if (path / MANIFEST).is_file():
            alone = CheckpointFolder(path)
            alone.verify()
            return cls(checkpoint=alone, folder=None)
        folder = RunFolder.open(path)
        checkpoint_folder, complaints = folder.checkpoint(checkpoint)
        if checkpoint_folder is None and complaints:
            raise CheckpointError(f"No checkpoint of {path} is whole. {complaints[0]}")
        if checkpoint_folder is None:
            raise RunFolderError(
                f"{path} has no checkpoint yet.",
                remedy=f"let it train on: {command('octavo', 'train', '--out', path, '--resume')}",
            )
        notices = [
            f"damaged: {complaint} Using {checkpoint_folder.folder.name} instead." for complaint in complaints
        ]
        for notice in notices:
            warnings.warn(notice, stacklevel=2)
        return cls(checkpoint=checkpoint_folder, folder=folder, notices=notices, dataset=dataset)

    def network(self) -> Run:
        """The same run without the counts beside its network, which learned alone; itself, where there are none. The
        run's evaluation is not of it."""
        if getattr(self.config.model, "counts", None) in (None, NoCountsConfig()):
            return self
        alone = Run(checkpoint=self.checkpoint, folder=self.folder, notices=self.notices)
        without = {"counts": NoCountsConfig()}
        alone.config = self.config.model_copy(update={"model": self.config.model.model_copy(update=without)})
        alone.network_only = True
        weights = {
            name: value for name, value in self.model.state_dict().items() if not name.startswith(COUNTS)
        }
        model = build_model(alone.config.model, vocab_size=self.tokenizer.vocab_size, seed=0)
        model.load_state_dict(weights)
        alone.__dict__["model"] = model.eval()
        return alone

    @property
    def path(self) -> Path:
        """The run folder, or the checkpoint folder where there is no run."""
        return self.folder.path if self.folder else self.checkpoint.folder

    def _facts(self) -> dict[str, str]:
        """What a run is in a few words; nothing is loaded for it."""
        facts = {
            "run": str(self.path),
            "checkpoint": f"step {self.step:,}",
            "model": self.config.model.shape,
        }
        validation = self.metrics and [row for row in self.metrics if row.get("event") == "validation"]
        if validation:
            best = min(validation, key=lambda row: row["loss"])
            facts["validation loss"] = (
                f"{best['loss']:.4f} {best.get('unit', 'nats per token')} at step {best['step']:,}"
            )
        return facts

    def __repr__(self) -> str:
        path, *rest = self._facts().values()
        return f"<octavo.Run {path}: {', '.join(rest)}>"

    def _repr_html_(self) -> str:
        cell = "style='text-align: left'"
        rows = [
            f"<tr><th {cell}>{escape(shown(name))}</th><td {cell}>{escape(shown(value))}</td></tr>"
            for name, value in self._facts().items()
        ]
        return f"<table>{''.join(rows)}</table>{self.plot().svg() if self.metrics else ''}"

    def plot(self) -> Plot:
        """Training and validation loss over the steps, among the baselines, as in the report.

        A matplotlib figure, which a notebook shows; `savefig` saves it. Raises InputError for a checkpoint alone.
        """
        from octavo.report import ReportData
        from octavo.report.plots import loss_plot

        if self.folder is None:
            raise InputError(f"{self.path} is a checkpoint alone, without the metrics of its run.")
        return loss_plot(ReportData.from_run(self.folder.path))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that was saved with the weights."""
        return load_tokenizer(self.checkpoint.folder / "tokenizer")

    @cached_property
    def model(self) -> LanguageModel:
        """The model with its trained weights, on the CPU, ready to use. Raises CheckpointError."""
        model = build_model(self.config.model, vocab_size=self.tokenizer.vocab_size, seed=self.config.seed)
        self.checkpoint.load_model(model)
        if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
            raise CheckpointError(f"Weights of {self.path} are no finite numbers; it has diverged.")
        return model.eval()

    @cached_property
    def started(self) -> LanguageModel | None:
        """The model as it was before its first step, where these were another run's weights and are still kept."""
        if self.folder is None or not self.folder.start.is_file():
            return None
        made = started_of(self.folder, self.config, self.tokenizer)
        return made() if made else None

    @property
    def step(self) -> int:
        """Optimizer steps that the weights have had."""
        return self.checkpoint.step

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Rows of metrics.jsonl, in the file's order."""
        return self.folder.rows() if self.folder else []

    @property
    def report(self) -> Path | None:
        """The report's page, if it is written."""
        page = self.folder.report / "index.html" if self.folder else None
        return page if page and page.is_file() else None

    def generate(self, prompt: Prompt = "", **options: Unpack[SamplingFields]) -> str:
        """What the model writes after `prompt` (without it), a text or its ids. `options`: tokens, temperature, top_k,
        top_p, min_p, repetition_penalty, window, which are the recipe's where they are not given; stop, seed,
        precision, only_valid. See `SamplingOptions`."""
        return "".join(self.stream(prompt, **options))

    @property
    def validator(self) -> Validator | None:
        """What checks records of this run, if its recipe names anything."""
        return self.config.validator.build(self.config.corpus)

    def refuse_no_text(self) -> None:
        """Raise InputError, or of columns TokenizerError, for a model that goes on from no text."""
        task_of(self.config).refuse_to_write(self)

    def _engine(self, options: SamplingOptions) -> Engine:
        self.refuse_no_text()
        referee = None
        if options.only_valid:
            if (validator := self.validator) is None:
                raise InputError(
                    "This run's recipe has no validator, so nobody knows what is valid.",
                    remedy="leave --only-valid out, or train with validator=…; octavo recipes --schema lists those",
                )
            from octavo.generation.constrain import Referee

            referee = Referee(validator, self.tokenizer)
        return Engine(self.model, self.tokenizer, precision=options.precision, referee=referee)

    def _tokens(self, options: SamplingOptions) -> int:
        return self.config.sampling.tokens if options.tokens is None else options.tokens

    def stream(self, prompt: Prompt = "", **options: Unpack[SamplingFields]) -> Iterator[str]:
        """The same in pieces, as they are written."""
        request = TextRequest(prompt, SamplingOptions(**options).seed)
        yield from filter(None, (piece for _, piece in self.write_each([request], **options)))

    def samples(self, prompt: Prompt = "", *, count: int, **options: Unpack[SamplingFields]) -> list[Sample]:
        """Several continuations written side by side, with ids and log-probabilities."""
        given = SamplingOptions(**options)
        return self._engine(given).samples(
            prompt,
            tokens=self._tokens(given),
            sampling=sampling_of(self.config.sampling, given),
            count=count,
            seed=given.seed,
            stop=given.stop,
        )

    def write_each(
        self, requests: Sequence[TextRequest], **options: Unpack[SamplingFields]
    ) -> Iterator[tuple[Sample, str]]:
        """Several texts at once, each after a prompt and with a seed of its own: (sample, new text) as it comes,
        `sample.number` its place among the requests."""
        given = SamplingOptions(**options)
        yield from self._engine(given).write_each(
            requests,
            tokens=self._tokens(given),
            sampling=sampling_of(self.config.sampling, given),
            stop=given.stop,
        )

    def translator(self, *, cached: bool = True) -> Any:
        """What translates with the model; without `cached` slowly, for comparison. Raises InputError if the run did not
        learn from pairs."""
        return task_of(self.config).translator(self, cached=cached)

    def forecast(
        self,
        text: str | Path | Sequence[str | Path],
        *,
        steps: int | None = None,
        samples: int = 200,
        seed: int = 0,
        console: Console | None = None,
    ) -> list[dict[str, Any]]:
        """What follows each series of a table, where the model predicts numbers: `name`, `channels`, `history` (N, C)
        and `paths` (samples, steps, C). Without `steps`, as many as the rows at its end that have no channels."""
        how = {"steps": steps, "samples": samples, "seed": seed, "console": console}
        return task_of(self.config).forecast(self, text, **how)

    def evaluate(
        self,
        text: str | Path | Sequence[str | Path] | None = None,
        *,
        documents: str | Sequence[str] | None = None,
        test: bool = False,
    ) -> dict[str, Any]:
        """The evaluation (keys: val_loss, perplexity, bits_per_byte, accuracy, tokens, bytes, parameters, step,
        baselines) on the run's own validation split, on the files of another `text`, or on `documents`, a text in
        memory or several. With `test` on the test split, whose `loss` is the run's result; the manifest counts the
        `looks`."""
        if test and (text, documents) != (None, None):
            raise InputError("The test split is the run's own: give a text or test, not both.")
        if test:
            from octavo.run.test_split import look
            from octavo.util.terminal import Console

            return look(self, Console(quiet=True))
        from octavo.run.evaluate import evaluate_run

        return evaluate_run(self, text, documents=documents)

    @overload
    def logits(self, text: str) -> np.ndarray: ...
    @overload
    def logits(self, text: Sequence[Any] | np.ndarray | Tensor) -> Tensor: ...
    @torch.no_grad()
    def logits(self, text: str | Sequence[Any] | np.ndarray | Tensor) -> np.ndarray | Tensor:
        """What the model gives each token to come next, in float32: of a text an array (T, V), after each of its
        tokens; of ids (T,) or (B, T), in a list, an array or a tensor, a tensor (B, T, V), B = 1 for (T,). Raises
        InputError if there are more tokens than the context has, or ids outside of the vocabulary."""
        found = self.model(self._ids(text)).float()
        return found[0].cpu().numpy() if isinstance(text, str) else found

    @torch.no_grad()
    def attention(self, text: str | Sequence[Any] | np.ndarray | Tensor) -> Tensor:
        """Where each head looks while the model reads a text, or ids as in `logits`: float32 (L, B, H, T, T), a row of
        weights for each position that looks, over those that it looks at, which add up to 1; B = 1 for one text.
        Raises InputError as `logits` does, and for a model whose attention is not Octavo's own."""
        ids = self._ids(text)
        from octavo.model.capture import attention_weights

        with attention_weights(self.model) as seen:
            self.model(ids)
        if not seen:
            raise InputError(
                f"A model of kind {self.config.model.kind} has no attention that can be looked at."
            )
        return torch.stack([weights.float() for weights in seen.values()])

    def _ids(self, text: str | Sequence[Any] | np.ndarray | Tensor) -> Tensor:
        """(B, T), on the model's device."""
        if self.config.unread(()) is not None:
            raise InputError(f"{self.path} reads no text alone: its model is of another kind.")
        ids = self.tokenizer.encode(text) if isinstance(text, str) else ids_of(text)
        if ids.ndim not in (1, 2) or not 0 < ids.shape[-1] <= self.model.context:
            count = ids.shape[-1] if ids.ndim in (1, 2) else ids.shape
            raise InputError(f"The text has {count} tokens; the model sees 1 to {self.model.context}.")
        if ids.max() >= self.tokenizer.vocab_size:
            raise InputError(
                f"{ids.max()} is no id: the vocabulary has {self.tokenizer.vocab_size}, from 0 on."
            )
        device = next(self.model.parameters()).device
        return torch.from_numpy(np.atleast_2d(ids).astype(np.int64)).to(device)

    def save(self, path: str | Path) -> Run:
        """Write the model as it is now, changed or not, as a run of its own in the new folder `path`; returns it. It
        opens, writes and is evaluated like any run; its manifest says (`saved_from`) which run and checkpoint it comes
        from, and whether the weights are still that one's. What was told of the training stays there.

        Raises RunFolderError for a `path` that exists, InputError for a model that its recipe does not build.
        """
        weights = model_tensors(self.model)
        with torch.device("meta"):
            built = self.config.model.build(vocab_size=self.tokenizer.vocab_size)
        wanted = {name: each.shape for name, each in built.named_parameters()}
        has = {name: each.shape for name, each in self.model.named_parameters()}
        if wrong := sorted(name for name in wanted | has if wanted.get(name) != has.get(name)):
            raise InputError(f"The model is not the one that its recipe builds any more: {', '.join(wrong)}.")
        if wrong := [name for name, each in weights.items() if not bool(each.isfinite().all())]:
            raise InputError(f"Weights are no finite numbers: {', '.join(wrong)}.")
        before = read_tensors(self.checkpoint.folder / "model.safetensors")
        same = weights.keys() == before.keys() and all(
            torch.equal(weights[name].cpu(), before[name]) for name in before
        )
        earlier = (self.folder.made_by() if self.folder else None) or {}
        origin = {"checkpoint": str(self.checkpoint.folder.resolve()), "changed": not same}
        origin["sha256"] = file_hash(self.checkpoint.folder / "model.safetensors")
        data = {"text": "", "vocab_size": int(self.tokenizer.vocab_size), "splits": {}}
        facts = {"data": earlier.get("data", data), "saved_from": origin}
        if "parts" in earlier:
            facts["parts"] = earlier["parts"]
        log = f"saved from {origin['checkpoint']}{'' if same else ', with changed weights'}"
        from octavo.run.saved import save_run

        save_run(Path(path), self.config, self.tokenizer, weights, step=self.step, facts=facts, log=log)
        return Run.open(path)
