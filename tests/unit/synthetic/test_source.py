"""The storyteller as a source."""

from __future__ import annotations

from octavo.synthetic.source import StorytellerSource


def test_stories() -> None:
    source = StorytellerSource(stories=3, seed=5, first=2).build()
    stories = [(document.name, "".join(document.pieces)) for document in source.documents()]
    assert [name for name, _ in stories] == ["story 2", "story 3", "story 4"]
    assert len({text for _, text in stories}) == 3
    assert stories == [(document.name, "".join(document.pieces)) for document in source.documents()]
    assert source.describe() == {"kind": "storyteller", "stories": 3, "seed": 5, "first": 2}
