"""From a spec to a corpus, against a local server that fails as real ones do: nothing lost, nothing twice, never
too dear."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.corpus.sources import FilesSource
from octavo.errors import ConfigError, InputError, OctavoError
from octavo.llm_corpus.calls import Backend, CallFailed, Reply, Request
from octavo.llm_corpus.money import PICO, Prices, Tokens
from octavo.llm_corpus.session import WritingJob, compare_prompts
from octavo.llm_corpus.spec import WritingSpec, load_spec
from octavo.llm_corpus.writer import WritersGone
from octavo.synthetic.storyteller import Storyteller

Make = Callable[..., WritingSpec]
FAULTS = {
    "429": 0.05,
    "500": 0.05,
    "timeout": 0.01,
    "cut": 0.06,
    "wrong_json": 0.05,
    "empty": 0.04,
    "html": 0.04,
    "length": 0.02,
    "bad_story": 0.1,
}


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def holders(folder: Path, secret: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("stream", [False, True])
def test_a_failing_server_and_exactly_so_many_stories(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, stream: bool
) -> None:
    with fake(
        faults=FAULTS, key=key, retry_after=(0.05, 0.2), dates=0 if stream else 0.3, seed=stream
    ) as server:
        spec = spec_for(server.url, server.url, writer={"stream": stream, "timeout": 2})
        result = WritingJob(spec, tmp_path / "out", stories=120, max_usd=5).run()
        ledger, whole = server.ledger(), {c["text"] for c in server.calls if c["fault"] == ""}
    found = records(tmp_path / "out")
    assert result["ended"] == "stories"
    assert len(found) == len({r["id"] for r in found}) == len({r["text"] for r in found}) == 120
    assert all(record["text"] in whole for record in found)
    assert ledger["early"] == 0
    assert ledger["billed"] <= result["spent_usd"] * PICO + 1 and result["spent_usd"] <= 5
    report = result["report"]
    assert (
        report["calls"] == ledger["calls"]
        and report["rejects"]["Not in the vocabulary"] == ledger["faults"]["bad_story"]
    )
    assert holders(tmp_path, key) == []


def test_the_export_is_a_corpus_that_the_reader_cuts(tmp_path: Path) -> None:
    WritingJob(load_spec("pidgin-storyteller"), tmp_path, stories=12).run()
    source = FilesSource(paths=(str(tmp_path / "corpus.txt"),)).build()
    texts = ["".join(document.pieces) for document in source.documents()]
    assert texts == [record["text"] for record in records(tmp_path)]
    assert set(texts) <= {story["text"] for story in records(tmp_path)} and len(texts) == 12
    first = records(tmp_path)[0]
    assert first["id"] == "story-000000" and first["model"] == "storyteller" and first["cost_usd"] == 0
    assert first["seeds"].keys() == load_spec("pidgin-storyteller").diversity.keys()
    assert len(first["prompt_hash"]) == 16 and first["checks"][0] == "pidgin"


def test_it_goes_on_where_it_was_and_the_stories_are_the_same(tmp_path: Path) -> None:
    spec = load_spec("pidgin-storyteller")
    WritingJob(spec, tmp_path / "whole", stories=40).run()
    for stories in (7, 7, 25, 40):
        result = WritingJob(spec, tmp_path / "parts", stories=stories).run()
        assert result["stories"] == stories
    assert records(tmp_path / "parts") == records(tmp_path / "whole")


def test_the_cap_ends_it_and_more_money_goes_on(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(faults={"cut": 0.2}, key=key) as server:
        result = WritingJob(spec_for(server.url), tmp_path, stories=500, max_usd=0.03).run()
        assert result["ended"] == "budget" and 0 < result["stories"] < 500
        assert server.billed <= result["spent_usd"] * PICO + 1 <= 0.03 * PICO + 1
        again = WritingJob(spec_for(server.url), tmp_path, stories=500, max_usd=0.03).run()
        assert again["ended"] == "budget" and again["spent_usd"] <= 0.03
        more = WritingJob(spec_for(server.url), tmp_path, stories=result["stories"] + 5, max_usd=1).run()
        assert more["ended"] == "stories"


def test_a_cap_of_nothing_sends_nothing(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key) as server:
        assert WritingJob(spec_for(server.url), tmp_path, stories=5, max_usd=0).run()["ended"] == "budget"
        assert server.calls == []


def test_money_needs_a_cap_and_a_cap_needs_prices(tmp_path: Path, spec_for: Make) -> None:
    with pytest.raises(ConfigError, match="no cap"):
        WritingJob(spec_for("https://x/v1"), tmp_path, stories=5)
    with pytest.raises(ConfigError, match="no prices for w0"):
        WritingJob(spec_for("https://x/v1", writer={"prices": None}), tmp_path, stories=5, max_usd=1)


def test_a_reply_that_fails_is_asked_again_with_what_was_wrong(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    good = Storyteller(4).story(9).text

    def story(_: int, said: str) -> str:
        return good if "zeppelin." in said else good.replace("the end.", "zeppelin sit. the end.")

    with fake(key=key, story=story) as server:
        result = WritingJob(spec_for(server.url), tmp_path, stories=1, max_usd=1).run()
        first, second = (call["request"]["messages"] for call in server.calls)
    assert len(first) == 2 and second[:2] == first and "zeppelin" in second[2]["content"]
    assert "Not in the vocabulary: zeppelin." in second[3]["content"]
    assert result["report"]["rejects"] == {"Not in the vocabulary": 1} and result["report"]["yield"] == 0.5
    assert records(tmp_path)[0]["calls"] == 2


def test_a_story_is_given_up_after_its_tries(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    good = [story.text for story in Storyteller(4).stories(20)]

    def story(number: int, _: str) -> str:
        return "no. the end." if number < 4 else good[number]

    with fake(key=key, story=story) as server:
        spec = spec_for(server.url, writer={"in_flight": 1}, rules={"tries": 2})
        report = WritingJob(spec, tmp_path, stories=3, max_usd=1).run()["report"]
    assert report["given_up"] == 2 and report["stories"] == 3
    assert [record["id"] for record in records(tmp_path)] == ["story-000002", "story-000003", "story-000004"]


def test_near_duplicates_are_refused(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    good = [story.text for story in Storyteller(4).stories(3)]

    def story(number: int, _: str) -> str:
        return (
            good[number // 2 % 3]
            if number % 2
            else good[number // 2 % 3].replace(" the end.", " now they sit. the end.")
        )

    with fake(key=key, story=story) as server:
        spec = spec_for(server.url, writer={"in_flight": 1}, rules={"near_duplicates": 0.7})
        report = WritingJob(spec, tmp_path, stories=3, max_usd=1).run()["report"]
    assert report["rejects"]["The story is nearly number n"] >= 2 and report["near_duplicates"] == 0


class Noting(Backend):
    """Answers at once, or says once that it wants rest; notes what was asked when."""

    prices = Prices(input=1, output=1)
    model = "noting"

    def __init__(self, rest: float = 0.0, in_flight: int = 1) -> None:
        self.rest, self.in_flight = rest, in_flight
        self.asked: list[tuple[str, float]] = []
        self.until = 0.0

    async def write(self, request: Request) -> Reply:
        self.asked.append((request.id, time.time()))
        if self.rest:
            wait, self.rest = self.rest, 0.0
            self.until = time.time() + wait
            raise CallFailed("throttled", "slow down", wait=wait)
        await asyncio.sleep(0.001)
        return Reply(Storyteller(3).story(request.seed).text, "stop", Tokens(9, 0, 9))


def test_the_time_that_a_server_names_holds_for_all_calls_to_it(tmp_path: Path, spec_for: Make) -> None:
    one = Noting(rest=0.4)
    WritingJob(spec_for("https://x/v1"), tmp_path, stories=5, max_usd=1).run(backends={"w0": one})
    assert len(one.asked) == 6 and all(at >= one.until for _, at in one.asked[1:])


@pytest.mark.parametrize("died", [False, True])
def test_it_holds_over_a_restart_and_the_story_is_given_to_nobody_else_before(
    tmp_path: Path, spec_for: Make, monkeypatch: pytest.MonkeyPatch, died: bool
) -> None:
    monkeypatch.setattr("octavo.llm_corpus.writer.LOST_WAIT", 0.1)
    first, spec = Noting(rest=1.5), spec_for("https://x/v1", "https://x/v1")
    with contextlib.suppress(OctavoError):
        WritingJob(spec, tmp_path, stories=40, max_usd=1).run(
            backends={"w0": first}, stop=lambda: bool(first.until)
        )
    if died:  # with a second call on its way, of which nobody knows what became
        with sqlite3.connect(tmp_path / "stories.sqlite") as con:
            con.execute("UPDATE calls SET outcome='sent', cost=NULL, not_before=0")
        con.close()
        first.until = time.time() + 1.4  # the longest rest that it ever asked for, from the restart on
    w0, w1 = Noting(in_flight=4), Noting(in_flight=4)
    WritingJob(spec, tmp_path, stories=40, max_usd=1).run(backends={"w0": w0, "w1": w1})
    assert first.asked[0][0] == "story-000000.0"
    assert all(at >= first.until for _, at in w0.asked)
    again = [at for name, at in w0.asked + w1.asked if name == "story-000000.1"]
    assert len(again) == 1 and again[0] >= first.until
    assert any(at < first.until for _, at in w1.asked)  # it had better things to do


def test_a_wrong_key_ends_it_with_what_the_server_said(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key="sk-another") as server, pytest.raises(WritersGone) as gone:
        WritingJob(spec_for(server.url), tmp_path, stories=5, max_usd=1).run()
    assert "HTTP 401" in str(gone.value) and key not in str(gone.value) and "[key]" in str(gone.value)
    assert holders(tmp_path, key) == []
    assert (tmp_path / "report" / "index.html").is_file()


def test_an_address_where_nobody_is(tmp_path: Path, spec_for: Make, key: str) -> None:
    with pytest.raises(WritersGone, match=r"127\.0\.0\.1:9"):
        WritingJob(spec_for("http://127.0.0.1:9/v1"), tmp_path, stories=5, max_usd=1).run()


class Waking(Backend):
    """Fails all that it is asked in its first moment, as a server does that is still loading its model."""

    prices = Prices(input=1, output=1)
    model = "waking"
    in_flight = 8

    def __init__(self) -> None:
        self.failed = 0

    async def write(self, request: Request) -> Reply:
        if self.failed < self.in_flight:
            self.failed += 1
            await asyncio.sleep(0.1)
            raise CallFailed("timeout", "no whole answer")
        return Reply(Storyteller(3).story(request.seed).text, "stop", Tokens(9, 0, 9))


def test_calls_that_fail_together_are_one_failure(tmp_path: Path, spec_for: Make) -> None:
    writer = Waking()
    result = WritingJob(spec_for("https://x/v1"), tmp_path, stories=10, max_usd=1).run(
        backends={"w0": writer}
    )
    assert result["ended"] == "stories" and writer.failed == 8


def test_one_writer_gone_the_other_goes_on(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key) as server, fake(key="sk-another") as closed:
        result = WritingJob(spec_for(server.url, closed.url), tmp_path, stories=30, max_usd=1).run()
    assert result["ended"] == "stories"
    assert {w["writer"]: w["stories"] for w in result["report"]["writers"]} == {"w0": 30, "w1": 0}


def test_a_second_key_can_join(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key, seconds=0.02) as server:
        WritingJob(spec_for(server.url), tmp_path, stories=10, max_usd=1).run()
        result = WritingJob(spec_for(server.url, server.url), tmp_path, stories=60, max_usd=1).run()
    shares = {w["writer"]: w["stories"] for w in result["report"]["writers"]}
    assert shares["w0"] >= 10 and shares["w1"] > 0 and sum(shares.values()) == 60


def test_a_server_that_allows_few_is_given_few(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key, most=3, seconds=0.02, retry_after=(0.02, 0.05), dates=0) as server:
        result = WritingJob(spec_for(server.url), tmp_path, stories=40, max_usd=1).run()
        assert result["stories"] == 40 and server.ledger()["early"] == 0
    assert result["session"]["failures"]["throttled"] < 60


def test_the_hours_end_it(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key, seconds=0.1) as server:
        job = WritingJob(spec_for(server.url), tmp_path, stories=10_000, max_usd=50, max_hours=1 / 3600)
        result = job.run()
    assert result["ended"] == "hours" and 0 < result["stories"] < 10_000
    assert sqlite3.connect(job.store).execute(
        "SELECT count(*) FROM calls WHERE outcome='sent'"
    ).fetchone() == (0,)


def test_the_user_ends_it(tmp_path: Path) -> None:
    asked: list[int] = []
    job = WritingJob(load_spec("pidgin-storyteller"), tmp_path, stories=10**6)
    result = job.run(tell=lambda progress: asked.append(progress.stories), stop=lambda: len(asked) > 3)
    assert result["ended"] == "stopped" and 0 < len(records(tmp_path)) == result["stories"]


def test_outside_the_cheap_hours_nothing_is_sent(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    hour = time.gmtime().tm_hour
    later = f"{(hour + 5) % 24}:00-{(hour + 6) % 24}:00@UTC"
    with fake(key=key) as server:
        job = WritingJob(
            spec_for(server.url), tmp_path, stories=5, max_usd=1, max_hours=0.5 / 3600, off_peak=later
        )
        notes: list[str] = []
        assert job.run(tell=lambda progress: notes.append(progress.line()))["ended"] == "hours"
        assert server.calls == [] and "cheap hours begin in" in notes[-1]
        now = WritingJob(
            spec_for(server.url),
            tmp_path,
            stories=5,
            max_usd=1,
            off_peak=f"{hour}:00-{(hour + 2) % 24}:00@UTC",
        )
        assert now.run()["stories"] == 5


def test_other_rules_need_another_folder(tmp_path: Path, spec_for: Make) -> None:
    spec = load_spec("pidgin-storyteller")
    WritingJob(spec, tmp_path, stories=3).run()
    with pytest.raises(ConfigError, match="rules differ"):
        WritingJob(load_spec("pidgin-storyteller", ["rules.words=[50, 200]"]), tmp_path, stories=5).run()
    assert (
        WritingJob(load_spec("pidgin-storyteller", ["prompt=pidgin-short"]), tmp_path, stories=5).run()[
            "stories"
        ]
        == 5
    )


def test_prompts_are_compared_under_one_cap(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    teller = Storyteller(2)

    def story(number: int, said: str) -> str:
        text = teller.story(number).text
        return text if "EXAMPLES" in said or number % 2 else text + " zeppelin sit."

    with fake(key=key, story=story) as server:
        spec = spec_for(server.url, rules={"repair": []})
        result = compare_prompts(WritingJob(spec, tmp_path, stories=12, max_usd=1))
        assert server.billed <= result["spent_usd"] * PICO + 2 <= PICO
    long, short = result["prompts"]
    assert (long["prompt"], short["prompt"]) == ("pidgin", "pidgin-short")
    assert long["yield"] == 1 and short["yield"] < 1 and long["stories"] == short["stories"] == 12
    assert short["cost_per_story_usd"] > 0 and 0 < long["distinct"]["2"] <= 1


def test_the_price_before_the_run_becomes_the_measured_one(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key) as server:
        job = WritingJob(spec_for(server.url), tmp_path, stories=1000, max_usd=5)
        before = job.estimate()
        assert not before.measured and before.usd and 0.1 < before.usd < 10
        WritingJob(spec_for(server.url), tmp_path, stories=100, max_usd=5).run()
        after = job.estimate()
        true = server.billed / PICO / len(server.calls) * 1000
    assert after.measured and after.usd == pytest.approx(true, rel=0.02)
    assert "cap of $0.0100 is enough for about" in after.sentence(PICO // 100)


def test_a_spec_with_a_free_vocabulary_collects_any_words(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    texts = [story.text.replace("the end.", "pelican sit. the end.") for story in Storyteller(4).stories(20)]
    with fake(key=key, story=lambda number, _: texts[number]) as server:
        spec = spec_for(server.url, rules={"checker": "plain", "vocabulary": "free"})
        report = WritingJob(spec, tmp_path, stories=10, max_usd=1).run()["report"]
    assert report["yield"] == 1 and "size" not in report["vocabulary"] and report["vocabulary"]["used"] > 100


def test_the_page_stands_alone_and_is_escaped(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    text = "<script>alert(1)</script> " + "cat sit. " * 40
    with fake(key=key, story=lambda number, _: f"{text} {number}.") as server:
        rules = {"checker": "plain", "vocabulary": "free", "ending": "", "cleaning": [], "repair": []}
        WritingJob(spec_for(server.url, rules=rules), tmp_path, stories=3, max_usd=1).run()
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "http://" not in page and "https://" not in page and "src=" not in page
    assert json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))["stories"] == 3


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"stories": 0}, "at least one"),
        ({"max_usd": -1}, "cap"),
        ({"max_hours": 0}, "time"),
        ({"off_peak": "x"}, "hours"),
    ],
)
def test_wrong_options_are_sentences(tmp_path: Path, options: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        WritingJob(load_spec("pidgin-storyteller"), tmp_path, **{"stories": 5, **options})
