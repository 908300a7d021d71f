"""A model of your own writes a corpus through the same door as any other writer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo.errors import OctavoError, RunFolderError
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import WritingSpec, check_spec
from octavo.llm_corpus.writer import WritersGone
from octavo.run.train import train
from octavo.util.terminal import Console

RECIPE = {
    "corpus": {"kind": "storyteller", "stories": 40},
    "tokenizer": "word",
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"steps": 2, "batch": 2, "precision": "float32", "device": "cpu", "threads": 1},
    "sampling": {"tokens": 5},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(out.parent / "cache"))
        train(RECIPE, None, out, console=Console(quiet=True))
    return out


def spec(run: Path, **writer: object) -> WritingSpec:
    rules = {
        "checker": "plain",
        "vocabulary": "free",
        "words": [1, 60],
        "ending": "",
        "cleaning": [],
        "tries": 20,
    }
    return check_spec(
        {
            "name": "own",
            "writers": {"mine": {"kind": "model", "run": str(run), **writer}},
            "rules": {**rules, "near_duplicates": 0, "strip": [r"(?<=\.)[^.]*$"]},  # after the last full stop
            "max_tokens": 60,
        }
    )


def texts(out: Path) -> list[str]:
    return [
        json.loads(line)["text"] for line in (out / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def test_it_writes_and_the_same_spec_writes_the_same(run: Path, tmp_path: Path) -> None:
    def stories(name: str) -> list[str]:
        job = WritingJob(spec(run, begin="one day ,", stop=["?"]), tmp_path / name, stories=3)
        assert job.run()["ended"] == "stories"
        return texts(tmp_path / name)

    first = stories("a")
    assert first == stories("b") and len(first) == 3
    assert all(text.startswith("one day") and text.endswith(".") and "?" not in text for text in first)


def test_a_beginning_that_it_does_not_know_ends_it_with_a_sentence(run: Path, tmp_path: Path) -> None:
    with pytest.raises(WritersGone, match="zeppelin"):
        WritingJob(spec(run, begin="zeppelin"), tmp_path, stories=3).run()


def test_a_run_that_is_not_there_is_an_error_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError) as refused:
        WritingJob(spec(tmp_path / "nothing"), tmp_path / "out", stories=3).run()
    assert isinstance(refused.value, OctavoError) and not (tmp_path / "out").exists()
