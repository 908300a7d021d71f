"""The files of a run as shapes: what readers of its JSON, and of what `octavo generate` adds, may rely on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from octavo.util.records import Count, Number, Record, Shape

# Who predicted which token, as evaluation.json has it; see `octavo.evaluation.counted`.

Portion = Annotated[float, Field(ge=0, le=1)]


class Side(Record):
    """The network (order 0), an order of n-grams, the context mixer, or what the text has said so far (no order)."""

    order: Count | None
    mixer: bool = False
    trust: Portion
    loss: Number
    best: Portion


class Counted(Record):
    """Counting beside learning."""

    tokens: Annotated[Count, Field(ge=1)]
    counting_better: Portion
    trust_in_counting: Portion
    loss: Number
    network_loss: Number
    counting_loss: Number
    sides: Annotated[list[Side], Field(min_length=2)]
    sample: list[tuple[str, Number]]


class Row(Record):
    """A line of metrics.jsonl. Hooks of a user's own may write events of their own."""

    event: str
    step: Count
    loss: Number | None = None
    bits_per_byte: Number | None = None
    unit: str | None = None
    learning_rate: Number | None = None
    tokens: Count | None = None
    seconds: Number | None = None

    @model_validator(mode="after")
    def _complete(self) -> Row:
        wanted = {
            "train": (self.loss, self.tokens, self.learning_rate),
            "validation": (self.loss, self.bits_per_byte if self.unit is None else self.unit),
        }
        if None in wanted.get(self.event, ()):
            raise ValueError(f"a row of '{self.event}' lacks a figure")
        return self


class Baseline(Record):
    """What simpler means reached, as evaluation.json has it."""

    loss: Number | None = None
    bits_per_byte: Number | None = None
    order: Count | None = None


class Guessing(Record):
    """What predicts tokens."""

    loss: Number
    bits_per_byte: Number


class Counting(Guessing):
    """What predicts tokens from those before."""

    order: Count


class Packing(Record):
    """What makes texts short."""

    loss: None
    bits_per_byte: Number


class ReadOn(Record):
    """What a model reaches whose counts go on learning in the text."""

    loss: Number
    bits_per_byte: Number
    alone_bits_per_byte: Number
    tokens: Count


class Baselines(Record):
    """baselines.json of a dataset: every one of them, and nothing else."""

    model_config = ConfigDict(extra="forbid")

    uniform: Guessing
    unigram: Counting
    bigram: Counting
    trigram: Counting
    ngram: Counting
    mixing: Packing = Field(default=None)  # pyrefly: ignore  # absent on a machine without a compiler
    gzip: Packing
    xz: Packing
    xz_given_train: Packing


class Said(Record):
    """A sentence with its figures."""

    kind: str
    sentence: str
    evidence: dict[str, Number | Count | str | None]
    remedy: str
    settings: list[str]


class Diagnostic(Said):
    """One that says how bad it is."""

    severity: str


class NextStep(Record):
    """What the verdict asks for."""

    remedy: str
    resume: bool
    command: str


class Run(Record):
    """The longest copied run."""

    length: Count
    text: str
    line: Count


class Copied(Record):
    """Shares by length of the run."""

    shares: dict[str, Number]
    longest: Run | None = None


class Memorization(Record):
    """The memorization meter, next to held-out text."""

    generated: Copied
    held_out: Copied
    searched: Number = 1.0

    @model_validator(mode="after")
    def _same_lengths(self) -> Memorization:
        lengths = self.generated.shares.keys()
        if lengths != self.held_out.shares.keys() or not all(length.isdecimal() for length in lengths):
            raise ValueError("the shares are not of the same lengths")
        return self


class Mean(Record):
    """Of what scatters."""

    mean: Number | None


class Variety(Record):
    """Repetition and variety of some texts."""

    texts: Count
    units: Count
    distinct: dict[str, Number | None]
    repeated: Mean
    alike: Mean
    thread: Mean


class Diversity(Record):
    """The same, next to held-out text."""

    unit: str
    generated: Variety
    held_out: Variety

    @model_validator(mode="after")
    def _same_orders(self) -> Diversity:
        if self.generated.distinct.keys() != self.held_out.distinct.keys():
            raise ValueError("the n-grams are not of the same orders")
        return self


