"""What every kind of model is: its config, which knows what it costs, and its module. The GPT is the first kind.

B batch, T positions, V vocabulary.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from octavo.config.parts import PartConfig
from octavo.config.schema import shape_in_words
from octavo.data.batch import NO_SIDE_INPUTS, SideInputs
from octavo.ngram.mixture import Judged
from octavo.util.memory import refuse_beyond_memory

FLOAT_BYTES = 4


class LanguageModel(nn.Module):
    """A model of the next token.

    Attributes:
        context: positions that it can see.
        vocab_size: V.
        blocks: the modules that repeat, if there are any: what may be recomputed, what fsdp gathers one at a time,
            and whose matrices Muon takes.
        takes_uneven_cache: whether `forward` goes by the `starts` of a cache and its layers' `attend`: then rows that
            hold different numbers of positions are computed together.
    """

    context: int
    vocab_size: int
    takes_uneven_cache: ClassVar[bool] = False

    decoder: ClassVar[type[Any] | None] = None
    """The `generation.Decoder` that writes with it, where none of Octavo's own can: they give it ids alone."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LanguageModel:
        """torch's copy of a parameter lacks what is noted on it, such as the matrices that Muon finds in it."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(deepcopy(self.__dict__, memo))
        for own in self.parameters():
            if (copied := memo.get(id(own))) is not None:  # whoever copies may put others in its place
                vars(copied).update(vars(own))
        return made

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As torch does. A weight that two modules share, as a tied head does, may have one name of them: a file of
        safetensors holds it once."""
        given, own = dict(state_dict), dict(self.named_parameters(remove_duplicate=False))
        known = {id(own[name]): given[name] for name in given if name in own}
        given |= {name: known[id(one)] for name, one in own.items() if name not in given and id(one) in known}
        return super().load_state_dict(given, strict=strict, assign=assign)

    @abstractmethod
    def forward(self, tokens: Tensor, cache: Any = None, side: SideInputs[Tensor] = NO_SIDE_INPUTS) -> Tensor:
        """Logits (B, T, V) of the token after each of `tokens` (B, T).

        With a cache (see `new_cache`) the tokens follow what it holds, and are added to it. `side` is only given
        where a batch has any: a kind whose config takes none of them may leave it out.
        """

    def new_cache(self, batch: int) -> Any:
        """An empty cache for `batch` sequences, a `model.gpt.Cache`; None for a kind that has none: then the whole text
        is read again for each token that is written.
        """
        return None

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None = None,
        *,
        learned: bool = False,
        spelt: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Keep what the model needs of its training text, ids (N,) or rows of numbers (N, D), before it is trained.
        `held_out` (N,): what the network does not learn from (`ModelConfig.held_out`). `learned`: the weights are no
        first ones, and stay. `spelt` gives what each id is as text."""

    def judged(self, tokens: Tensor, targets: Tensor, side: SideInputs[Tensor]) -> Judged | None:
        """Of `targets` (B, T) after each of `tokens` (B, T), where the model can tell that without all others; else
        None."""
        return None

    def settle(self) -> None:
        """Let what counts beside the network learn what that is worth by now; nothing where it knows."""

    def shorten(self, context: int) -> None:
        """Forget what was trained for the positions from `context` on, where the kind can (`ModelConfig.contexts`)."""
        assert context == self.context, f"the context of a {type(self).__name__} is {self.context}, for ever"

    @property
    def cache_numbers(self) -> int:
        """Numbers that a cache keeps of each position."""
        return 0

    @property
    def predicts_untrained(self) -> bool:
        """Whether what it predicts before its first step is worth keeping, as counts beside the network are."""
        return False


def blocks_of(model: nn.Module) -> Sequence[nn.Module]:
    """The modules that repeat in a model."""
    return getattr(model, "blocks", ())


def block_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices inside the modules that repeat, each once."""
    candidates = (weights for block in blocks_of(model) for weights in block.parameters())
    return list({id(weights): weights for weights in candidates if weights.ndim == 2}.values())


