"""Parts: the exchangeable pieces of a run, each owning its options.

A part is a config class and the thing it builds, in one file of the room that it belongs to. `register`
files the config class under its room and its `kind`; `PartOf(room)` marks a field of the config tree that
takes any part of that room. In YAML a part is `{kind: rotary, base: 500}`, or just `rotary`.

A part's module is imported when a config names the part, so that a run imports no others. A part that is registered
later, in a notebook or by `octavo.config.plugins`, is known from then on.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from octavo.config.limits import LARGEST as LARGEST
from octavo.config.limits import MOST as MOST
from octavo.errors import ConfigError
from octavo.util.files import from_home

_MODULES: dict[str, dict[str, str]] = {
    "source": {
        "octavo.corpus.sources": "files",
        "octavo.tasks.records.ball": "bouncing-ball",
        "octavo.synthetic.source": "bilingual storyteller",
        "octavo.synthetic.sums": "sums",
        "octavo.synthetic.wishes": "wishes",
        "octavo.tasks.forecast.dynamics": "dynamics",
        "octavo.tasks.forecast.source": "series",
        "octavo.tasks.records.images": "digits images",
        "octavo.tasks.translation.source": "pairs",
        "octavo.tuning.comparisons": "comparisons",
    },
    "reader": {
        "octavo.corpus.readers.csv": "csv",
        "octavo.corpus.readers.docx": "docx",
        "octavo.corpus.readers.epub": "epub",
        "octavo.corpus.readers.html": "html",
        "octavo.corpus.readers.json_list": "json",
        "octavo.corpus.readers.jsonl": "jsonl",
        "octavo.corpus.readers.mail": "eml mbox",
        "octavo.corpus.readers.odt": "odt",
        "octavo.corpus.readers.parquet": "parquet",
        "octavo.corpus.readers.pdf": "pdf",
        "octavo.corpus.readers.rtf": "rtf",
        "octavo.corpus.readers.tex": "tex",
        "octavo.corpus.readers.text": "text",
    },
    "record": {
        "octavo.corpus.records.conversations": "conversations",
        "octavo.corpus.records.plain": "text",
        "octavo.corpus.records.preferences": "preferences",
        "octavo.corpus.records.prompts": "prompts",
    },
    "cleaning": {
        "octavo.corpus.cleaning.closed": "closed_vocabulary",
        "octavo.corpus.cleaning.duplicates": "exact_duplicates near_duplicates",
        "octavo.corpus.cleaning.form": "case control marks punctuation unicode whitespace",
        "octavo.corpus.cleaning.judging": "language length",
        "octavo.corpus.cleaning.personal": "personal_data",
        "octavo.corpus.cleaning.titles": "boilerplate dot_leaders titles",
    },
    "validator": {
        "octavo.tasks.records.abc_rules": "abc",
        "octavo.corpus.validators.base": "none",
        "octavo.tasks.records.ball_rules": "bouncing-ball",
    },
    "writer": {
        "octavo.llm_corpus.backends.endpoint": "endpoint",
        "octavo.llm_corpus.backends.run": "model",
        "octavo.llm_corpus.backends.storyteller": "storyteller",
    },
    "tokenizer": {
        "octavo.tasks.translation.separate": "separate",
        "octavo.tokenizers.config": "bpe byte char word",
        "octavo.tokenizers.gpt2": "gpt2",
        "octavo.tokenizers.huggingface": "huggingface",
        "octavo.tasks.records.symbols": "symbols",
    },
    "batches": {
        "octavo.data.batches": "documents prefixes sliding windows",
        "octavo.tasks.chat.batches": "conversations",
        "octavo.tasks.chat.preference_batches": "preferences",
        "octavo.tasks.forecast.batches": "series",
        "octavo.tasks.translation.batches": "joined-pairs pairs",
    },
    "model": {
        "octavo.model.config": "gpt",
        "octavo.tasks.translation.encoder_decoder": "encoder-decoder",
    },
    "input": {
        "octavo.model.inputs": "linear tokens",
    },
    "output": {
        "octavo.model.heads": "bins gaussian mixture quantiles student-t tokens",
    },
    "ngrams": {
        "octavo.model.ngram_vectors": "hashed none",
    },
    "counts": {
        "octavo.ngram.mixing_counts": "mixing",
        "octavo.ngram.mixture": "kneser-ney none",
    },
    "positions": {
        "octavo.model.grid": "grid grid-rotary",
        "octavo.model.positions": "learned none rotary sinusoidal",
    },
    "norm": {
        "octavo.model.norms": "layer none plain rms",
    },
    "feed_forward": {
        "octavo.model.feedforward": "gelu gelu_tanh none relu relu2 swiglu",
    },
    "initialization": {
        "octavo.model.init": "gpt2 normal torch zero_output",
    },
    "objective": {
        "octavo.tasks.forecast.objective": "forecast",
        "octavo.training.objective": "answers given-source next-token",
        "octavo.training.penalty": "penalized",
        "octavo.tuning.policy": "policy-gradient",
        "octavo.tuning.preference": "dpo",
        "octavo.tuning.reward_model": "bradley-terry",
    },
    "optimizer": {
        "octavo.training.optimizers": "adamw muon sgd",
    },
    "schedule": {
        "octavo.training.schedules": "constant cosine inverse-root linear wsd",
    },
    "adapters": {
        "octavo.model.adapters": "lora none",
    },
    "parallel": {
        "octavo.training.distributed.parallel": "ddp fsdp none",
    },
    "reward": {
        "octavo.tuning.rewards.checked": "arithmetic pidgin product sum",
        "octavo.tuning.rewards.counted": "ends-happily length question words",
        "octavo.tuning.rewards.learned": "model",
        "octavo.tuning.rewards.wishes": "wishes",
    },
    "task": {
        "octavo.tasks.chat.task": "chat",
        "octavo.tasks.forecast.task": "forecast",
        "octavo.tasks.records.task": "records",
        "octavo.tasks.text.task": "text",
        "octavo.tasks.translation.task": "translation",
    },
}
"""By room and module: the kinds that it registers."""

ROOMS: dict[str, dict[str, str]] = {
    room: {kind: module for module, kinds in modules.items() for kind in kinds.split()}
    for room, modules in _MODULES.items()
}
"""By room and kind: the module of each of Octavo's own parts, imported when something names the kind."""

