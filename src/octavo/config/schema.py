"""The typed tree of a run: every option, its default, its bounds and what it does. One definition of each.

Words: B batch, T positions (context), C width, H heads, D head width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from octavo.config.parts import LARGEST, MOST, FilePath, PartConfig, PartOf, SplitBy, Strict

Share = Annotated[float, Field(gt=0, lt=1)]


def _period(least: int) -> BeforeValidator:
    """Says of anything but the three forms of a period what they are; 1.0 could be two of them."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value != "epoch":
            with suppress(ValueError):  # YAML reads 1e-1 as a text
                value = float(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = number and least <= value <= MOST and float(value).is_integer() and str(value) != "1.0"
        if not (value == "epoch" or whole or (number and 0 < value < 1)):
            raise ValueError(
                f"give a number of steps ({least} to {MOST}), a share of the run (such as 0.1) or epoch, not {value!r}"
            )
        return int(value) if whole else value

    return BeforeValidator(check)


Every = Annotated[Annotated[int, Field(ge=1, le=MOST)] | Share | Literal["epoch"], _period(1)]
"""A number of steps, a share of the run's steps, or the end of each epoch (for batches that have epochs)."""


def shape_in_words(model: Mapping[str, Any]) -> str:
    """A model's plain config in a few words."""
    counts = [f"{model[key]} {key}" for key in ("layers", "heads") if key in model]
    sizes = [f"{key} {model[key]}" for key in ("width", "context") if key in model]
    kind = model.get("kind", "gpt")
    return ", ".join(([] if kind == "gpt" else [kind]) + counts + sizes)


ASKING = 1 / 3
"""What asking a teacher of the model's own size takes, of a step without one: a forward pass."""


class TeachersConfig(Strict):
    """Runs that the model learns from, besides the text: finished ones, or such as are trained first. It is called
    distillation (Hinton et al. 2015); of models alike, born-again networks (Furlanello et al. 2018)."""

    runs: tuple[FilePath, ...] = ()
    """Run folders (their best checkpoint teaches) or checkpoint folders, with this run's tokenizer. Several teach the
    mean of their predictions: each step asks the next one."""
    weight: float = Field(0.8, gt=0, le=1)
    """Share of the loss that is cross-entropy with the teachers' predictions; the rest is with the text's tokens."""
    written: int = Field(0, ge=0, le=MOST)
    """Tokens that the teachers write before the training, in turn; half of each batch then comes from these."""
    trained: int = Field(0, ge=0, le=16)
    """How many models of this recipe, with other seeds, are trained first, in the run's folder, and then teach it. They
    help where a text is seen so often that it would be learned by heart."""
    trained_steps: int | None = Field(None, ge=1, le=MOST)
    """Steps of each of these. Empty: as many as the run's own."""
    trained_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout of each of these. Empty: the run's own. A model that is taught needs less of it than its teacher."""

    @field_validator("runs", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _somebody(self) -> TeachersConfig:
        if self.written and not self.runs:
            raise ValueError("nobody is there to write: name the teachers' runs")
        if self.runs and self.trained:
            raise ValueError("name teachers (runs) or have some trained first (trained), not both")
        return self

    @property
    def somebody(self) -> bool:
        """Whether a model learns from others: then its training loss is not of the text alone."""
        return bool(self.runs or self.trained)

    def steps_of_each(self, steps: int) -> int:
        """Of the teachers that a run of so many steps trains itself."""
        return self.trained_steps or steps

    def whole(self, steps: int) -> float:
        """How many of a run's own steps it takes together with its own teachers, to whom nobody is a teacher."""
        return steps + self.trained * self.steps_of_each(steps) / (1 + ASKING)


class TrainingConfig(Strict):
    """How the model learns."""

    steps: int | None = Field(None, ge=1, le=MOST)
    """Optimizer steps (iterations). Empty: set by `epochs`, or 1,000."""
    epochs: float | None = Field(None, gt=0, le=1e6)
    """Passes over the training split, for batches that have epochs (sliding, documents)."""
    passes: float | None = Field(None, gt=0, le=1e6)
    """Most passes over the training split: a short text takes fewer steps than `steps`, so that it is not learned by
    heart. Empty: no limit."""
    minutes: float | None = Field(None, gt=0, le=MOST)
    """Minutes for the whole run, from the command to the finished page: the training takes as many steps as fit, more
    or fewer than `steps`, and the learning rate falls with the time. Empty: `steps` alone say when it ends."""
    batch: int = Field(12, ge=1, le=MOST)
    """B, sequences in one batch."""
    accumulation: int = Field(1, ge=1, le=MOST)
    """Batches whose gradients are averaged into one step."""
    micro_batch: Annotated[int, Field(ge=1, le=MOST)] | Literal["auto"] | None = "auto"
    """Sequences computed at once: the gradients of a batch's parts add up to the same step. auto: the whole batch, and
    where memory is too short for it, as many as fit. Empty: the whole batch."""
    recompute: Literal["auto"] | bool = "auto"
    """Keep only each block's input for the backward pass and compute the rest again: a third more work, a part of the
    memory. auto: only where not even the smallest part of a batch fits without."""
    optimizer: Annotated[PartConfig, PartOf("optimizer", "adamw")] = Field(
        {"kind": "adamw"}, validate_default=True
    )
    """The update rule and its learning rate."""
    schedule: Annotated[PartConfig, PartOf("schedule", "cosine")] = Field(
        {"kind": "cosine"}, validate_default=True
    )
    """How the learning rate changes over the run."""
    clip: float | None = Field(1.0, gt=0, le=LARGEST)
    """Largest norm of the gradient; longer ones are shortened to it. Empty: no clipping."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the matrix products. auto times both on this model and machine, and keeps what it chose."""
    compile: bool | Literal["auto"] = "auto"
    """torch.compile: slower to start, faster later. `auto`: on a GPU, for runs of 1,000 steps or more."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, or auto: the accelerator if it passes the device check, else the CPU."""
    threads: int | None = Field(None, ge=1, le=1024)
    """CPU threads. Empty: all cores that this process may use, or one while other programs use them so much that all
    would wait for each other; that is said, and kept in the run."""
    checkpoint_every: Every = 250
    """Steps between checkpoints, a share of the run (0.1), or epoch; the last step and each new best are saved too."""
    checkpoint_minutes: float = Field(2.0, ge=0, le=LARGEST)
    """Minutes without a checkpoint after which one is saved in between, but never sooner than ten times as long as
    saving takes; it goes when enough later ones stand. 0: none."""
    keep: int = Field(2, ge=1, le=MOST)
    """How many of the newest checkpoints are kept; the best one is always kept."""
    patience: int | None = Field(None, ge=1, le=MOST)
    """Stop after so many evaluations without a new best. Empty: never."""
    keep_for_story: int = Field(0, ge=0, le=100)
    """Weights kept on the way, about so many, at steps on a log scale: the report shows how the model learned
    (`octavo explain` too). 0: none."""
    start_from: FilePath | None = None
    """A finished run (its best checkpoint) or a checkpoint in it, whose weights the training begins with. Model and
    tokenizer are that run's. What may differ: data, training, `model.dropout`, `model.context` as far as its positions
    reach, and more tokens in `tokenizer.special`. Empty: weights drawn at random."""
    adapters: Annotated[PartConfig, PartOf("adapters", "lora")] = Field(
        {"kind": "none"}, validate_default=True
    )
    """What is trained of the model that a run starts from: all of it, or something small beside it."""
    teachers: TeachersConfig = Field({}, validate_default=True)
    """Models to learn from."""

    @property
    def text_rows(self) -> int:
        """Sequences of a batch that come from the text itself; what teachers have written is the rest."""
        return self.batch - self.batch // 2 if self.teachers.written else self.batch

    @model_validator(mode="after")
    def _one_length(self) -> TrainingConfig:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both; training.epochs=null takes a recipe's away")
        if self.minutes is not None and self.epochs is not None:
            raise ValueError(
                "give minutes or epochs, not both; with minutes, passes says how many there are at most"
            )
        if self.teachers.written and self.batch < 2:
            raise ValueError("half of a batch comes from the teachers, so it needs 2 sequences or more")
        return self

    @model_validator(mode="after")
    def _adapters_adapt_something(self) -> TrainingConfig:
        if self.adapters.kind != "none" and self.start_from is None:
            raise ValueError(
                f"adapters={self.adapters.kind} leaves the weights as they are, and here they would be drawn at "
                "random; name a run in start_from, or take adapters=none"
            )
        return self


class EvaluationConfig(Strict):
    """When and on how much of the validation split the model is evaluated."""

    every: Every = 0.1
    """Steps between evaluations, a share of the run, or epoch; the last step is always evaluated."""
    initial: bool = False
    """Also before the first step: the loss that improvement is measured from (report E)."""
    tokens: int | None = Field(None, ge=1, le=MOST)
    """Evaluate on so many tokens only, in rows at equal distances over the split; of a single document, on the first.
    Empty: the whole split."""
    batch: int = Field(64, ge=1, le=MOST)
    """Sequences at once at most; a CPU takes fewer where the vocabulary is large."""


class SamplingConfig(Strict):
    """How text is drawn from the model; also what `octavo generate` starts from."""

    every: Annotated[Annotated[int, Field(ge=0, le=MOST)] | Share | Literal["epoch"], _period(0)] = 0
    """Steps between samples while training, a share of the run, or epoch; 0: only at the end."""
    prompt: str | Annotated[tuple[str, ...], Field(min_length=1)] = ""
    """What the samples start with, one text or a list of them; empty: the document start."""
    tokens: int = Field(200, ge=1, le=MOST)
    """Tokens of one sample."""
    temperature: float = Field(1.0, ge=0, le=LARGEST)
    """Divides the logits; 0 is greedy."""
    top_k: int | None = Field(None, ge=1, le=MOST)
    """Only the k most probable tokens."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Only the smallest set of tokens that holds this much probability (Holtzman et al. 2019)."""
    min_p: float | None = Field(None, gt=0, le=1)
    """Only tokens with at least this share of the best token's probability (Nguyen et al. 2024)."""
    repetition_penalty: float = Field(1.0, gt=0, le=LARGEST)
    """Above 1, tokens that stand in the text already become less probable (Keskar et al. 2019)."""
    window: Literal["slide", "crop"] = "slide"
    """What is read once the context is full. slide: its oldest quarter is forgotten at once, so that most tokens need
    only themselves read. crop: exactly the last `model.context` tokens, read again for every token, as in reports B and
    C; slower by far."""

    @property
    def prompts(self) -> tuple[str, ...]:
        """All prompts, in their order."""
        return (self.prompt,) if isinstance(self.prompt, str) else self.prompt


class LoggingConfig(Strict):
    """What is written down while training."""

    every: int = Field(10, ge=1, le=MOST)
    """Steps between rows of the training loss."""
    tensorboard: bool = False
    """Also write TensorBoard event files (extra: tensorboard)."""


class ReportConfig(Strict):
    """What stands on the page of a run."""

    explainer: Literal["auto"] | bool = "auto"
    """Put the model itself into the page, to type into and look inside (`octavo explain` makes such a page of any run).
    auto: models of at most 5M parameters that a page can compute."""


def _or_a_name(schema: dict[str, Any]) -> None:
    """Editors should know both forms of a list: in full, and by its name or file."""
    steps = {key: schema.pop(key) for key in ("type", "items")}
    schema["anyOf"] = [steps, {"type": "string"}]


SPLITS_OF: Mapping[str, str] = {
    "prompts": "split=prompts is for conversations and preferences; for texts take split=documents",
    "sources": "split=sources is for pairs of a source and a target; take split=documents",
}
"""Ways to split that only some documents have, with what to say of others."""


class Recipe(Strict):
    """A whole run: its text, tokenizer, model and training."""

    description: str = ""
    """What this recipe is, in a sentence or two."""
    seed: int = Field(1337, ge=0, lt=2**32)
    """Everything random follows from it."""
    corpus: Annotated[PartConfig, PartOf("source", "files")] = Field({"kind": "files"}, validate_default=True)
    """Where the text comes from."""
    cleaning: tuple[Annotated[PartConfig, PartOf("cleaning")], ...] = Field((), json_schema_extra=_or_a_name)
    """What is done to every document, step by step in this order; the name of a shipped list stands for its steps."""
    split: SplitBy = Field(default_factory=lambda known: known["corpus"].split_by)
    """What is held out for validation. contiguous: the text's end; documents: whole documents, by the hash of each,
    duplicates removed; prompts: the same of conversations and preferences, by the hash of what was asked, so that no
    prompt stands on both sides; sources: the same of pairs, so that no source and no target stands on both sides;
    files: the end of each file, so that every file and language is evaluated. Where it is left open: sources for pairs
    from files, documents for those of the grammar, else contiguous."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of the text that is kept for validation."""
    test: float = Field(0.0, ge=0, lt=1)
    """Share of the text that is kept out of everything, after the validation part; only `octavo eval --test` reads it.
    0: there is none, and a validation figure is of a split on which things were chosen."""
    tokenizer: Annotated[PartConfig, PartOf("tokenizer", "char")] = Field(
        {"kind": "char"}, validate_default=True
    )
    """How text becomes tokens."""
    validator: Annotated[PartConfig, PartOf("validator", "none")] = Field(
        {"kind": "none"}, validate_default=True
    )
    """What checks each record that the model writes, and may referee its writing (`octavo generate --only-valid`)."""
    expected_vocabulary: int | None = Field(None, ge=1, le=MOST)
    """Vocabulary that `octavo plan` counts with when no text is given; training always takes the text's own."""
    batches: Annotated[PartConfig, PartOf("batches", "windows")] = Field(
        {"kind": "windows"}, validate_default=True
    )
    """How tokens become batches."""
    model: Annotated[Any, PartOf("model", "gpt")] = Field({"kind": "gpt"}, validate_default=True)
    """What learns."""
    objective: Annotated[PartConfig, PartOf("objective", "next-token")] = Field(
        {"kind": "next-token"}, validate_default=True
    )
    """What the model learns, and is evaluated by."""
    training: TrainingConfig = Field({}, validate_default=True)
    parallel: Annotated[PartConfig, PartOf("parallel", "none")] = Field(
        {"kind": "none"}, validate_default=True
    )
    """How several processes, started by torchrun, train the model together."""
    evaluation: EvaluationConfig = Field({}, validate_default=True)
    sampling: SamplingConfig = Field({}, validate_default=True)
    logging: LoggingConfig = Field({}, validate_default=True)
    report: ReportConfig = Field({}, validate_default=True)

    @model_validator(mode="after")
    def _something_is_left_to_learn_from(self) -> Recipe:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation={self.validation:g} and test={self.test:g} leave nothing to learn from; take less"
            )
        return self

    @model_validator(mode="after")
    def _one_clock(self) -> Recipe:
        if self.training.minutes is not None and self.parallel.kind != "none":
            raise ValueError("training.minutes is for one process; give training.steps to several")
        return self

    @model_validator(mode="after")
    def _epochs_exist(self) -> Recipe:
        by_epoch = {
            "evaluation.every": self.evaluation.every,
            "sampling.every": self.sampling.every,
            "training.checkpoint_every": self.training.checkpoint_every,
        }
        wrong = [key for key, every in by_epoch.items() if every == "epoch" and not self.batches.has_epochs]
        if wrong:
            raise ValueError(
                f"{' and '.join(wrong)}: '{self.batches.kind}' batches are drawn at random and have no epochs; "
                "give a number of steps, or take batches=sliding"
            )
        return self

    @model_validator(mode="after")
    def _the_model_reads_its_batches(self) -> Recipe:
        if wrong := self.unread(name for name, _ in self.batches.example(1, 1).items()):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _the_tokenizer_fits(self) -> Recipe:
        parts = {"corpus": self.corpus, "batches": self.batches, "model": self.model}
        if wrong := self.tokenizer.unfit(**parts, split=self.split, cleaned=bool(self.cleaning)):
            raise ValueError(f"tokenizer={self.tokenizer.kind}: {wrong}")
        return self

    @model_validator(mode="after")
    def _its_parts_take_it(self) -> Recipe:
        for part in (self.corpus, self.batches, self.objective):
            if wrong := part.refuse(self):
                raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _the_objective_is_about_what_is_read(self) -> Recipe:
        if self.objective.takes_vectors != self.model.takes_vectors:
            about = "rows of numbers" if self.objective.takes_vectors else "tokens"
            raise ValueError(
                f"objective={self.objective.kind} is about {about}, and the model reads the other (model.input)"
            )
        return self

    @model_validator(mode="after")
    def _the_network_has_rows(self) -> Recipe:
        if self.model.gate_share and self.training.text_rows < 2:
            raise ValueError(
                "training.batch: a batch needs a row of text for the network and one for the gate over counts; "
                "take more, or model.counts=none"
            )
        return self

    @model_validator(mode="after")
    def _own_teachers_learn_from_the_text(self) -> Recipe:
        if self.training.teachers.trained and self.training.start_from is not None:
            raise ValueError("training.teachers.trained is of models that start from no other run")
        if self.training.teachers.trained_dropout is not None and not hasattr(self.model, "dropout"):
            raise ValueError(f"training.teachers.trained_dropout: model={self.model.kind} has no dropout")
        return self

    @model_validator(mode="after")
    def _windows_can_be_cut(self) -> Recipe:
        written, context = self.training.teachers.written, self.model.context
        if 0 < written <= context:
            raise ValueError(
                f"training.teachers.written: {written} tokens are no more than one window; take more than {context}"
            )
        return self

    @property
    def lacks_text(self) -> bool:
        """Whether the corpus is one of files, and none is named."""
        return not getattr(self.corpus, "paths", True)

    @property
    def lacks_start(self) -> bool:
        """Whether it tunes a model that was trained, and names none."""
        return self.objective.tunes and self.training.start_from is None

    @property
    def form(self) -> str:
        """What the documents of the corpus are: text, or what `corpus.records` says."""
        return str(getattr(self.corpus, "form", "text"))

    @model_validator(mode="after")
    def _all_read_the_same(self) -> Recipe:
        for name in ("batches", "objective"):
            part = getattr(self, name)
            if self.form not in part.reads.split(" or "):
                raise ValueError(
                    f"{name}={part.kind} takes {part.reads}, and the corpus holds {self.form}; they go together"
                )
        if self.split not in self.corpus.splits:
            raise ValueError(
                SPLITS_OF.get(self.split)
                or f"split={self.split} would cut {self.form} apart; take split={self.corpus.splits[-1]}"
            )
        return self

    def unread(self, fields: Iterable[str]) -> str | None:
        """What is wrong for this model with batches that hold these fields, as a sentence; None where nothing is."""
        there, model, kind = set(fields), f"a model of kind {self.model.kind}", self.batches.kind
        if "segments" in there and (who := self._mixing):
            asked, remedy = f"batches={kind}", "other batches"
            if hasattr(self.batches, "attention"):
                asked, remedy = "batches.attention=document", "batches.attention=row"
            elif hasattr(self.batches, "packed"):
                asked, remedy = "batches.packed=true", "batches.packed=false"
            return f"{asked}: {who} cannot keep a row's documents apart; take {remedy}"
        if ("values" in there) != self.model.takes_vectors:
            held, read = ("rows of numbers", "tokens") if "values" in there else ("tokens", "rows of numbers")
            return f"batches={kind}: they hold {held}, and {model} reads {read} (model.input)"
        if "prefix" in there and not self.model.takes_prefix:
            return f"batches={kind}: {model} cannot see a source at once; take batches.attention=causal"
        if "source" in there and not self.model.takes_source:
            return f"batches={kind}: they have a source for an encoder, and {model} has none"
        if "source" not in there and self.model.takes_source:
            return f"batches={kind}: {model} has an encoder, and they have no source for it"
        return None

    @property
    def _mixing(self) -> str | None:
        """What of the model lets the documents of a row look at each other, if anything does."""
        if not self.model.takes_segments:
            return f"a model of kind {self.model.kind}"
        parts = ((name, getattr(self.model, name)) for name in type(self.model).model_fields)
        mixing = (
            f"model.{name}={part.kind}"
            for name, part in parts
            if isinstance(part, PartConfig) and not part.takes_segments
        )
        return next(mixing, None)
