"""Parts: the exchangeable pieces of a run, each owning its options.

A part is a config class and the thing it builds, in one file of the room that it belongs to. `register`
files the config class under its room and its `kind`; `PartOf(room)` marks a field of the config tree that
takes any part of that room. In YAML a part is `{kind: rotary, base: 500}`, or just `rotary`.

Rooms are imported when a config is first validated, not before, so importing `octavo.config` stays light. A part that
is registered later, in a notebook or by `octavo.config.plugins`, is known from then on.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from octavo.errors import ConfigError
from octavo.util.files import from_home

# Where the parts of each room are: modules, packages whose every module is looked at, or modules by kind, which are
# imported one by one.
ROOMS: dict[str, str | tuple[str, ...] | dict[str, str]] = {
    "source": (
        "octavo.corpus.sources",
        "octavo.tasks.translation.source",
        "octavo.tasks.forecast.source",
        "octavo.tasks.records.images",
        "octavo.synthetic.source",
        "octavo.synthetic.wishes",
        "octavo.synthetic.sums",
        "octavo.synthetic.ball",
        "octavo.tasks.forecast.dynamics",
        "octavo.tuning.comparisons",
    ),
    "reader": "octavo.corpus.readers",
    "record": "octavo.corpus.records",
    "cleaning": "octavo.corpus.cleaning",
    "validator": ("octavo.corpus.validators", "octavo.synthetic.ball_rules"),
    "writer": ("octavo.llm_corpus.backends", "octavo.llm_corpus.backends.run"),
    "tokenizer": ("octavo.tokenizers", "octavo.tasks.translation.separate"),
    "batches": (
        "octavo.data.batches",
        "octavo.tasks.translation.batches",
        "octavo.tasks.forecast.batches",
        "octavo.tasks.chat.batches",
        "octavo.tasks.chat.preference_batches",
    ),
    "model": ("octavo.model.config", "octavo.tasks.translation.encoder_decoder"),
    "input": "octavo.model.inputs",
    "output": "octavo.model.heads",
    "ngrams": "octavo.model.ngram_vectors",
    "counts": "octavo.ngram.mixture",
    "positions": ("octavo.model.positions", "octavo.model.grid"),
    "norm": "octavo.model.norms",
    "feed_forward": "octavo.model.feedforward",
    "initialization": "octavo.model.init",
    "objective": (
        "octavo.training.objective",
        "octavo.tasks.forecast.objective",
        "octavo.training.penalty",
        "octavo.tuning.policy",
        "octavo.tuning.preference",
        "octavo.tuning.reward_model",
    ),
    "optimizer": "octavo.training.optimizers",
    "schedule": "octavo.training.schedules",
    "adapters": "octavo.model.adapters",
    "parallel": "octavo.training.distributed.parallel",
    "reward": "octavo.tuning.rewards",
    "task": {
        "text": "octavo.tasks.text.task",
        "chat": "octavo.tasks.chat.task",
        "translation": "octavo.tasks.translation.task",
        "forecast": "octavo.tasks.forecast.task",
        "records": "octavo.tasks.records.task",
    },
}

SplitBy = Literal["contiguous", "documents", "prompts", "sources", "files"]
"""What is held out of a corpus; see `split` of a recipe."""
MOST = 2**31 - 1
"""The largest count in a config: as many as 32 bits index."""

LARGEST = 1e60
"""The largest rate, scale or penalty in a config: far beyond what is of use, and no product of two is infinite."""

_registry: dict[str, dict[str, type[PartConfig]]] = {room: {} for room in ROOMS}
_in_use: set[str] = set()  # rooms whose parts stand in a config class that is ready to check


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
        before = _registry[room].get(name, config)
        if (before.__module__, before.__qualname__) != (config.__module__, config.__qualname__):
            raise ConfigError(
                f"There is a {room} '{name}' already ({before.__module__}); give yours another kind."
            )
        _registry[room][name] = config
        if room in _in_use:
            _renew()
        return config

    return add


def registered() -> dict[tuple[str, str], type[PartConfig]]:
    """What is registered so far, by room and kind."""
    return {(room, kind): config for room, found in _registry.items() for kind, config in found.items()}


def restore(before: Mapping[tuple[str, str], type[PartConfig]]) -> None:
    """Restore what was `registered` before."""
    for room, found in _registry.items():
        found.clear()
        found.update({kind: config for (there, kind), config in before.items() if there == room})
    _renew()


def _renew() -> None:
    """Let config classes that are ready to check take the parts that are registered now."""
    seen: dict[type[BaseModel], bool] = {}

    def takes_parts(config: type[BaseModel]) -> bool:
        if config not in seen:
            seen[config] = True  # one that is inside itself is so through a part
            taking = False
            for field in config.model_fields.values():
                part = PartOf.of(field)
                inner = [kind for kind in _classes(field.annotation) if issubclass(kind, BaseModel)]
                inner += _registry[part.room].values() if part else []
                taking = any([*map(takes_parts, inner), part is not None, taking])
            seen[config] = taking
        return seen[config]

    waiting: list[type[BaseModel]] = [Strict]
    while waiting:
        config = waiting.pop()
        waiting += config.__subclasses__()
        takes_parts(config)
    ready = [config for config, takes in seen.items() if takes and config.__pydantic_complete__]
    for config in ready:  # all forget first: a part may hold parts of its own room
        for kept in ("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__"):
            if kept in config.__dict__:
                delattr(config, kept)
        config.__pydantic_complete__ = False
    for config in reversed(ready):  # after those inside it
        config.model_rebuild(force=True)


def _classes(annotation: Any) -> list[type]:
    """The classes in a type, however deep."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    return [found for inner in get_args(annotation) for found in _classes(inner)]


@cache
def _load(room: str) -> None:
    places = ROOMS[room]
    places = places.values() if isinstance(places, dict) else places
    for place in (places,) if isinstance(places, str) else places:
        module = importlib.import_module(place)
        for found in sorted(
            pkgutil.iter_modules(getattr(module, "__path__", [])), key=lambda info: info.name
        ):
            importlib.import_module(f"{place}.{found.name}")


def part(room: str, kind: str) -> type[PartConfig]:
    """Look up one part; where `ROOMS` has a module for each kind, import that module alone. Raises KeyError for
    an unknown kind."""
    places = ROOMS[room]
    if kind not in _registry[room] and isinstance(places, dict) and kind in places:
        importlib.import_module(places[kind])
    return _registry[room].get(kind) or parts(room)[kind]


def parts(room: str) -> dict[str, type[PartConfig]]:
    """All registered parts of a room, by name, in alphabetical order."""
    _load(room)
    return dict(sorted(_registry[room].items()))


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

    @staticmethod
    def of(field: FieldInfo) -> PartOf | None:
        """What parts a field takes, one or a list of them; None if it takes none."""
        inside = [item for inner in get_args(field.annotation) for item in getattr(inner, "__metadata__", ())]
        return next((item for item in [*field.metadata, *inside] if isinstance(item, PartOf)), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = parts(self.room)
        _in_use.add(self.room)
        union = core_schema.tagged_union_schema(
            choices={name: handler.generate_schema(config) for name, config in choices.items()},
            discriminator="kind",
        )
        return core_schema.no_info_before_validator_function(
            self.expand,
            union,
            json_schema_input_schema=core_schema.union_schema(
                [union, core_schema.literal_schema(list(choices))]
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda part: part.model_dump(mode="json")
            ),
        )
