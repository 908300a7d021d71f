"""What commands say when asked for something wrong, word for word: `messages.txt`, a page to be read as a whole.

To make it anew, and read the difference: OCTAVO_MESSAGES=write pytest tests/e2e/test_messages.py
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from e2e.forked import Octavo

PAGE = Path(__file__).with_name("messages.txt")
COMMANDS = """\
trian
train --nonsense 2
train recipe.yaml --out nobody
train recipe.yaml --text nowhere.txt --out nobody
train recipe.yaml --text empty.txt --out nobody
train recipe.yaml --text short.txt --out nobody
train recipe.yaml --text binary.txt --out nobody
train recipe.yaml --text text.txt --out photos
train recipe.yaml --text text.txt --out finished
train recipe.yaml --text text.txt --out nobody model.layer=3
train recipe.yaml --text text.txt --out nobody model.layers=0 training.batch=-1 modle.width=2
train recipe.yaml --text text.txt --out nobody tokenizer=chars
train recipe.yaml --text text.txt --out nobody training.epochs=2
train recipe.yaml --text text.txt --out nobody 'training: [3'
train recipe.yaml --text text.txt --out nobody sampling.prompt=£
train recipe.yaml --text text.txt --out nobody model.context=100000
train list.yaml --text text.txt
train text.txt
train quick text.txt
train --text text.txt quick
train --text text.txt --layers 2
train --text text.txt --minutes 0
train --text text.txt --minutes five
train quick --text text.txt --minutes 1
train --resume --out nowhere
train --replay nowhere
train --out finished --resume model.layers=2 seed=4
generate nowhere
generate finished 'the fox'
generate finished --prompt 'été 7'
generate finished --temperature -1
generate finished --checkpoint 999
generate finished --tokens few
eval finished --text greek.txt
eval finished --as-saved
compare finished nowhere
plan recipe.yaml
plan recipe.yaml --vocabulary 30 --on h300
tune sft finished --text text.txt --dry-run
tune best finished
study run recipe.yaml --text text.txt --out study
export finished --to keras --out out
verify photos
import nowhere --out nobody
corpus stats --text nowhere.txt
runs nowhere
"""


def test_what_is_refused_is_said_as_the_page_has_it(octavo: Octavo, finished: Path) -> None:
    files = {
        "empty.txt": "",
        "short.txt": "a b c d e f",
        "greek.txt": "και το cat" * 20,
        "list.yaml": "- a\n- b\n",
    }
    for name, content in files.items():
        (octavo.folder / name).write_text(content, encoding="utf-8")
    (octavo.folder / "binary.txt").write_bytes(bytes(range(256)) * 40)
    (octavo.folder / "photos").mkdir(exist_ok=True)
    (octavo.folder / "photos" / "cat.png").write_bytes(b"\x89PNG")
    said = []
    for line in COMMANDS.splitlines():
        done = octavo(*shlex.split(line))
        assert done.code and "Traceback" not in done.err, (line, done)
        error = done.err[done.err.index("error:") :]  # before it stands what was read and prepared
        said.append(f"$ octavo {line}\n{error.replace(str(octavo.folder), 'HERE').rstrip()}\n")
    page = "\n".join(said)
    if os.environ.get("OCTAVO_MESSAGES") == "write":
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")
