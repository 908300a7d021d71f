"""Counting beside learning: n-grams of the training text, mixed with the network's predictions by a gate.

The network learns alone. A gate weighs its prediction and those of all orders of an n-gram model for each token, from
the network's last state and from how often each context was seen. It has to learn from text that is new to both: where
counts or network know the text, the gate would learn to trust what has merely been seen. So a small part of the
training text is held out from both, and the gate learns there. When training is over, all of the text is counted.
What a text itself has said so far may be counted too: see `model.recent`.

Sources: Chen and Goodman 1999 (Kneser–Ney); Khandelwal et al. 2020 and Liu et al. 2024 (mixing in probability).
B batch, T positions, C width, V vocabulary, K orders, H hidden units of the gate.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from octavo.config.parts import PartConfig, register
from octavo.data.batches import held_out_blocks
from octavo.errors import CorpusError
from octavo.ngram.gate import HeldOut, Recent, best_weights, fit, fit_recent
from octavo.ngram.kernel import MOST_HIDDEN, MOST_ORDERS, Tables, refuse_text, table_bytes
from octavo.ngram.kneser_ney import kinds, tables_of_text
from octavo.ngram.recent import MOST_RECENT, Texts, is_apart

NETWORK = 0.02
"""The network's share before the gate has learned."""
Spelt = Callable[[], Sequence[str]]
"""Gives what each token is as text."""


class Judged(NamedTuple):
    """What a model says of tokens that came, without what it says of all others.

    Attributes:
        logs: (B, T) ln p.
        first: (B, T) whether it was the largest.
        heard: (B, T, CODE) what a context mixer heard of the network, see `mixing.ContextMixing.hear`.
        shares: (B, T) of all that was said, the network's.
    """

    logs: Tensor
    first: Tensor
    heard: np.ndarray
    shares: np.ndarray


class Counts(nn.Module):
    """The network alone.

    Attributes:
        before: tokens before a position that its prediction depends on.
        near: the same without what the text has said so far.
    """

    before: int = 0
    near: int = 0
    is_stale: bool = False
    """Whether the network has learned since counts heard it last."""

    def hear(self, network: Callable[[Tensor], Tensor], context: int) -> None:
        """Learn what a network is worth that gives logits (B, T, V) after each of tokens (B, T ≤ `context`)."""

    def forward(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        alone: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, T, V) from the network's logits and its last state x (B, T, C), which were made of `tokens`
        (B, T); `earlier` (B, ≤ before) stand before them.

        With `segments` (B, T) nothing of another segment is looked at. The rows of `alone` (B, T) that are 1 stay as
        they are.
        """
        return logits

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None,
        *,
        learned: bool = False,
        spelt: Spelt | None = None,
    ) -> None:
        """See `LanguageModel.take_text`."""

    def ngrams(self) -> Tables | None:
        """Those of the training text, from which texts are drafted; None: nothing is counted."""
        return None


NETWORK_LEARNS_NOTHING = (
    "counts give the network no gradient, so this step trains the gate over them alone. Pass "
    "side=SideInputs(alone=…), 1 (B, T) in the rows that the network is to learn from, or train run.network().model, "
    "which has no counts."
)


class Sides(NamedTuple):
    """What went into the predictions of N tokens, (N, K + 1) each: the network first, then the orders; after them what
    the text has said so far, if that is counted."""

    weights: Tensor
    """The gate's."""
    probabilities: Tensor
    """Of the token that came."""
    together: Tensor
    """(N,) the same by the model."""

    def after(self, recent: Recent, texts: Texts, tokens: np.ndarray) -> Sides:
        """The same with what the texts have said so far of tokens (N,), which takes its share of all weights."""
        said, rest = (torch.from_numpy(each)[:, None] for each in texts.shares_of(tokens))
        share = (recent.shares(texts)[:, None] * (1 - rest)).to(self.weights)
        of_it = torch.where(rest < 1, said / (1 - rest), 0.0)
        return Sides(
            torch.cat((self.weights * (1 - share), share), dim=1),
            torch.cat((self.probabilities, of_it), dim=1),
            self.together * (1 - share[:, 0]) + share[:, 0] * of_it[:, 0],
        )


