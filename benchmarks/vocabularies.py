"""Report A: a fixed list of words is too narrow for stories, the most frequent words of other stories are not.

    python benchmarks/vocabularies.py --stories train_2MiB.txt --list words.txt [--sizes 850 1500 3000 6000]

How much of a text's last tenth of stories a vocabulary covers: its share of their words and marks, and how many stories
have no other. A fixed list gets all marks for nothing, and its words with the endings of `ENDINGS`; beside it stand as
many of the most frequent words and marks of the first nine tenths, as they stand there.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from common import finish, print_table
from octavo.corpus.words import WORDS_AND_MARKS

END = "<|endoftext|>"
ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ly", "'s", "n't")


def stories_of(path: Path) -> list[list[str]]:
    """Words and marks of each story, in lower case; stories end with a line of `END`, the last one is cut."""
    whole = path.read_text(encoding="utf-8").lower()
    return [WORDS_AND_MARKS.findall(story) for story in whole.split(END)[:-1] if story.strip()]


def inflected(words: set[str]) -> set[str]:
    """The words with all endings, also where these double a letter or drop one: stop, stopped; make, making."""
    stems = words | {word[:-1] for word in words if word.endswith("e")} | {word + word[-1] for word in words}
    stems |= {word[:-1] + "i" for word in words if word.endswith("y")}
    return words | {stem + ending for stem in stems for ending in ENDINGS}


def row(name: str, stories: list[list[str]], known: set[str], size: int) -> dict[str, str]:
    """How much of some stories is covered."""
    tokens = [token for story in stories for token in story]
    whole = sum(all(token in known for token in story) for story in stories)
    return {
        "vocabulary": name,
        "words": f"{size:,}",
        "of the text": f"{sum(token in known for token in tokens) / len(tokens):.1%}",
        "whole stories": f"{whole:,} of {len(stories):,}",
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=Path, required=True)
    parser.add_argument("--list", type=Path, required=True, help="a word a line")
    parser.add_argument("--sizes", type=int, nargs="+", default=[850, 1500, 3000, 6000])
    given = parser.parse_args()
    stories = stories_of(given.stories)
    at = len(stories) * 9 // 10
    ranked = [word for word, _ in Counter(token for story in stories[:at] for token in story).most_common()]
    listed = {word.strip().lower() for word in given.list.read_text(encoding="utf-8").splitlines()} - {""}
    marks = {word for word in ranked if not word[0].isalnum()}
    held_out = stories[at:]
    rows = [row("a fixed list, inflected", held_out, inflected(listed) | marks, len(listed))]
    rows += [row("most frequent", held_out, set(ranked[:size]), size) for size in given.sizes]
    print_table(rows)
    finish({"stories": len(stories), "distinct": len(ranked), "rows": rows})


if __name__ == "__main__":
    main()