class Evaluation(Record):
    """evaluation.json, what all tasks have of it; of a run that diverged it holds the diagnostics alone."""

    val_loss: Number | None = None
    perplexity: Number | None = None
    bits_per_byte: Number | None = None
    unit: str | None = None
    accuracy: Number | None = None
    parameters: Count | None = None
    step: Count | None = None
    source_entropy: Number | None = None
    source_loss: Number | None = None
    baselines: dict[str, Baseline] | None = None
    memorization: Memorization | None = None
    diversity: Diversity | None = None
    known_words: dict[str, Number] | None = None
    counted: Counted | None = None
    reading_on: ReadOn | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    next: NextStep | None = None
    verdict: tuple[str, ...] = ()


class Part(Record):
    """A split."""

    tokens: Count


class Data(Record):
    """The dataset that a run learned from."""

    text: str
    vocab_size: Count
    splits: dict[str, Part]


class Taught(Record):
    """A teacher."""

    checkpoint: str
    sha256: str


class Started(Taught):
    """The checkpoint that a run starts from; `kept_sha256` is of what the run keeps of it."""

    step: Count
    kept_sha256: str
    added: tuple[str, ...] = ()


class Decided(Record):
    """How a run computes."""

    device: Annotated[str, Field(pattern=r"^[a-z]+(:[0-9]{1,4})?$")]
    precision: str
    threads: Count
    micro_batch: Count | None = None
    recompute: bool = False


class OwnPart(Record):
    """A file of the user's own that the run loaded parts from."""

    path: str
    sha256: str
    parts: tuple[str, ...]


class Imported(Record):
    """Where a model came from that Octavo has not trained, with the SHA-256 of each file."""

    path: str
    form: str
    files: dict[str, str]


class Saved(Record):
    """Whose weights a run has that `Run.save` wrote, and whether they have changed since; `sha256` of that one's."""

    checkpoint: str
    sha256: str
    changed: bool


class Look(Record):
    """What somebody saw of the test split."""

    loss: Number
    step: Count
    bits_per_byte: Number | None = None
    baselines: dict[str, Baseline] = Field(default_factory=dict)
    audits: bool = False


class Manifest(Record):
    """manifest.json."""

    octavo: str
    data: Data
    runtime: Decided
    parts: tuple[OwnPart, ...] = ()
    teachers: tuple[Taught, ...] = ()
    imported: Imported | None = None
    saved_from: Saved | None = None
    written_sha256: str | None = None
    start_from: Started | None = None
    test_looks: tuple[Look, ...] = ()


class Correction(Record):
    """What was corrected in a sample."""

    corrected: str
    words: Count
    words_changed: Count


class Answered(Record):
    """A sample of a prompt."""

    text: str
    correction: Correction | None = None


class Prompt(Record):
    """A prompt and its samples."""

    prompt: str
    samples: list[Answered]


class Prompts(Record):
    """A file in prompts/."""

    name: str
    step: Count | None = None
    prompts: list[Prompt]

    def asked(self) -> Any:
        """Tell what was asked, and how. A new table may replace an old one for which this is equal."""
        how = self.model_dump(exclude={"name", "prompts"}, exclude_unset=True)
        return how, [(row.prompt, len(row.samples)) for row in self.prompts]


class Share(Record):
    """How many of a name's own company answered."""

    prompt: str | None = None
    share: Number | None
    interval: tuple[Number, Number] | None
    p: Number | None


class Speakers(Record):
    """A file in speakers/."""

    name: str
    in_text: Number
    asked: Share
    controls: list[Share]


Words: Shape = dict[str, Count]
"""words.json."""


def validation_text(manifest: Any) -> str | None:
    """The SHA-256 of the text that a run was judged by, where its manifest tells."""
    for key in ("data", "files", "validation.txt", "sha256"):
        manifest = manifest.get(key) if isinstance(manifest, dict) else None
    return manifest if isinstance(manifest, str) else None


# Planted passages and what a run remembers of them, as shapes of their files; see
# `octavo.evaluation.planted`.

Text = Annotated[str, Field(min_length=1)]


class PlantedPassage(Record):
    """One passage."""

    beginning: Text
    rest: Text
    times: Count


class Planted(Record):
    """The plan beside a planted text."""

    passages: Annotated[list[PlantedPassage], Field(min_length=1)]


class RememberedTimes(Record):
    """The passages that were planted so many times."""

    times: Count
    passages: Annotated[Count, Field(ge=1)]
    recited: Count
    interval: tuple[Number, Number]
    matched: Number
    nats: Number
    p_recited: Number | None
    p_known: Number | None


class Remembered(Record):
    """memory.json of a run."""

    rows: Annotated[list[RememberedTimes], Field(min_length=2)]
    verdict: list[str]
    step: Count

    @model_validator(mode="after")
    def _controls_first(self) -> Remembered:
        if self.rows[0].times:
            raise ValueError("the controls do not stand first")
        return self
