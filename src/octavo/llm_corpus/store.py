"""Where a written corpus lives until it is exported: every call, every story, every reject, each durable before it
counts.

SQLite with a write-ahead log and full synchronisation, rather than a journal of our own: a record is there whole
or not at all, "no two stories alike" and "nothing twice" are constraints of the file, and anyone can look in with
`sqlite3`. Many records go into one transaction (see `journal`), so the disk is waited for once for all of them.

A call is written down with the most that it can cost before it is sent. One whose process died keeps that cost.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.corpus.minhash import Signatures, band_keys, similarity
from octavo.errors import InputError, StorageError
from octavo.llm_corpus.calls import Batch
from octavo.util.files import written_aside
from octavo.util.records import json_text

FORMAT = 2
TABLES = """
CREATE TABLE IF NOT EXISTS facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS calls(
    call INTEGER PRIMARY KEY, number INTEGER NOT NULL, attempt INTEGER NOT NULL,
    writer TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL, prompt_hash TEXT NOT NULL, seed INTEGER NOT NULL,
    sent REAL NOT NULL, reserved INTEGER NOT NULL,
    seconds REAL, cost INTEGER, input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER,
    outcome TEXT NOT NULL, problems TEXT NOT NULL DEFAULT '[]', reply TEXT,
    not_before REAL NOT NULL DEFAULT 0, batch TEXT) STRICT;
CREATE TABLE IF NOT EXISTS batches(token TEXT PRIMARY KEY, remote TEXT) STRICT;
CREATE TABLE IF NOT EXISTS stories(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, text_hash BLOB NOT NULL UNIQUE,
    words INTEGER NOT NULL, call INTEGER NOT NULL UNIQUE REFERENCES calls(call), checks TEXT NOT NULL,
    repairs TEXT NOT NULL, seeds TEXT NOT NULL, signature BLOB) STRICT;
