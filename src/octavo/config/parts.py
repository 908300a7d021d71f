"""Parts: the exchangeable pieces of a run, each owning its options.

A part is a config class and the thing it builds, in one file of the room that it belongs to. `register`
files the config class under its room and its `kind`; `PartOf(room)` marks a field of the config tree that
takes any part of that room. In YAML a part is `{kind: rotary, base: 500}`, or just `rotary`.

A part's module is imported when a config names the part, so that a run imports no others. A part that is registered
later, in a notebook or from a Python file of the user's own, is known from then on. Such a file is loaded only when the
user names it, never because a run does.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.abc import SourceLoader
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
from octavo.util.processes import TOLD

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
        "octavo.model.inputs": "hashed none",
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


VARIABLE = "OCTAVO_PARTS"  # what child processes are told


@dataclass(frozen=True)
class OwnParts:
    """A file that was loaded.

    Attributes:
        sha256: of what was run.
        parts: what it registers, as "room.kind".
        neighbours: whether it imports what stands in its folder, which Python looked into.
    """

    path: str
    sha256: str
    parts: tuple[str, ...]
    neighbours: bool = False


_loaded: dict[str, OwnParts] = {}


class _Read(SourceLoader):
    """Runs the bytes that were read, so that the hash is that of the code that runs."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        if path != self.path:
            raise OSError  # no compiled twin is looked for
        return self.content


def load_parts(path: str | Path) -> OwnParts:
    """Run a Python file whose config classes register themselves (`register`), also after configs
    were checked. A function `reward(prompt, text)` in it becomes a reward of the file's name. A file that has changed
    since is run again, and its new parts take the place of the old.

    Raises ConfigError if it cannot be read, fails, registers nothing, or takes a name that there is already; then
    nothing of it stays registered.
    """
    place = str(from_home(path).absolute())
    try:
        content = Path(place).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    digest = hashlib.sha256(content).hexdigest()
    known = _loaded.get(place)
    if known is not None and known.sha256 == digest:
        return known
    before, modules = registered(), set(sys.modules)
    name = f"octavo_own_{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    loader = _Read(place, content)
    spec = importlib.util.spec_from_loader(name, loader, origin=place)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    earlier = sys.modules.get(name)
    sys.modules[name] = module  # where pydantic and dataclasses look names up
    try:
        loader.exec_module(module)
        if callable(getattr(module, "reward", None)):
            rewards = importlib.import_module("octavo.tuning.rewards.own")
            rewards.adopt(module, Path(place).stem)
        added = {
            f"{room}.{kind}" for (room, kind), config in registered().items() if config.__module__ == name
        }
        if not added:
            what = (
                "it registers no part; put @register(ROOM) on a config class, or define reward(prompt, text)"
            )
            raise ConfigError(what)
    except BaseException as error:
        restore(before)
        sys.modules.pop(name)
        if earlier is not None:
            sys.modules[name] = earlier
        if not isinstance(error, Exception | SystemExit):
            raise
        what = f"{path} cannot be loaded: {_where(error, place)}{_said(error)}."
        raise ConfigError(what, remedy="docs/extending.md shows a file of parts") from error
    folder = Path(place).parent
    files = (getattr(sys.modules[each], "__file__", None) for each in set(sys.modules) - modules - {name})
    neighbours = any(file and folder in Path(file).absolute().parents for file in files)
    _loaded[place] = OwnParts(place, digest, tuple(sorted(added)), neighbours)
    TOLD[VARIABLE] = json.dumps([asdict(own) for own in _loaded.values()])
    return _loaded[place]


def loaded_parts() -> list[OwnParts]:
    """The files that this process has loaded, in that order."""
    return list(_loaded.values())


def load_told_parts() -> None:
    """In a child process of ours: load what its parent has loaded. Raises ConfigError if that has changed since."""
    for told in json.loads(os.environ.get(VARIABLE) or "[]"):
        if told.get("neighbours"):
            # Behind all else, so that none of them stands in for another module of its name.
            sys.path.append(str(Path(told["path"]).parent))
        if load_parts(told["path"]).sha256 != told["sha256"]:
            raise ConfigError(f"{told['path']} has changed since it was loaded.")


def command(*words: str | Path) -> str:
    """A command as it can be typed here: quoted for a shell, and with the files of parts that are loaded."""
    own = [word for each in _loaded for word in ("--parts", each)]
    return shlex.join([*map(str, words), *own])


def how_to_load(described: Iterable[object]) -> str | None:
    """What to add to a command for a run whose manifest names such files; None if all of them are loaded."""
    there = {own.sha256 for own in _loaded.values()}
    missing = [
        own
        for own in described
        if isinstance(own, dict) and isinstance(own.get("path"), str) and own.get("sha256") not in there
    ]
    options = shlex.join(word for own in missing for word in ("--parts", own["path"]))
    return f"look at what is in it, and add {options}" if options else None


def changed_parts(described: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of the files that a run's manifest names, those that are loaded with another content now."""
    now = {own.path: own.sha256 for own in _loaded.values()}
    return [own["path"] for own in described if now.get(own["path"], own["sha256"]) != own["sha256"]]


def _said(error: BaseException) -> str:
    if isinstance(error, ConfigError):
        return error.what.rstrip(".")
    text = str(error.msg if isinstance(error, SyntaxError) else error).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _where(error: BaseException, place: str) -> str:
    """The line of the file at which it failed."""
    if isinstance(error, SyntaxError) and error.filename == place:
        return f"line {error.lineno}: "
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
    return f"line {lines[-1]}: " if lines else ""
