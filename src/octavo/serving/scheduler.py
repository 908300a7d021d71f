"""Which tokens are computed next: texts join and leave between steps, and share a decoder's slots.

A pure object: no threads, no clock. `submit` and `cancel` between two steps, `step` writes one token in each text whose
prompt is read. Prompts are read in parts, so that others do not wait for a long one; what another slot holds already is
copied and not read again. Whatever the company, a text has the bits that it has alone.
V vocabulary.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from octavo.generation.decoder import Decoder
from octavo.generation.drafts import Drafts
from octavo.generation.sampling import Sampling, log_probabilities
from octavo.generation.streams import Stream, as_array, seen_ahead

Place = tuple["Job", Sequence[int]]
"""Of a text, after some tokens of its draft."""
PART = 64
"""Ids of prompts that are read in a step, at most, where a decoder reads in parts."""
WORTH_SHARING = 8
"""Ids of a prompt that are copied from another slot, at least."""


@dataclass
class Scores:
    """What the model thought of some tokens, one after the other.

    Attributes:
        log_probabilities: in nats, before temperature and all else; None of a text's first token.
        best: ids and log-probabilities of the most probable tokens at each place.
        whole: (V,) float32, the log-probabilities of all tokens, at each place but a text's first.
    """

    log_probabilities: list[float | None] = field(default_factory=list)
    best: list[tuple[list[int], list[float]]] = field(default_factory=list)
    whole: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Adjustment:
    """What is added to logits before a token is chosen: a bias, and less for what was written."""

    bias: Mapping[int, float] = field(default_factory=dict)
    presence: float = 0.0
    frequency: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.bias or self.presence or self.frequency)

    def apply(self, logits: np.ndarray, written: Sequence[int]) -> None:
        """Change a row of logits (V,) in place."""
        for token, times in Counter(written).items():
            logits[token] -= self.presence + self.frequency * times
        for token, bias in self.bias.items():
            logits[token] += bias


@dataclass(eq=False)
class Job:
    """A text to be written.

    Attributes:
        owner: whose it is; slots are given to owners in turn.
        best: how many of the most probable tokens are kept of each place; None: nothing is.
        whole: whether all log-probabilities are kept.
        with_prompt: whether the same is kept of the prompt.
        writes: whether anything follows the prompt.
        shared: how many ids of the prompt another text had read.
    """

    stream: Stream
    sampling: Sampling
    owner: Hashable = None
    adjustment: Adjustment = field(default_factory=Adjustment)
    best: int | None = None
    whole: bool = False
    with_prompt: bool = False
    writes: bool = True
    scores: Scores = field(default_factory=Scores)
    prompt_scores: Scores = field(default_factory=Scores)
    shared: int = 0

    def __post_init__(self) -> None:
        self.prompt = tuple(self.stream.prompt)
        self.kept = self.best is not None or self.whole
        self.adjusted = bool(self.adjustment)

    def keep(self, into: Scores, logs: np.ndarray, log_probability: float) -> None:
        """Note a token whose place had the log-probabilities `logs` (V,)."""
        into.log_probabilities.append(log_probability)
        ids = np.argsort(-logs, kind="stable")[: self.best] if self.best else np.empty(0, np.intp)
        into.best.append((ids.tolist(), logs[ids].tolist()))
        if self.whole:
            into.whole.append(logs.copy())


@dataclass(eq=False)
class _Slot:
    """A slot of the decoder.

    Attributes:
        read: how much of the job's prompt it holds; None: it has not begun.
        known: a prompt that it holds at its beginning, and the logits (V,) after it.
        used: the step in which it was last written to.
    """

    number: int
    job: Job | None = None
    read: int | None = None
    known: tuple[tuple[int, ...], np.ndarray] | None = None
    used: int = 0

    @property
    def reads(self) -> bool:
        return self.job is not None and (self.read is None or self.read < len(self.job.prompt))


class Scheduler:
    """The texts of a model that wait, are read and are written.

    `drafts`: guesses at what comes next, so that a step may write several tokens.

    Attributes:
        counts: ids of prompts that were `read` and `shared`, and tokens that were `written`.
    """

    def __init__(self, decoder: Decoder, drafts: Drafts | None = None, *, part: int = PART) -> None:
        self.decoder, self.part, self._drafts = decoder, part, drafts
        self.counts: Counter[str] = Counter(read=0, shared=0, written=0)
        self._slots = [_Slot(number) for number in range(decoder.slots)]
        self._readers: list[_Slot] = []  # in the order in which they were admitted
        self._writers: dict[int, _Slot] = {}
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._active: Counter[Hashable] = Counter()
        self._seen: dict[Job, np.ndarray] = {}  # (V,) what a repetition penalty is for
        self._samplings: WeakValueDictionary[Sampling, Sampling] = (
            WeakValueDictionary()
        )  # equal ones are the same
        self._steps = 0

    def __len__(self) -> int:
        """How many are under way or wait."""
        return self.waiting + self.active

    @property
    def waiting(self) -> int:
        """How many have no slot yet."""
        return sum(map(len, self._waiting.values()))

    @property
    def active(self) -> int:
        """How many have one."""
        return sum(self._active.values())

    @property
    def busy(self) -> list[bool]:
        """Of each slot whether it has a text."""
        return [slot.job is not None for slot in self._slots]

    def submit(self, job: Job) -> None:
        """Let a text wait for a slot. Raises ValueError for a prompt that is empty, or longer than the context."""
        if not 0 < len(job.prompt) <= self.decoder.context:
            raise ValueError(f"{len(job.prompt)} ids are no prompt for a context of {self.decoder.context}")
        job.sampling = self._samplings.setdefault(job.sampling, job.sampling)
        self._waiting.setdefault(job.owner, deque()).append(job)

    def cancel(self, job: Job) -> None:
        """Nothing is computed for this text any more."""
        for slot in self._slots:
            if slot.job is job:
                self._leave(slot)
        if job in (queue := self._waiting.get(job.owner, deque())):
            queue.remove(job)
            if not queue:
                del self._waiting[job.owner]

    def step(self) -> list[tuple[Job, str]]:
        """Read some of the prompts, and write at least one token in each text whose prompt is read. Returns those with
        the text that each lets out; whose `stream` is not `open` any more has left."""
        self._steps += 1
        self._admit()
        drafted = self._drafts if self._writers and not self._readers else None
        drafts: Mapping[int, Sequence[int]] = {}
        if drafted is not None and drafted.begin(len(self._writers)):
            drafts = drafted.propose(
                {number: slot.job.stream for number, slot in self._writers.items() if slot.job is not None}
            )
        slots, logits = self._computed(drafts)
        told = [
            (slot.job, _ended(slot.job)) for slot in slots if slot.job is not None and not slot.job.writes
        ]
        if told:
            rows = [row for row, slot in enumerate(slots) if slot.job is not None and slot.job.writes]
            for slot in slots:
                if slot.job is not None and not slot.job.writes:
                    self._leave(slot)
            slots, logits = [slots[row] for row in rows], logits[rows]
        told += self._write(slots, logits, drafts) if slots else []
        if drafted is not None:
            drafted.end()
        return told

    # Who comes next

    def _admit(self) -> None:
        """Give free slots to those that wait: first to owners that have the fewest, then to those that came first."""
        free = [slot for slot in self._slots if slot.job is None] if self._waiting else []
        while self._waiting and free:
            owner = min(self._waiting, key=lambda owner: self._active[owner])
            job = self._waiting[owner].popleft()
            if not self._waiting[owner]:
                del self._waiting[owner]
            slot = self._place_for(job, free)
            free.remove(slot)
            slot.job, slot.read = job, None
            self._readers.append(slot)
            self._active[owner] += 1

    def _place_for(self, job: Job, free: Sequence[_Slot]) -> _Slot:
        """A slot all of whose text the prompt goes on from, else the one that has been free the longest."""
        alike, held = self.decoder.alike(job.prompt), self.decoder.lengths
        whole = [slot for slot in free if alike[slot.number] == held[slot.number] >= WORTH_SHARING]
        if whole:
            return max(whole, key=lambda slot: held[slot.number])
        return min(free, key=lambda slot: slot.used)

    def _leave(self, slot: _Slot) -> None:
        """A text ends; what the slot holds stays, for prompts that begin alike."""
        job = slot.job
        assert job is not None
        slot.job, slot.used = None, self._steps
        self._seen.pop(job, None)
        if self._writers.pop(slot.number, None) is None:
            self._readers.remove(slot)
        self._active[job.owner] -= 1
        if not self._active[job.owner]:
            del self._active[job.owner]

    # What is computed

    def _computed(self, drafts: Mapping[int, Sequence[int]]) -> tuple[list[_Slot], np.ndarray]:
        """The slots that know what comes next, and their logits (n, V), at each place of their drafts."""
        feeds: dict[int, Sequence[int]] = {}
        for slot in self._writers.values():
            assert slot.job is not None
            ids = slot.job.stream.sample.ids
            feeds[slot.number] = ids[-1:]
            if len(slot.job.prompt) + len(ids) > self.decoder.context:
                slot.known = None  # its window slides
        if drafts:  # then nothing else is read
            ahead = {number: (*ids, *drafts.get(number, ())) for number, ids in feeds.items()}
            return [*self._writers.values()], as_array(self.decoder.feed(ahead, ahead=drafts))
        if not self._readers:  # which is nearly always so, and faster
            found = as_array(self.decoder.feed(feeds)) if feeds else np.empty(0, np.float32)
            return [*self._writers.values()], found
        rows, read = self._parts()
        for slot, part in read:
            assert slot.job is not None
            if slot.job.with_prompt:
                rows[slot.number] = self._score(slot, slot.job, part)[-1]
            else:
                feeds[slot.number] = part
        if feeds:
            rows |= zip(feeds, as_array(self.decoder.feed(feeds)), strict=True)
        for slot, part in read:
            assert slot.job is not None and slot.read is not None
            slot.read += len(part)
            self.counts["read"] += len(part)
            if slot.reads:
                del rows[slot.number]
            elif len(slot.job.prompt) < self.decoder.context:
                slot.known = slot.job.prompt, rows[slot.number].copy()
        self._writers |= {slot.number: slot for slot in self._readers if not slot.reads}
        self._readers = [slot for slot in self._readers if slot.reads]
        found = np.stack([*rows.values()]) if rows else np.empty(0, np.float32)
        return [self._slots[number] for number in rows], found

    def _parts(self) -> tuple[dict[int, np.ndarray], list[tuple[_Slot, Sequence[int]]]]:
        """Slots that hold their whole prompt by a copy, and the logits (V,) after it; and what others read next."""
        copied: dict[int, np.ndarray] = {}
        read: list[tuple[_Slot, Sequence[int]]] = []
        room = self.part
        for place, slot in enumerate(self._readers):
            job = slot.job
            assert job is not None
            if slot.read is None:
                if self._comes_soon(job, self._readers[:place]):
                    continue
                if (row := self._begin(slot, job)) is not None:
                    slot.read, copied[slot.number] = len(job.prompt), row
                    continue
            assert slot.read is not None
            rest = job.prompt[slot.read :]
            if self.decoder.in_parts:
                rest = rest[:room]
            elif read and len(rest) > room:
                continue
            if rest:
                read.append((slot, rest))
                room = max(0, room - len(rest))
        return copied, read

    def _comes_soon(self, job: Job, earlier: Sequence[_Slot]) -> bool:
        """Whether another is about to read what this prompt begins with."""
        if job.with_prompt:
            return False
        for slot in earlier:
            assert slot.job is not None
            alike = _alike(slot.job.prompt, job.prompt)
            if slot.job.prompt != job.prompt and (not self.decoder.in_parts or alike < WORTH_SHARING):
                continue
            if (slot.read or 0) < alike:
                return True
        return False

    def _begin(self, slot: _Slot, job: Job) -> np.ndarray | None:
        """Take over what any slot holds of a prompt. Returns the logits (V,) after it where nothing is left to read."""
        sources = [] if job.with_prompt else [slot, *(one for one in self._slots if one is not slot)]
        for source in sources:
            if source.known is not None and source.known[0] == job.prompt:
                row = source.known[1]
                self._take_over(slot, job, source, len(job.prompt))
                slot.known = job.prompt, row
                return row
        alike = self.decoder.alike(job.prompt)
        source = max(sources, key=lambda one: alike[one.number], default=slot)
        shared = int(alike[source.number]) if sources and self.decoder.in_parts else 0
        shared = min(shared, len(job.prompt) - 1)
        slot.known = None
        self._take_over(slot, job, source, shared if shared >= WORTH_SHARING else 0)
        return None

    def _take_over(self, slot: _Slot, job: Job, source: _Slot, first: int) -> None:
        if not first:
            self.decoder.free(slot.number)
        elif source is slot:
            self.decoder.keep_first(slot.number, first)
        else:
            self.decoder.copy(source.number, [slot.number], first=first)
        slot.read = job.shared = first
        self.counts["shared"] += first

    def _score(self, slot: _Slot, job: Job, part: Sequence[int]) -> np.ndarray:
        """Read a part of a prompt, and note what the model thought of each token. Returns the logits (n, V)."""
        logits = as_array(self.decoder.feed_each(slot.number, part))
        logs = log_probabilities(logits)
        scores = job.prompt_scores
        if not scores.log_probabilities:
            scores.log_probabilities.append(None)
            scores.best.append(([], []))
        rest = job.prompt[len(scores.log_probabilities) :]
        for token, row in zip(rest, logs, strict=False):
            job.keep(scores, row, float(row[token]))
        return logits

    # What is written

    def _write(
        self, slots: Sequence[_Slot], logits: np.ndarray, drafts: Mapping[int, Sequence[int]]
    ) -> list[tuple[Job, str]]:
        jobs = [slot.job for slot in slots if slot.job is not None]
        places: list[Place] = [(job, ()) for job in jobs]
        if drafts:
            own = [drafts.get(slot.number, ()) for slot in slots]
            places = [
                (job, draft[:at])
                for job, draft in zip(jobs, own, strict=True)
                for at in range(len(draft) + 1)
            ]
        uniform = np.array([job.stream.uniforms(len(before) + 1)[-1] for job, before in places])
        chosen = self._chosen(places, logits, uniform)
        logs = log_probabilities(logits)
        tokens, known = chosen.tolist(), logs[np.arange(len(chosen)), chosen].tolist()
        told, row = [], 0
        for slot, job in zip(slots, jobs, strict=True):
            first, draft, stream = row, drafts.get(slot.number, ()), job.stream
            if draft:
                row += 1 + len(draft)
                count, text = stream.follow(draft, tokens[first:row], known[first:row])
                self.decoder.take_back(slot.number, row - first - count)
            else:
                row, count, text = row + 1, 1, stream.take(tokens[first], known[first])
            if job.kept:
                for at in range(first, first + count):
                    job.keep(job.scores, logs[at], known[at])
            if self._seen and (seen := self._seen.get(job)) is not None:
                seen[tokens[first : first + count]] = True
            told.append((job, text))
            self.counts["written"] += count
            if not stream.open:
                self._leave(slot)
        return told

    def _chosen(self, places: Sequence[Place], logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """A token for each place of each text; those that are sampled alike are sampled together."""
        groups: dict[int, list[int]] = {}
        adjusted = []
        for row, (job, _) in enumerate(places):
            groups.setdefault(id(job.sampling), []).append(row)
            if job.adjusted:
                adjusted.append(row)
        if adjusted:
            logits = logits.copy()
            for row in adjusted:
                job, before = places[row]
                job.adjustment.apply(logits[row], [*job.stream.sample.ids, *before])
        if len(groups) == 1:  # which is often so, and faster
            return self._choose(places, logits, uniform)
        chosen = np.empty(len(places), np.int64)
        for rows in groups.values():
            chosen[rows] = self._choose([places[row] for row in rows], logits[rows], uniform[rows])
        return chosen

    def _choose(self, places: Sequence[Place], logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        sampling, seen = places[0][0].sampling, None
        if sampling.repetition_penalty != 1.0:
            seen = np.stack([seen_ahead(self._seen_by(job), before)[-1] for job, before in places])
        return sampling.choose(logits, uniform, seen)

    def _seen_by(self, job: Job) -> np.ndarray:
        if job not in self._seen:
            seen = self._seen[job] = np.zeros(self.decoder.vocabulary, bool)
            seen[list(job.prompt)] = True
        return self._seen[job]


def _ended(job: Job) -> str:
    """A text that has only a prompt ends with it."""
    job.stream.open = False
    job.stream.sample.finish = "length"
    return ""


def _alike(held: Sequence[int], prompt: Sequence[int]) -> int:
    """How many ids two texts begin with alike."""
    length = min(len(held), len(prompt))
    differ = np.flatnonzero(np.asarray(held[:length]) != np.asarray(prompt[:length]))
    return int(differ[0]) if len(differ) else length


def running(scheduler: Scheduler) -> Iterator[tuple[Job, str]]:
    """Step until nothing is left."""
    while len(scheduler):
        yield from scheduler.step()