class CountedText(Counts):
    """Counts of the training text beside the network. Their predictions are logarithms of probabilities, which are
    logits that add up to one; they bring no gradient to the network.

    Attributes:
        mixer: whether what counts is a context mixer and not orders of n-grams.
        recent: what a text has said so far, if that is counted.
    """

    tokens: Tensor
    fewest: int
    """Tokens of a text."""
    mixer: bool = False

    def __init__(self, *, near: int, before: int, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size, self.near, self.before = vocab_size, near, before
        self.recent: Recent | None = None
        self.register_buffer("tokens", torch.empty(0, dtype=_kind(vocab_size)))
        self.register_load_state_dict_pre_hook(self._make_room)

    @abstractmethod
    def sides(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        targets: Tensor,
        segments: Tensor | None = None,
    ) -> Sides | None:
        """What went into a prediction of `targets` (B, T ≥ 0), from the arguments of `forward`; None before any text
        was taken."""

    @abstractmethod
    def counted(self, tokens: np.ndarray) -> Any:
        """What is known of a text, by which predictions are made."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what is counted of `tokens`, which is counted again when it is needed. Plain pickle writes tensors of
        16 bits without a sign, and cannot read them."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_all"}
        return kept | {"_buffers": {**self._buffers, "tokens": self.tokens.to(torch.int32)}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.tokens = self.tokens.to(_kind(self.vocab_size))

    def _count(self, tokens: Tensor) -> None:
        self.tokens = tokens
        self.__dict__.pop("_all", None)

    @cached_property
    def _all(self) -> Any:
        return self.counted(self.tokens.cpu().numpy())

    @property
    def tables(self) -> Any:
        """What counts now; None before any text was taken."""
        return self._all if self.has_text else None

    @property
    def has_text(self) -> bool:
        """Whether a text was taken."""
        return self.tokens.numel() > 0 and self.tokens.device.type != "meta"

    def _make_room(self, _: nn.Module, weights: dict[str, Tensor], prefix: str, *__: Any) -> None:
        """Before weights are loaded: the text that comes with them may be another, of any length. Raises RuntimeError,
        as torch does for weights that do not fit, where it is none: the kernels trust it."""
        if (tokens := weights.get(f"{prefix}tokens")) is None:
            return
        refuse_saved(prefix, refuse_text, tokens, fewest=self.fewest, vocab_size=self.vocab_size)
        found = tokens.cpu().to(torch.int64)
        if not torch.equal(found, self.tokens.cpu().to(torch.int64)):
            self._count(torch.empty(found.shape, dtype=self.tokens.dtype, device=self.tokens.device))


def refuse_saved(prefix: str, refuse: Callable[..., None], *tensors: Tensor | None, **limits: int) -> None:
    """Call `refuse` with the numbers of tensors that are to be loaded, and turn its ValueError into the RuntimeError
    that torch raises. A missing tensor, and one of no whole numbers, is given as no floats, which `refuse` refuses."""
    arrays = [
        np.empty(0, np.float32) if each is None or each.is_floating_point() else each.cpu().numpy()
        for each in tensors
    ]
    try:
        refuse(*arrays, **limits)
    except ValueError as error:
        raise RuntimeError(f"{prefix}{error}") from error


def to_mix(tokens: Tensor, alone: Tensor | None) -> Tensor:
    """(n,) the rows of `tokens` (B, T) that do not stay as they are; see `Counts.forward`."""
    if alone is None:
        return torch.arange(len(tokens))
    return torch.from_numpy(np.flatnonzero((alone.cpu().numpy() == 0).any(axis=1)))


class KneserNeyCounts(CountedText):
    """Interpolated modified Kneser–Ney of all orders, mixed with the network's predictions by a gate; with `recent`,
    what a text has said so far. While it trains (`train()`), what was held out is not counted.

    Attributes:
        gate_tokens: of the training text, held out for the gate to learn from.
    """

    from_state: nn.Linear

    def __init__(self, *, orders: int, hidden: int, width: int, vocab_size: int, recent: int = 0) -> None:
        super().__init__(near=orders - 1, before=max(orders - 1, recent), vocab_size=vocab_size)
        self.orders, self.fewest = orders, 2 * orders
        self.recent = Recent(most=recent, vocab_size=vocab_size) if recent else None
        self._learned: Tables | None = None  # what was not held out, counted
        self.gate_tokens = 0
        self.from_state = nn.Linear(width, hidden, bias=False)
        self.from_known = nn.Linear(2 * orders, hidden)
        self.out = nn.Linear(hidden, orders + 1)

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None,
        *,
        learned: bool = False,
        spelt: Spelt | None = None,
    ) -> None:
        """The gate begins with what counting alone makes of the text that is held out."""
        tokens = np.asarray(tokens)
        counted = tokens if held_out is None else tokens[~held_out]
        if len(tokens) < 2 * self.orders or len(counted) < self.orders:
            least = f"{2 * self.orders} at least, {self.orders} of them not held out"
            raise CorpusError(
                f"The text has {len(tokens)} tokens; counting {self.orders}-grams needs {least}.",
                remedy="Give more text, or set model.counts=none.",
            )
        self._count(torch.from_numpy(tokens.astype(np.int32)).to(self.tokens))
        found = None
        if held_out is not None:
            self._learned = self.counted(counted)
            found = HeldOut.of(self._learned, tokens, held_out)
            self.gate_tokens = int(held_out.sum())
        if learned:
            return
        self._start(found)
        if self.recent is not None:
            fit_recent(self.recent, tokens, self.orders)

    @torch.no_grad()
    def _start(self, held_out: HeldOut | None) -> None:
        """The orders get weights by how often their contexts were seen, the network a small one: it knows nothing."""
        weights = np.full(self.orders, 1 / self.orders)
        if held_out is not None:
            weights = best_weights(held_out.probabilities)
        shares = np.concatenate(([NETWORK], (1 - NETWORK) * weights))
        self.out.weight.zero_()
        self.out.bias.copy_(torch.from_numpy(np.log(np.maximum(shares, 1e-6))))
        if held_out is not None:
            fit(held_out, self.from_state, self.from_known, self.out)

    def ngrams(self) -> Tables | None:
        return self.tables

    def gate_parameters(self) -> list[nn.Parameter]:
        return list(self.parameters())

    def _count(self, tokens: Tensor) -> None:
        super()._count(tokens)
        self._learned = None

    @property
    def tables(self) -> Any:
        return self._learned if self.training and self._learned is not None else super().tables

    def forward(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        alone: Tensor | None = None,
    ) -> Tensor:
        tables = self.tables
        rows = to_mix(tokens, alone)
        if tables is None:
            return logits
        if not len(rows):  # of several processes, each has a gradient for every weight
            return logits + 0 * sum(weight.sum() for weight in self.parameters())
        if self.training and alone is None and logits.requires_grad:
            warnings.warn(NETWORK_LEARNS_NOTHING, stacklevel=2)
        here = rows.to(logits.device)
        chosen = [None if each is None else each[here] for each in (earlier, segments)]
        with torch.autocast(logits.device.type, enabled=False):
            mixed = self.together(tables, logits[here], x[here], tokens[here], *chosen)
            if self.recent is not None and not self.training and not is_apart():
                mixed = self.recent(mixed, self.recent.texts(tokens[here], *chosen))
            mixed = mixed.log() if mixed.requires_grad else mixed.log_()
        if alone is None:
            return mixed.view(logits.shape)
        return logits.float().index_copy(0, here, mixed.view(len(rows), *logits.shape[1:]))

    def counted(self, tokens: np.ndarray) -> Tables:
        return tables_of_text(tokens.astype(np.int32), vocab_size=self.vocab_size, orders=self.orders)

    def together(
        self,
        counted: Tables,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None,
        segments: Tensor | None,
    ) -> Tensor:
        """(N, V) probabilities by the network and by what is counted; for the rest see `forward`."""
        places = self._places(counted, tokens, earlier, segments)
        network, weights = self._weighed(counted, places, logits, x)
        return mixture(weights, network, places, counted)

    @torch.no_grad()
    def sides(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        targets: Tensor,
        segments: Tensor | None = None,
    ) -> Sides | None:
        tables = self.tables
        if tables is None:
            return None
        places = self._places(tables, tokens, earlier, segments)
        network, weights = self._weighed(tables, places, logits, x)
        asked = targets.flatten().cpu().numpy()
        found = [network.gather(1, targets.reshape(-1, 1)).cpu()]
        found.append(torch.from_numpy(tables.probabilities(places, asked)))
        weights, probabilities = weights.cpu(), torch.cat(found, dim=1)
        sides = Sides(weights, probabilities, (weights * probabilities).sum(dim=1))
        if self.recent is None:
            return sides
        return sides.after(self.recent, self.recent.texts(tokens, earlier, segments), asked)

    def _weighed(
        self, tables: Tables, places: np.ndarray, logits: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The network's probabilities (N, V) and the gate's weights (N, K + 1), the network's first."""
        state = x.detach().to(self.out.bias.dtype).flatten(0, 1)  # (N, C)
        given = logits.detach().float().flatten(0, 1)  # (N, V)
        network = given.softmax(dim=-1)
        logs = given.log_softmax(dim=-1)  # both by themselves are sooner than one from the other
        seen = torch.from_numpy(tables.known(places)).to(network.device)
        entropy, highest = -(network * logs).sum(dim=-1, keepdim=True), logs.amax(dim=-1, keepdim=True)
        known = torch.cat((seen, entropy, highest), dim=1).to(state.dtype)  # (N, 2 K)
        hidden = (self.from_state(state) + self.from_known(known)).relu()  # (N, H)
        return network, self.out(hidden).softmax(dim=-1).float()

    def _places(
        self, tables: Tables, tokens: Tensor, earlier: Tensor | None, segments: Tensor | None
    ) -> np.ndarray:
        """(N, K) index of each context in each order."""
        before, fresh = 0, None
        if earlier is not None:
            earlier = earlier[:, -self.near :]
            before, tokens = earlier.size(1), torch.cat((earlier, tokens), dim=1)
        if segments is not None:
            fresh = nn.functional.pad(segments[:, 1:] != segments[:, :-1], (1, 0), value=True).cpu().numpy()
        found = tables.contexts(tokens.cpu().numpy(), fresh)[:, before:]
        return np.ascontiguousarray(found.reshape(-1, self.orders))


def _kind(vocab_size: int) -> torch.dtype:
    """Of numbers that hold a text's tokens."""
    return torch.int32 if vocab_size > 2**16 else torch.uint16


def mixture(weights: Tensor, network: Tensor, places: np.ndarray, tables: Tables) -> Tensor:
    """Σ weights · predictions, (N, V), of the network's (N, V), in whose place they may be put, and each order's; no
    gradient for the network's."""
    if torch.is_grad_enabled() and weights.requires_grad:
        return _Mixture.apply(weights, network, places, tables)
    mixed = network.cpu().contiguous()
    tables.mix(places, weights.cpu().contiguous().numpy(), mixed.numpy())
    return mixed.to(weights.device)


class _Mixture(torch.autograd.Function):
    """`mixture`, with a gradient for the weights."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, network: Tensor, places: np.ndarray, tables: Tables) -> Tensor:
        ctx.places, ctx.tables = places, tables
        ctx.save_for_backward(network)
        return mixture(weights, network.clone(), places, tables)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:  # pyrefly: ignore
        (network,) = ctx.saved_tensors
        orders = ctx.tables.slopes(ctx.places, slope.cpu().contiguous().numpy())
        own = (slope * network).sum(dim=-1, keepdim=True)
        return torch.cat((own, torch.from_numpy(orders).to(own.device)), dim=1), None, None, None


class CountsConfig(PartConfig):
    """Base of the kinds."""

    reads_on: ClassVar[bool] = False
    """See `ModelConfig.reads_on`."""

    @property
    def before(self) -> int:
        return 0

    @property
    def held_out(self) -> float:
        """See `ModelConfig.held_out`."""
        return 0.0

    def held_out_of(self, starts: np.ndarray, size: int, *, context: int) -> np.ndarray | None:
        """See `ModelConfig.held_out_of`: here blocks all over the text."""
        share = self.held_out
        return held_out_blocks(starts, size, share=share, context=context) if share else None

    @property
    def gate_share(self) -> float:
        """See `ModelConfig.gate_share`."""
        return self.held_out

    def parameters(self, *, width: int) -> int:
        return 0

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        return 0


@register("counts")
class NoCountsConfig(CountsConfig):
    """The network alone."""

    kind: Literal["none"] = "none"

    def build(self, *, width: int, vocab_size: int) -> Counts:
        return Counts()


@register("counts")
class KneserNeyCountsConfig(CountsConfig):
    """Kneser–Ney n-grams of the training text beside the network, mixed by a gate that begins with what counting knows.
    The run holds the training text, and remembers more of it."""

    kind: Literal["kneser-ney"] = "kneser-ney"
    takes_segments: ClassVar[bool] = True
    orders: int = Field(8, ge=2, le=MOST_ORDERS)
    """The longest n-gram; every order from 1 on predicts."""
    hidden: int = Field(32, ge=1, le=MOST_HIDDEN)
    """Hidden units of the gate."""
    share: float = Field(0.04, gt=0, lt=0.5)
    """Share of the training text, and of each batch, that the gate learns from and the network does not."""
    recent: int = Field(0, ge=0, le=MOST_RECENT)
    """Tokens of the text so far that are counted too, beyond the context as well, such as 2000; 0: none."""

    @property
    def before(self) -> int:
        return max(self.orders - 1, self.recent)

    @property
    def held_out(self) -> float:
        return self.share

    def parameters(self, *, width: int) -> int:
        return self.hidden * (width + 2 * self.orders + 1) + (self.hidden + 1) * (self.orders + 1)

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        """There are two: of what the network learns from, taken as large, and of all."""
        return 2 * table_bytes(kinds(tokens, vocab_size=vocab_size, highest=self.orders))

    def build(self, *, width: int, vocab_size: int) -> Counts:
        return KneserNeyCounts(
            orders=self.orders, hidden=self.hidden, width=width, vocab_size=vocab_size, recent=self.recent
        )
