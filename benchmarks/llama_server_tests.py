"""llama.cpp's own server tests against `octavo serve`: what passes, what cannot and why.

    python benchmarks/llama_server_tests.py CHECKOUT RUN [--only NAME …] [--write]

CHECKOUT: llama.cpp's sources, of which nothing is built. RUN: a run with a context of 256 whose tokenizer knows every
text and whose documents are long, as `octavo train quick --text FOLDER tokenizer.kind=bpe tokenizer.size=512
model.context=256` makes it. The tests start servers of ours in place of theirs (`llama_server_mirror.py`); port 8080
must be free. `--write` puts the table into results/llama_server_tests.md. Ends with 1 where a test that does not pass
has no reason here, or a reason has no such test.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common import finish, print_table, rows_in

HERE = Path(__file__).parent
FILES = (
    "basic", "completion", "chat_completion", "stream", "tokenize", "template", "ignore_eos", "metrics", "security",
)  # fmt: skip

OTHER_MODEL = "asks for words, or for numbers of tokens, of the model stories260K"
FINGERPRINT = "asks that `system_fingerprint` names a build (`b…`); ours names the weights"
TEMPLATE = "asks for a template of another model; a run has that with which it was tuned"
GRAMMAR = "there are no grammars: such a field is refused, not passed over"
VERBOSE = "`__verbose` is not there; `/apply-template` says what a model reads"
CORS = "on purpose: pages of other origins are refused, whatever they ask, and get no CORS header"

REASONS: dict[str, str] = {
    r"basic.py::test_server_multiple_addresses": "a server listens at one address",
    r"basic.py::test_server_props": "on purpose: no path is in any answer",
    r"basic.py::test_server_slots": "asks for `--no-slots`; `/slots` says nothing of texts and is always there",
    r"basic.py::test_load_split_model": OTHER_MODEL,
    r"basic.py::test_no_ui": "there is no page to chat in",
    r"basic.py::test_server_model_aliases_and_tags": "a model has one name, and no tags",
    r"completion.py::test_completion\[": OTHER_MODEL,
    r"completion.py::test_completion_stream\[": OTHER_MODEL,
    r"completion.py::test_completion_stream_vs_non_stream": "asks for a server's own seed: without one in "
    "the request one is drawn, and told",
    r"completion.py::test_completion_with_openai_library": FINGERPRINT,
    r"completion.py::test_completion_stream_with_openai_library": OTHER_MODEL,
    r"completion.py::test_cache_vs_nocache_prompt": "is skipped by llama.cpp itself; ours says the same bits",
    r"completion.py::test_completion_response_fields\[.*32": "asks for the start `<s>` of another tokenizer",
    r"completion.py::test_n_probs_post": "probabilities are the model's own, before all cuts; others are refused",
    r"completion.py::test_completion_prompt_cache": OTHER_MODEL,
    r"chat_completion.py::test_chat_completion\[": FINGERPRINT,
    r"chat_completion.py::test_chat_completion_cached_tokens": OTHER_MODEL,
    r"chat_completion.py::test_chat_completion_stream\[": FINGERPRINT,
    r"chat_completion.py::test_chat_completion_with_openai_library": FINGERPRINT,
    r"chat_completion.py::test_chat_template$": VERBOSE,
    r"chat_completion.py::test_chat_template_(assistant_prefill|continue_final_message_vllm)": "the last message "
    "is the user's: an answer that was begun is not gone on with",
    r"chat_completion.py::test_apply_chat_template": TEMPLATE,
    r"chat_completion.py::test_completion_with_response_format\[response_format[0-3]": GRAMMAR,
    r"chat_completion.py::test_completion_with_(json_schema|grammar)": GRAMMAR,
    r"chat_completion.py::test_chat_completion_with_timings_per_token": "times are told by `/completion` alone",
    r"chat_completion.py::test_context_size_exceeded": "the error has OpenAI's type, and its code "
    "`context_length_exceeded`",
    r"chat_completion.py::test_return_progress": "how far a prompt is read is not told",
    r"chat_completion.py::test_verbose_debug": VERBOSE,
    r"stream.py::": "a stream that was left is given up, not kept for later",
    r"tokenize.py::test_tokenize_with_bos": "asks that the document's start is id 1",
    r"template.py::test_(reasoning|date)": TEMPLATE,
    r"template.py::test_add_generation_prompt.*True": TEMPLATE,
    r"metrics.py::test_metrics_disabled": "`/metrics` is always there",
    r"metrics.py::test_metrics_(prometheus_format|prompt_processed|predicted_total)": "figures are named `octavo_…`",
    r"metrics.py::test_metrics_timings_on_prompt_progress": "how far a prompt is read is not told",
    r"metrics.py::test_metrics_embedding": "there are no embeddings",
    r"security.py::test_access_static_assets": "there is no page to chat in",
    r"security.py::test_correct_api_key": "`/completions` is OpenAI's here; the key is a bearer's",
    r"security.py::test_cors": CORS,
    r"security.py::test_local_media_file\[\.\./.*True": "there are no images, and no files are read",
}
"""Why a test does not pass, by its name's beginning."""