SplitBy = Literal["contiguous", "documents", "prompts", "sources", "files"]
"""What is held out of a corpus; see `split` of a recipe."""

_registry: dict[str, dict[str, type[PartConfig]]] = {room: {} for room in ROOMS}


class Strict(BaseModel):
    """Base of every config class: immutable, unknown keys are errors, checked when first used."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


FilePath = Annotated[Path, AfterValidator(lambda path: from_home(path).absolute())]
"""A file or folder that a config names; absolute, so that a run can resume from another folder."""


class PartConfig(Strict):
    """Base of every part's config. `kind` names the part; `build` makes it from plain arguments."""

    kind: str

    task: ClassVar[str | None] = None
    """The task that it brings, by name (see `octavo.task`); None where it goes with several."""

    split_by: ClassVar[SplitBy] = "contiguous"
    """Of a source: how its documents are split where the recipe leaves that open."""

    splits: ClassVar[tuple[SplitBy, ...]] = ("contiguous", "documents", "files")
    """Of a source: all ways in which its documents can be split."""

    in_files: ClassVar[str] = "files"
    """Of a source: the kind that reads the like of it from files; its own, where it does so itself."""

    takes_segments: ClassVar[bool] = True
    """Of a model's part: whether it keeps the documents of a row apart (see `ModelConfig.takes_segments`)."""

    def refuse(self, recipe: Any) -> str | None:
        """Of a source, batches or an objective: what of the recipe does not go with it, as a sentence."""
        return None

    def checker(self) -> Callable[[str], Any] | None:
        """Of a source: what tells whether a text could be one of its own; None where nothing does."""
        return None

    def in_words(self) -> str | None:
        """Of a source that reads no files: what it gives; None where nothing is said of it."""
        return None

    def least_loss(self, text: Path, tokens: int) -> tuple[float, float] | None:
        """Of a source: its entropy, and its own loss on the `tokens` of a file with a document in each line, in nats
        per token; None where it does not know how probable a document is."""
        return None

    def best_guesses(self, text: str) -> list[tuple[str, float]] | None:
        """Of a source: the tokens of a document that it could have written, each with the logarithm (nats) of its
        probability after those before it; None where it does not know. Raises ValueError for another text."""
        return None

    if TYPE_CHECKING:  # each room's parts share methods that only that room knows

        def __getattr__(self, name: str) -> Any: ...


Config = TypeVar("Config", bound=type[PartConfig])


