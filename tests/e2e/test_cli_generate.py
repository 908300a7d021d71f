"""Prompts from a file, corrections and speakers, through the command line."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from e2e.asking import refused, train
from e2e.forked import Octavo


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to write into."""
    shutil.copytree(finished, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "two.txt"
    path.write_text("# two\nthe \n\nwho\\nsaw\n")
    return path


@pytest.fixture
def languagetool() -> Iterator[str]:
    """A server that finds fault with the first two characters, and breaks at the third text."""
    count = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            count[0] += 1
            self.rfile.read(int(self.headers["Content-Length"]))
            found = [
                {"offset": at, "length": 1, "replacements": [{"value": "Z"}], "rule": {"id": "Z"}}
                for at in (0, 9)
            ]
            body = json.dumps({"matches": found}).encode() if count[0] < 3 else b"broken"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_prompts_become_a_table_that_is_kept_and_reported(octavo: Octavo, run: Path, prompts: Path) -> None:
    shown = octavo("generate", run, "--prompts", prompts, "--samples", 2, "--tokens", 9)
    assert shown.code == 0, shown.err
    assert "who\\nsaw" in shown.out and "two.md" in shown.out
    kept = json.loads((run / "prompts" / "two.json").read_text())
    assert [row["prompt"] for row in kept["prompts"]] == ["the ", "who\nsaw"]
    alone = octavo("generate", run, "--prompt", "the ", "--samples", 2, "--tokens", 9, "--json")
    texts = [sample["text"] for sample in json.loads(alone.out)["samples"]]
    assert [sample["text"] for sample in kept["prompts"][0]["samples"]] == texts
    table = (run / "prompts" / "two.md").read_text()
    assert "| the  | 1 |" in table and "| who<br>saw | 1 |" in table and len(table.splitlines()) == 10
    page = (run / "report" / "index.html").read_text()
    assert "two" in page and kept["prompts"][1]["samples"][1]["text"].split()[0] in page
    again = json.loads(
        octavo("generate", run, "--prompts", prompts, "--samples", 2, "--tokens", 9, "--json").out
    )
    assert again["prompts"] == kept["prompts"] and again["name"] == "two"
    other = octavo("generate", run, "--prompts", prompts, "--tokens", 9, "--temperature", 0.5, "--json")
    assert json.loads(other.out)["name"] == "two-2"
    assert json.loads((run / "prompts" / "two.json").read_text()) == kept, "another table has another name"


def test_bfloat16_is_asked_for_and_near(octavo: Octavo, run: Path) -> None:
    asked = ("generate", run, "--prompt", "the ", "--tokens", 1, "--temperature", 0, "--json")
    first, second = (
        json.loads(octavo(*asked, "--precision", precision).out)["samples"][0]["tokens"][0]
        for precision in ("float32", "bfloat16")
    )
    assert first["log_probability"] != second["log_probability"]
    assert first["log_probability"] == pytest.approx(second["log_probability"], abs=0.05)


def test_words_that_the_text_never_had_are_shown_as_a_diff(octavo: Octavo, run: Path) -> None:
    asked = (
        "generate",
        run,
        "--prompt",
        "xqz fix ",
        "--tokens",
        60,
        "--temperature",
        2,
        "--correct",
        "vocabulary",
    )
    refused(octavo(*asked), "lacks", "q")
    asked = ("generate", run, "--prompt", "fix ", *asked[4:])
    shown = octavo(*asked)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("fix ")  # the prompt is not the model's, so it stays
    assert "closest word" in shown.out and "words changed" in shown.out
    sample = json.loads(octavo(*asked, "--json").out)["samples"][0]
    correction = sample["correction"]
    assert correction["known_before"] < correction["known_after"] == 1.0
    for change in correction["changes"]:
        assert sample["text"][change["start"] : change["end"]] == change["before"]
    assert octavo(*asked[:-2], "--json").out != "" and sample["text"] != correction["corrected"]


def test_the_words_stay_known_when_the_text_is_gone(octavo: Octavo, tmp_path: Path) -> None:
    text = tmp_path / "gone.txt"
    shutil.copy(octavo.folder / "text.txt", text)
    assert train(octavo, tmp_path / "run", text=str(text)).code == 0
    asked = ("generate", tmp_path / "run", "--tokens", 30, "--temperature", 2, "--correct", "vocabulary")
    text.rename(tmp_path / "moved.txt")
    refused(octavo(*asked), "is gone", "--text PATH")
    named = octavo(*asked, "--text", tmp_path / "moved.txt")
    text.write_text("another text of the fox, altogether.\n" * 50)
    refused(octavo(*asked), "has changed")
    (tmp_path / "moved.txt").rename(text)
    assert octavo(*asked).out == named.out != ""
    text.unlink()
    assert octavo(*asked).out == named.out


def test_a_server_corrects_and_what_it_breaks_on_is_not_lost(
    octavo: Octavo, run: Path, prompts: Path, languagetool: str
) -> None:
    one = octavo("generate", run, "--prompt", "the ", "--tokens", 30, "--correct", languagetool, "--json")
    assert one.code == 0 and f"sent to {languagetool}/v2/check" in one.err
    sample = json.loads(one.out)["samples"][0]
    assert [change["start"] for change in sample["correction"]["changes"]] == [5]  # not the one in the prompt
    assert sample["correction"]["corrected"] == sample["text"][:5] + "Z" + sample["text"][6:]
    two = octavo("generate", run, "--prompts", prompts, "--tokens", 30, "--correct", languagetool, "--json")
    assert two.code == 1 and "does not seem to be a LanguageTool server" in two.err
    first, second = json.loads(two.out)["prompts"]
    assert first["samples"][0]["text"] == sample["text"] and "correction" in first["samples"][0]
    assert second["samples"][0]["text"] and "correction" not in second["samples"][0]
    gone = octavo("generate", run, "--tokens", 9, "--correct", "http://127.0.0.1:1")
    assert gone.code == 1 and "cannot be reached" in gone.err and gone.out.strip()


@pytest.mark.slow
def test_who_answers_a_name(octavo: Octavo, tmp_path: Path) -> None:
    plays = [["ANN", "BEN"], ["CAT", "DAN"]]
    text = "".join(f"{name}:\nYes.\n\n" for names in plays for name in names * 120)
    (tmp_path / "play.txt").write_text(text)
    assert train(octavo, tmp_path / "run", text=str(tmp_path / "play.txt")).code == 0
    asked = ("generate", tmp_path / "run", "--samples", 6, "--tokens", 60, "--speakers", "ann:")
    shown = octavo(*asked)
    assert shown.code == 0, shown.err
    assert (
        "ANN's company: BEN" in shown.out and "in the text itself    38.5%" in shown.out
    )  # of the first 90 %
    found = json.loads(octavo(*asked, "--json").out)
    kept = json.loads((tmp_path / "run" / "speakers" / "ann.json").read_text())
    assert found["controls"] == kept["controls"] and [one["prompt"] for one in found["controls"]] == [
        "CAT",
        "",
    ]
    refused(octavo(*asked[:-1], "HAMLET"), "'HAMLET' never speaks", "for example one of ANN")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--prompts", "none.txt"), ("none.txt", "cannot be read")),
        (("--prompts", "two.yaml", "--prompt", "a"), ("--prompt and --prompts exclude each other",)),
        (("--correct", "spelling"), ("no correction 'spelling'", "--correct vocabulary")),
        (("--correct", "http://nowhere:x"), ("not the address of a server",)),
        (("--language", "en-US"), ("for a LanguageTool server",)),
        (("--text", "text.txt"), ("--text has nothing to do",)),
        (("--speakers", "ROMEO", "--correct", "vocabulary"), ("as generated",)),
        (("--speakers", "ROMEO"), ("does not read as a play",)),
        (("--speakers", " "), ("No name",)),
    ],
)
def test_wrong_choices(
    octavo: Octavo, finished: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(octavo("generate", finished, *options), *words)


def test_all_prompts_that_cannot_be_read_are_said_at_once(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.json").write_text('["the", "Qu", "X"]')
    refused(octavo("generate", finished, "--prompts", tmp_path / "p.json"), "2 of 3 prompts", "'Qu'", "'X'")
    assert not (finished / "prompts").exists()


def test_the_tokens_of_a_text(octavo: Octavo, finished: Path, test_data: Path) -> None:
    """Report E prints this one: 10 characters, 3 tokens of GPT-2's."""
    pytest.importorskip("tiktoken")
    gpt2 = f"gpt2:{test_data / 'gpt2'}"
    asked = octavo("tokenizer", "show", "Thank you!", "char", gpt2, "--json")
    char, other = json.loads(asked.out)
    assert (len(char["ids"]), other["ids"]) == (10, [10449, 345, 0])
    assert other["tokens"] == ["Thank", " you", "!"]
    shown = octavo("tokenizer", "show", "Thank you!", gpt2).out.splitlines()
    assert shown[0].endswith("gpt2: 3 tokens") and shown[1] == "  Thank 10449 ·  you 345 · ! 0"
    assert octavo("tokenizer", "show", "the", "--run", finished).out.splitlines()[0].endswith(": 3 tokens")
    refused(octavo("tokenizer", "show", "the"), "Which tokenizer?", "--run RUN")
    refused(octavo("tokenizer", "show", "the", "chr"), "did you mean char")


def test_tokenizers_side_by_side(octavo: Octavo) -> None:
    shown = octavo("tokenizer", "compare", "--text", "text.txt", "char", "word", "bpe:300")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].split()[:2] == ["vocabulary", "tokens/byte"]
    rows = json.loads(
        octavo("tokenizer", "compare", "--text", "text.txt", "byte", "gpt2:none", "--json").out
    )["rows"]
    assert rows[0]["tokens_per_byte"] == 1 and "vocab.bpe" in rows[1]["problem"]
    refused(octavo("tokenizer", "compare", "--text", "text.txt", "chr", "bpe:5"), "did you mean char", "257")
    refused(octavo("tokenizer", "compare", "--text", "none.txt", "char"), "none.txt")