def trained(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Those that are trained, and not frozen."""
    return [weights for weights in parameters if weights.requires_grad]


def _named(schema: dict[str, Any]) -> None:
    """Editors should know that settings without a kind are the usual one's."""
    if schema["properties"]["kind"].get("default") != "gpt":
        schema["required"] = [*schema.get("required", ()), "kind"]


class ModelConfig(PartConfig):
    """Base of every kind of model. What a kind does not count itself is counted on the model, built without memory."""

    model_config = ConfigDict(json_schema_extra=_named)

    context: int = Field(64, ge=1, le=2**24)
    """T, the positions that the model sees."""

    takes_segments: ClassVar[bool] = False
    """Whether `forward` keeps apart the documents of a row by `side.segments`."""

    takes_prefix: ClassVar[bool] = False
    """Whether all positions see those of `side.prefix`."""

    takes_source: ClassVar[bool] = False
    """Whether `forward` reads `side.source`; then all its batches have it."""

    @property
    def takes_vectors(self) -> bool:
        """Whether a position holds a row of numbers (B, T, V), and `forward` takes `side.values`, which follow."""
        return False

    @property
    def before(self) -> int:
        """Tokens before a row that the model looks at, where a batch tells it of them (`earlier`)."""
        return 0

    @property
    def held_out(self) -> float:
        """Share of the training text that the network does not learn from, because another part of the model needs text
        that is new to it."""
        return 0.0

    def held_out_of(self, starts: np.ndarray, size: int) -> np.ndarray | None:
        """(N,) which of a training text's N = `size` tokens these are, if any; `starts`: where its documents begin."""
        return None

    @property
    def reads_on(self) -> bool:
        """Whether a part of the model can go on learning in the text that it is judged by (`evaluation.reading_on`)."""
        return False

    @property
    def gate_share(self) -> float:
        """Share of each batch that comes from what is held out, for a gate that learns step by step with the
        network."""
        return 0.0

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        """Memory of what is counted of the training text `tokens` (N,), beside the weights."""
        return 0

    @property
    def contexts(self) -> tuple[int, int]:
        """The least and the largest context that weights trained with this config can be used with."""
        return self.context, self.context

    @abstractmethod
    def build(self, *, vocab_size: int) -> LanguageModel:
        """The modules, on torch's default device; may be asked under `torch.device("meta")`."""

    def draw(self, model: nn.Module) -> None:
        """Give a model that was just built its first weights, where `build` has not."""

    def parameters(self, *, vocab_size: int, head: bool = True) -> int:
        """All trained numbers; `head=False` leaves the output head out, as GPT-2's "124M" does (report D), where the
        kind can tell."""
        return sum(parameter.numel() for parameter in self._outline(vocab_size).parameters())

    def block_matrix_parameters(self) -> int:
        """Numbers in the matrices of all blocks."""
        return _matrices(blocks_of(self._outline(1)))

    def matrix_parameters(self, *, vocab_size: int) -> int:
        """N, the numbers that take part in matrix products, not the looked-up tables."""
        return _matrices([self._outline(vocab_size)])

    def forward_flops(self, *, vocab_size: int, length: int | None = None) -> int:
        """Floating-point operations of one forward pass over one token, in a sequence of `length` (default T)."""
        return 2 * self.matrix_parameters(vocab_size=vocab_size)

    def training_flops(self, *, vocab_size: int) -> int:
        """Of one token in training: forward and twice that backward."""
        return 3 * self.forward_flops(vocab_size=vocab_size)

    def cache_bytes(self, *, batch: int = 1) -> int:
        """Bytes of the key/value cache for a full context."""
        return 0

    def activation_bounds(self) -> tuple[int, float]:
        """Bytes a position that a training step certainly holds of the blocks' activations, and certainly does not
        exceed; infinite if nobody knows: then a step is estimated."""
        return 0, math.inf

    def as_estimated(self, device: torch.device, *, segments: bool = False) -> ModelConfig:
        """The config whose step, by torch's own operations, holds what this one's holds on a device, on batches with
        or without segments."""
        return self

    @property
    def shape(self) -> str:
        """The model in a few words."""
        return shape_in_words(self.model_dump(mode="json"))

    def miscounted(self, *, vocab_size: int, built: nn.Module | None = None) -> str | None:
        """Where the counts of the config differ from the model that is built, as a sentence; None where they agree. A
        part of the user's own may have inherited those of another. `built`: that model, if it is at hand."""
        built = self._outline(vocab_size) if built is None else built
        matrices = (self.block_matrix_parameters(), _matrices(blocks_of(built)))
        numbers = (self.parameters(vocab_size=vocab_size), sum(one.numel() for one in built.parameters()))
        both = (("parameters", numbers), ("numbers in the matrices of its blocks", matrices))
        wrong = [
            f"{stated:,} {what} where it has {real:,}" for what, (stated, real) in both if stated != real
        ]
        if not wrong:
            return None
        return (
            f"its parts state for this model {' and '.join(wrong)}; memory, operations and predictions go by what they "
            "state. Correct `parameters` and `matrix_parameters` of your own part"
        )

    def _outline(self, vocab_size: int) -> LanguageModel:
        with torch.device("meta"):
            return self.build(vocab_size=vocab_size)


def _matrices(modules: Sequence[nn.Module]) -> int:
    """Numbers in the matrices of some modules, tables of embeddings left out."""
    tables = {
        id(parameter)
        for module in modules
        for inner in module.modules()
        if isinstance(inner, nn.Embedding)
        for parameter in inner.parameters()
    }
    matrices = {
        id(p): p.numel()
        for module in modules
        for p in module.parameters()
        if p.ndim == 2 and id(p) not in tables
    }
    return sum(matrices.values())


# The builder: from the config of any kind of model to the model with its first weights.


def build_model(config: ModelConfig, *, vocab_size: int, seed: int, **options: Any) -> Any:
    """A model with freshly drawn weights on the CPU, in float32; the same seed gives the same weights. Raises
    InputError, before they are drawn, where they are more than memory holds.

    `options` go to the kind's `build`: a GPT's attention weights can be captured with `explicit_attention=True`.
    """
    if torch.get_default_device().type != "meta":
        weights = FLOAT_BYTES * config.parameters(vocab_size=vocab_size)
        refuse_beyond_memory(weights, "The weights of this model take")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: LanguageModel = config.build(vocab_size=vocab_size, **options)
        if next(model.parameters()).device.type != "meta":
            config.draw(model)
    return model


class TablesConfig(PartConfig):
    """Base of the configs of parts that may have tables; a lookup is no matrix product, and counts no FLOPs."""

    @property
    def tables(self) -> int:
        """Tables, each with a row for every token of a text."""
        return 0

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        return 0

    def parameters(self, *, width: int) -> int:
        return self.rows * width

    @abstractmethod
    def without_tables(self) -> PartConfig:
        """The part of the same room that stands for none."""


def table_parts(config: ModelConfig) -> dict[str, TablesConfig]:
    """The parts of a model that may have tables, by the name of their field."""
    parts = ((name, getattr(config, name)) for name in type(config).model_fields)
    return {name: part for name, part in parts if isinstance(part, TablesConfig)}


def table_parameters(config: ModelConfig) -> int:
    """Number of parameters in embedding tables."""
    return sum(part.parameters(width=config.width) for part in table_parts(config).values())


def without_tables(config: ModelConfig) -> ModelConfig:
    """The same model without its tables."""
    return config.model_copy(
        update={name: part.without_tables() for name, part in table_parts(config).items()}
    )


def sparse_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The tables of all modules that say which they are."""
    return [table for tables in asked(model, "sparse_parameters") for table in tables()]


def gates(model: nn.Module) -> list[Any]:
    """The modules that mix the network's predictions with others by a gate."""
    return [module for module in model.modules() if hasattr(module, "gate_parameters")]


def gate_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The weights of all gates that mix the network's predictions with others."""
    return [weight for gate in gates(model) for weight in gate.gate_parameters()]


def prepare_for_processes(model: nn.Module) -> None:
    """Tell every module that wants to know that several processes will train it."""
    for prepare in asked(model, "prepare_for_processes"):
        prepare()


def asked(model: nn.Module, method: str) -> list[Callable[..., Any]]:
    """A method of every module that has one of this name."""
    methods = (getattr(module, method, None) for module in model.modules())
    return [each for each in methods if each is not None]


def gate_tokens(model: nn.Module) -> int:
    """How many tokens the gates of a model learn from, which has taken its text; 0: it has none."""
    return sum(getattr(module, "gate_tokens", 0) for module in model.modules())
