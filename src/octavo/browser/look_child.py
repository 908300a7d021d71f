"""What there is to see of a text before anything is trained on it: as `octavo corpus stats --json` says it, with its
first lines and with what was said on the way. A process of its own, which can be ended when nobody waits any more.

    python -m octavo.browser.look_child PATH
"""

from __future__ import annotations

import io
import sys
from itertools import islice

from octavo.corpus.inspection import inspect
from octavo.errors import OctavoError
from octavo.run.corpus import corpus_recipe
from octavo.run.data import build_source
from octavo.util.records import json_text
from octavo.util.terminal import Console

FIRST = 600
"""Characters of the text that are shown."""
MOST_LISTED = 30


def main(path: str) -> int:
    """Print one JSON document."""
    said = io.StringIO()
    try:
        source = build_source(corpus_recipe([path], None, None), Console(stream=said))
        begins = ""
        for document in islice(source.documents(), 3):
            for piece in document.pieces:
                begins += piece
                if len(begins) > FIRST:
                    break
            if len(begins) > FIRST:
                break
            begins += "\n\n"
        found = inspect(source, near=0).describe()
    except OctavoError as error:
        sys.stderr.write(f"error: {error.as_command_line}\n")
        return error.exit_code
    kept = ("documents", "characters", "bytes", "words", "distinct_words", "duplicates", "languages", "notes")
    told = {name: found[name] for name in kept} | {
        "frequent": found["frequent"][:12],
        "files": found["files"][:MOST_LISTED],
        "file_count": len(found["files"]),
        "begins": begins.strip()[:FIRST],
        "said": list(dict.fromkeys(said.getvalue().splitlines()))[:MOST_LISTED],
    }
    sys.stdout.write(json_text(told, ensure_ascii=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