CREATE TABLE IF NOT EXISTS bands(key INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY(key, number)) STRICT,
WITHOUT ROWID; CREATE TABLE IF NOT EXISTS given_up(number INTEGER PRIMARY KEY, problems TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS gates(writer TEXT PRIMARY KEY, not_before REAL NOT NULL, longest REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS calls_of_story ON calls(number);
"""
SPENT = "SELECT coalesce(sum(coalesce(cost, reserved)), 0) FROM calls"
WAITING, SENT, LOST, OVERTAKEN = "waiting", "sent", "lost", "overtaken"
"""Not sent yet, but collected for a batch; sent; sent by a process that died; ended after another call for the same
story."""


@dataclass(frozen=True)
class Call:
    """A call that is about to be sent. `reserved`: picodollars; `sent`: seconds since 1970."""

    number: int
    attempt: int
    writer: str
    model: str
    prompt: str
    prompt_hash: str
    seed: int
    sent: float
    reserved: int
    outcome: str = SENT

    @property
    def id(self) -> str:
        """Its name, for the server too."""
        return f"{story_id(self.number)}.{self.attempt}"


@dataclass(frozen=True)
class Candidate:
    """A story that passed every check that needs no other story."""

    text: str
    words: int
    checks: tuple[str, ...]
    repairs: tuple[str, ...]
    seeds: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """What became of a call: the story, or why there is none; `give_up` closes its number."""

    call: int
    number: int
    seconds: float
    cost: int
    tokens: tuple[int, int, int] | None = None
    reply: str | None = None
    outcome: str = "rejected"
    problems: tuple[str, ...] = ()
    candidate: Candidate | None = None
    give_up: bool = False
    gate: tuple[str, float, float] | None = None  # writer, not before (since 1970), seconds that it asked for


class Store:
    """The database of one corpus, open for one process."""

    def __init__(self, path: Path, *, near_duplicates: float) -> None:
        self.path = path
        self._similar = Signatures(near_duplicates) if near_duplicates else None
        with storage(path):
            self._con = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
            self._con.execute("PRAGMA journal_mode=WAL")
            self._con.execute("PRAGMA synchronous=FULL")
            known = self.fact("format") if _begun(self._con) else None
            if known not in (None, FORMAT):
                raise InputError(f"{path} has format {known}; this version of Octavo reads {FORMAT}.")
            self._con.executescript(f"BEGIN IMMEDIATE; {TABLES} COMMIT;")  # all tables, or none
            self.keep_fact("format", FORMAT)

    def close(self) -> None:
        """Let go of the file."""
        self._con.close()

    def fact(self, name: str) -> Any:
        """A kept fact, or None."""
        with storage(self.path):
            row = self._con.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep_fact(self, name: str, value: Any) -> None:
        """Keep a fact that belongs to the whole."""
        text = json_text(value, ensure_ascii=False, sort_keys=True)
        with storage(self.path):
            self._con.execute("INSERT OR REPLACE INTO facts VALUES(?, ?)", (name, text))

    def apply(self, actions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run actions as one transaction; when it returns, all of them are on the disk."""
        with storage(self.path):
            self._con.execute("BEGIN IMMEDIATE")
            try:
                results = [action() for action in actions]
                self._con.execute("COMMIT")
            except BaseException:
                if self._con.in_transaction:
                    self._con.execute("ROLLBACK")
                raise
        return results

    def send(self, call: Call) -> int:
        """Write a call down; returns its number."""
        row = (call.number, call.attempt, call.writer, call.model, call.prompt, call.prompt_hash, call.seed)
        return int(
            self._con.execute(
                "INSERT INTO calls(number, attempt, writer, model, prompt, prompt_hash, seed, sent, reserved, outcome)"
                " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, call.sent, call.reserved, call.outcome),
            ).lastrowid
            or 0
        )

    def settle(self, done: Outcome) -> tuple[str, ...]:
        """Write down what became of a call. Returns why there is no story; nothing if there is one."""
        problems, outcome = done.problems, done.outcome
        closed = "SELECT 1 FROM stories WHERE number=?1 UNION ALL SELECT 1 FROM given_up WHERE number=?1"
        if self._con.execute(closed, (done.number,)).fetchone():
            problems, outcome = ("Another call for this story ended first.",), OVERTAKEN
        elif done.candidate is not None:
            problems = self._accept(done.number, done.call, done.candidate)
            outcome = "rejected" if problems else "accepted"
        self._con.execute(
            "UPDATE calls SET seconds=?, cost=?, input_tokens=?, cached_tokens=?, output_tokens=?, outcome=?,"
            " problems=?, reply=?, not_before=? WHERE call=?",
            (
                done.seconds,
                done.cost,
                *(done.tokens or (None, None, None)),
                outcome,
                _json(problems),
                done.reply,
                done.gate[1] if done.gate else 0.0,
                done.call,
            ),
        )
        if done.give_up and problems and outcome != OVERTAKEN:
            self._con.execute("INSERT OR IGNORE INTO given_up VALUES(?, ?)", (done.number, _json(problems)))
        if done.gate is not None:
            self.gate(*done.gate)
        return problems

    def gate(self, writer: str, not_before: float, longest: float) -> None:
        """No call to a writer before a time (since 1970); `longest`: the seconds that it asked for."""
        self._con.execute(
            "INSERT INTO gates VALUES(?, ?, ?) ON CONFLICT(writer) DO UPDATE SET"
            " not_before=max(not_before, excluded.not_before), longest=max(longest, excluded.longest)",
            (writer, not_before, longest),
        )

    def asked(self, batch: Batch) -> None:
        """Collected calls go out together."""
        self._con.execute("INSERT INTO batches VALUES(?, ?)", (batch.token, batch.remote))
        rows = [(batch.token, SENT, *map(int, name[6:].split("."))) for name in batch.ids]
        self._con.executemany("UPDATE calls SET batch=?, outcome=? WHERE number=? AND attempt=?", rows)

    def known(self, batch: Batch) -> None:
        """Note that the server has the batch."""
        self._con.execute("UPDATE batches SET remote=? WHERE token=?", (batch.remote, batch.token))

    def under_way(self, writer: str) -> list[tuple[Batch, list[tuple[int, Call]]]]:
        """A writer's batches of earlier processes with the calls in them that are not settled."""
        found = []
        for token, remote in self._con.execute("SELECT token, remote FROM batches ORDER BY rowid").fetchall():
            rows = self._con.execute(
                "SELECT call, number, attempt, writer, model, prompt, prompt_hash, seed, sent, reserved FROM calls"
                " WHERE batch = ? AND outcome = ? AND writer = ? ORDER BY call",
                (token, SENT, writer),
            ).fetchall()
            calls = [(row[0], Call(*row[1:])) for row in rows]
            if calls:
                found.append((Batch(token, remote, tuple(call.id for _, call in calls)), calls))
        return found

    def _accept(self, number: int, call: int, story: Candidate) -> tuple[str, ...]:
        digest = hashlib.sha256(story.text.encode()).digest()
        twin = self._con.execute("SELECT number FROM stories WHERE text_hash = ?", (digest,)).fetchone()
        if twin:
            return (f"The story is word for word number {twin[0]}.",)
        signature = self._similar.signature(story.text) if self._similar else None
        if self._similar and signature:
            near = self._nearest(signature)
            if near is not None:
                return (f"The story is nearly number {near}.",)
            keys = [(key, number) for key in band_keys(signature)]
            self._con.executemany("INSERT OR IGNORE INTO bands VALUES(?, ?)", keys)
        self._con.execute(
            "INSERT INTO stories VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(number, story_id(number), story.text, digest, story.words, call),
                *(_json(story.checks), _json(story.repairs)),
                *(json_text(story.seeds, ensure_ascii=False), signature),
            ),
        )
        return ()

    def _nearest(self, signature: bytes) -> int | None:
        assert self._similar is not None
        rows = self._con.execute(
            "SELECT number, signature FROM stories WHERE number IN"
            " (SELECT number FROM bands WHERE key IN (SELECT value FROM json_each(?))) ORDER BY number",
            (json_text(band_keys(signature)),),
        )
        return next((n for n, other in rows if similarity(signature, other) >= self._similar.threshold), None)

    def recover(self, now: float, least: float, lasting: Collection[str] = ()) -> dict[str, float]:
        """Close the calls of a process that died, each at its reserved cost. A writer that had some may have told
        it to stay away: it is left alone for the longest time that it ever asked for, at least `least` seconds, and
        no other writer is given these stories before. What `lasting` writers have in a batch is still on its way;
        what was only collected for one cost nothing. Returns until when (since 1970) each writer is left alone."""
        with storage(self.path):
            lost = self._con.execute(
                "SELECT DISTINCT writer FROM calls WHERE outcome = ? AND NOT"
                " (batch IS NOT NULL AND writer IN (SELECT value FROM json_each(?)))",
                (SENT, _json(sorted(lasting))),
            ).fetchall()
            self._con.execute("BEGIN IMMEDIATE")
            self._con.execute("UPDATE calls SET outcome=?, cost=0 WHERE outcome=?", (LOST, WAITING))
            for (writer,) in lost:
                known = self._con.execute("SELECT longest FROM gates WHERE writer = ?", (writer,)).fetchone()
                wait = max(least, known[0] if known else 0.0)
                self.gate(writer, now + wait, 0.0)
                self._con.execute(
                    "UPDATE calls SET outcome=?, cost=reserved, not_before=? WHERE outcome=? AND writer=?"
                    " AND (batch IS NULL OR NOT ?)",
                    (LOST, now + wait, SENT, writer, writer in lasting),
                )
            self._con.execute("COMMIT")
            return dict(self._con.execute("SELECT writer, not_before FROM gates").fetchall())

    def spent(self) -> int:
        """Picodollars of all calls; one that is on its way counts with its reservation."""
        return self._number(SPENT)

    def accepted(self) -> int:
        """How many stories there are."""
        return self._number("SELECT count(*) FROM stories")

    def open_numbers(self) -> tuple[list[tuple[int, int, float]], int]:
        """Numbers that were begun, have no end yet and are not on their way, each with its next attempt and the time
        (since 1970) before which no writer gets it; and the first that was never begun."""
        rows = self._con.execute(
            "SELECT number, max(attempt) + 1, max(not_before) FROM calls"
            " WHERE number NOT IN (SELECT number FROM stories) AND number NOT IN (SELECT number FROM given_up)"
            " AND number NOT IN (SELECT number FROM calls WHERE outcome = ? AND batch IS NOT NULL)"
            " GROUP BY number ORDER BY number",
            (SENT,),
        ).fetchall()
        return rows, self._number("SELECT coalesce(max(number) + 1, 0) FROM calls")

    def _number(self, query: str) -> int:
        with storage(self.path):
            return int(self._con.execute(query).fetchone()[0])


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The database for looking only; also while another process writes it. Raises InputError where none was begun."""
    with reading_if_begun(path) as con:
        if con is None:
            raise InputError(f"{path} is not there: nothing was written into this folder yet.")
        yield con


@contextmanager
def reading_if_begun(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The database as `reading` opens it; None where there is none yet, or one without tables, as a process leaves it
    that ended while it made them."""
    if not path.is_file():
        yield None
        return
    with storage(path), closing(sqlite3.connect(path, timeout=30)) as con:
        con.execute("PRAGMA query_only=ON")
        con.row_factory = sqlite3.Row
        yield con if _begun(con) else None


def prompts_in(path: Path) -> set[str]:
    """Hashes of the prompts that a database's calls were made with; none where there is no database yet."""
    with reading_if_begun(path) as con:
        rows = con.execute("SELECT DISTINCT prompt_hash FROM calls") if con else ()
        return {prompt_hash for (prompt_hash,) in rows}


def spent_in(path: Path) -> int:
    """Picodollars of all calls in a database; 0 where there is none yet."""
    with reading_if_begun(path) as con:
        return int(con.execute(SPENT).fetchone()[0]) if con else 0


def _begun(con: sqlite3.Connection) -> bool:
    """Whether its tables are there."""
    tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('facts', 'calls', 'stories', 'given_up')"
    return bool(con.execute(tables).fetchone()[0] == 4)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for writing; a second process is refused. The system lets go when a process dies, however it
    dies."""
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        con = sqlite3.connect(folder / ".lock", isolation_level=None, timeout=0)
    try:
        with storage(folder):
            try:
                con.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                raise InputError(
                    f"{folder} is being written by another process.",
                    remedy="wait until it ends; to add a key or an address, name it in the spec, under another name",
                ) from None
        yield
    finally:
        con.close()


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """A full disk, a missing right or a damaged file as a sentence."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise StorageError(f"{path} is damaged or no database: {error}.") from error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageError(
            f"{path} cannot be written: {reason}.", remedy="make room, or choose another --out"
        ) from error


def write_aside(path: Path, write: Callable[[Any], None]) -> None:
    """Write a text file next to its place and rename it: the old one or the whole new one is there, never a part."""
    with (
        storage(path),
        written_aside(path) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        write(file)


def story_id(number: int) -> str:
    """The id under which a story is exported."""
    return f"story-{number:06d}"


def _json(values: Sequence[str]) -> str:
    return json_text(list(values), ensure_ascii=False)
