"""Prompts side by side: each has its own stories, however it is called."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from octavo import llm_corpus
from octavo.llm_corpus.session import WritingJob, compare_prompts
from octavo.llm_corpus.spec import load_spec
from octavo.llm_corpus.store import prompts_in


def test_a_changed_prompt_is_compared_anew_and_namesakes_are_two(tmp_path: Path) -> None:
    shipped = Path(llm_corpus.__file__).parent / "prompts" / "pidgin" / "request.j2"
    places = [tmp_path / "a" / "mine", tmp_path / "b" / "mine"]
    for place, more in zip(places, ("Be kind.", "Be brief."), strict=True):
        place.mkdir(parents=True)
        (place / "request.j2").write_text(shipped.read_text(encoding="utf-8") + more, encoding="utf-8")
    spec = load_spec("pidgin-storyteller", [f"compare=[{places[0]},{places[1]}]"])

    def written() -> dict[str, int]:
        compare_prompts(WritingJob(spec, tmp_path / "out", stories=3))
        stores = (tmp_path / "out" / "compare").glob("*/stories.sqlite")
        found = {}
        for path in stores:
            with contextlib.closing(sqlite3.connect(path)) as con:
                found[path.parent.name] = int(con.execute("SELECT count(*) FROM calls").fetchone()[0])
            assert len(prompts_in(path)) == 1
        return found

    once = written()
    assert len(once) == 2 and "mine" in once and all(once.values())
    assert written() == once
    (places[0] / "request.j2").write_text("Hello. " + shipped.read_text(encoding="utf-8"), encoding="utf-8")
    twice = written()
    assert len(twice) == 3 and {name: twice[name] for name in once} == once