def register(room: str) -> Callable[[Config], Config]:
    """File a config class under its room, by the default of its `kind`."""

    def add(config: Config) -> Config:
        name = config.model_fields["kind"].default
        assert isinstance(name, str), f"{config.__name__} needs a default kind"
        if room not in _registry:
            raise ConfigError(
                f"There is no room '{room}' for parts; there are: {', '.join(sorted(_registry))}."
            )
        before, module = _registry[room].get(name, config), ROOMS[room].get(name, config.__module__)
        same = (before.__module__, before.__qualname__) == (config.__module__, config.__qualname__)
        if not same or module != config.__module__:
            raise ConfigError(f"There is a {room} '{name}' already ({module}); give yours another kind.")
        _registry[room][name] = config
        return config

    return add


def registered() -> dict[tuple[str, str], type[PartConfig]]:
    """What is registered beside Octavo's own parts, by room and kind."""
    return {
        (room, kind): config
        for room, found in _registry.items()
        for kind, config in found.items()
        if kind not in ROOMS[room]
    }


def restore(before: Mapping[tuple[str, str], type[PartConfig]]) -> None:
    """Restore what was `registered` before."""
    for room, kind in registered():
        del _registry[room][kind]
    for (room, kind), config in before.items():
        _registry[room][kind] = config


def kinds(room: str) -> list[str]:
    """The names of a room's parts, in alphabetical order; none is imported."""
    return sorted({*ROOMS[room], *_registry[room]})


def part(room: str, kind: str) -> type[PartConfig]:
    """The config class of one part, whose module alone is imported. Raises KeyError for an unknown kind."""
    if kind not in _registry[room]:
        importlib.import_module(ROOMS[room][kind])
    return _registry[room][kind]


def parts(room: str) -> dict[str, type[PartConfig]]:
    """All parts of a room, by name, in alphabetical order; their modules are imported."""
    for kind in ROOMS[room]:
        part(room, kind)
    return {kind: part(room, kind) for kind in kinds(room)}


@dataclass(frozen=True)
class PartOf:
    """Annotation of a config field that takes any part of `room`; `default` is the kind when none is named."""

    room: str
    default: str | None = None

    def expand(self, value: Any) -> Any:
        """Turn the short form (just a name) and a form without `kind` into the full one."""
        if value is None:  # YAML reads `none:` as a word, but `~` and an empty value as None
            return {"kind": "none"}
        if isinstance(value, str):
            return {"kind": value}
        if isinstance(value, dict) and "kind" not in value and self.default is not None:
            return {"kind": self.default, **value}
        return value

    def named(self, value: Any) -> type[PartConfig] | None:
        """The config class that plain data names; None where there is none of that kind."""
        full = self.expand(value)
        kind = full.get("kind") if isinstance(full, Mapping) else getattr(full, "kind", None)
        if not isinstance(kind, str):
            return None
        if kind not in kinds(self.room):  # it may stand in a module of Octavo's that does not list it yet
            return parts(self.room).get(kind)
        return part(self.room, kind)

    def validate(self, value: Any) -> PartConfig:
        """The part that plain data describes, checked by its own class."""
        full = self.expand(value)
        if (config := self.named(full)) is not None:
            return config.model_validate(full)
        if isinstance(full, Mapping) and "kind" not in full:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        if not isinstance(full, Mapping):
            raise PydanticKnownError("model_attributes_type")
        tags = {"tag": str(full["kind"]), "expected_tags": ", ".join(map(repr, kinds(self.room)))}
        raise PydanticKnownError("union_tag_invalid", {"discriminator": "'kind'", **tags})

    @staticmethod
    def of(field: FieldInfo) -> PartOf | None:
        """What parts a field takes, one or a list of them; None if it takes none."""
        inside = [item for inner in get_args(field.annotation) for item in getattr(inner, "__metadata__", ())]
        return next((item for item in [*field.metadata, *inside] if isinstance(item, PartOf)), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda part: part.model_dump(mode="json")
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Every part of the room, in full or by its name."""
        choices = parts(self.room)
        described = {kind: _described(config) for kind, config in choices.items()}
        inside = set(described.values()) - _describing
        _describing.update(inside)
        try:
            found: dict[Any, CoreSchema] = {
                kind: cast(CoreSchema, {**choices[kind].__pydantic_core_schema__, "ref": ref})
                if ref in inside
                else core_schema.definition_reference_schema(ref)
                for kind, ref in described.items()
            }
            union = core_schema.tagged_union_schema(choices=found, discriminator="kind")
            return handler(core_schema.union_schema([union, core_schema.literal_schema(list(choices))]))
        finally:
            _describing.difference_update(inside)


_describing: set[str] = set()
"""Classes whose JSON schema is being made: a part of a part of its own room refers to it."""


def _described(config: type[PartConfig]) -> str:
    config.model_rebuild()
    return f"{config.__module__}.{config.__qualname__}:{id(config)}"