@dataclass(frozen=True)
class Outcome:
    """What became of a test."""

    name: str
    passed: bool
    why: str

    @property
    def file(self) -> str:
        """Where it stands, in short."""
        return self.name.partition(".py")[0]

    @property
    def reasons(self) -> list[str]:
        """Those that fit."""
        return [pattern for pattern in REASONS if re.match(pattern, self.name)]


def outcomes(checkout: Path, run: Path, only: Sequence[str]) -> list[Outcome]:
    """Run the tests."""
    tests = checkout / "tools" / "server" / "tests"
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "outcomes.jsonl"
        paths = os.pathsep.join([str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment |= {"OCTAVO_MIRRORED": str(run.resolve()), "OCTAVO_OUTCOMES": str(told)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "llama_server_mirror",
            "-p",
            "no:cacheprovider",
        ]
        command += [f"unit/test_{name}.py" for name in FILES] + (["-k", " or ".join(only)] if only else [])
        subprocess.run(command, cwd=tests, env=environment, check=False)
        rows = rows_in(told)
    return [
        Outcome(row["test"].removeprefix("unit/test_"), row["outcome"] == "passed", row["why"].strip())
        for row in rows
    ]


def main() -> int:
    """Run them, and say why."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", nargs="+", default=(), help="tests with such a part in their names")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = outcomes(given.checkout, given.run, given.only)
    left = [one for one in found if not one.passed]
    unsaid = [one for one in left if len(one.reasons) != 1]
    stale = REASONS.keys() - {pattern for one in left for pattern in one.reasons} if not given.only else set()
    rows = [
        {"file": f"test_{name}.py", "tests": len(own), "pass": sum(one.passed for one in own)}
        for name in FILES
        if (own := [one for one in found if one.file == name])
    ]
    print_table(rows)
    for one in unsaid:
        print(f"no reason, or several: {one.name}: {one.why[:300]}", file=sys.stderr)
    for pattern in sorted(stale):
        print(f"no such test, or it passes: {pattern}", file=sys.stderr)
    if given.write and not unsaid and not stale:
        (HERE / "results" / "llama_server_tests.md").write_text(page(found, left, rows), encoding="utf-8")
    finish({"rows": rows, "unsaid": [one.name for one in unsaid], "stale": sorted(stale)})
    return 1 if unsaid or stale else 0


def page(found: Sequence[Outcome], left: Sequence[Outcome], rows: Sequence[dict[str, object]]) -> str:
    """The result as Markdown."""
    why: dict[str, Counter[str]] = {}
    for one in left:
        name = one.name.partition("[")[0].replace(".py::", "::")
        why.setdefault(REASONS[one.reasons[0]], Counter())[name] += 1
    table = [list(rows[0]), ["---"] * 3, *(list(row.values()) for row in rows)]
    reasons = [["why", "tests"], ["---", "---"]]
    for reason, names in why.items():
        told = ", ".join(f"`{name}`" + (f" × {count}" if count > 1 else "") for name, count in names.items())
        reasons.append([reason, told])

    def as_table(lines: Sequence[Sequence[object]]) -> str:
        return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)

    passed = sum(one.passed for one in found)
    return TEXT.format(passed=passed, tests=len(found), table=as_table(table), reasons=as_table(reasons))


TEXT = """\
# llama.cpp's server tests against `octavo serve`

`python benchmarks/llama_server_tests.py CHECKOUT RUN --write`, with the sources in `llama-cpp-python` 0.3.36 and a run
of BPE 512 on four files of TinyShakespeare. Each test gets a server with its own flags, as far as they are here.

**{passed} of {tests}** pass.

{table}

## What does not pass, and why

{reasons}
"""

if __name__ == "__main__":
    sys.exit(main())
