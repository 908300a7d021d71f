"""The commands of docs/guide/serve.md and the README's client, against a server of a small run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.common import ROOT
from guards.snippets import blocks, commands

pytest.importorskip("uvicorn")

from unit.serving.conftest import running

PAGE = ROOT / "docs" / "guide" / "serve.md"
ADDRESS = "http://localhost:8000"
OTHERS = ("/v1/translate", "/v1/forecast")
"""Whose runs take long to train; their own tests ask them."""


@pytest.fixture(scope="module")
def address(octavo: Octavo, finished: Path) -> Iterator[str]:
    book = Path(shutil.copytree(finished, octavo.folder / "served" / "book", symlinks=True))
    with running(book) as (address, _):
        yield address


def here(text: str, address: str) -> str:
    """The text's prompt in letters that the run knows, asked of the server that there is."""
    return text.replace(ADDRESS, address.replace("127.0.0.1", "localhost")).replace("It was", "it was")


def test_its_requests_are_answered(address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    asked = 0
    for block in blocks(PAGE.read_text("utf-8")):
        for command in commands(block) if block.language == "sh" else ():
            if any(path in command[1] for path in OTHERS):
                json.loads(command[3])
                continue
            words = [here(word, address) for word in command]
            if "--json" in words:  # which old ones do not know
                at = words.index("--json")
                words[at : at + 2] = ["-H", "Content-Type: application/json", "-d", words[at + 1]]
            done = subprocess.run(["curl", "-sf", *words[1:]], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (shlex.join(command), done.stderr)
            assert "error" not in json.loads(done.stdout)
            asked += 1
    assert asked == 4


@pytest.mark.parametrize("page", [PAGE, ROOT / "README.md"], ids=lambda page: page.name)
def test_its_python_runs(page: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")
    found = [block for block in blocks(page.read_text("utf-8")) if block.language == "py"]
    assert found
    for block in found:
        exec(compile(here(block.text, address), page.name, "exec"), {})
        assert capsys.readouterr().out


def test_its_proxy_passes_everything_on(address: str, tmp_path: Path) -> None:
    """Without TLS, which has keys."""
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("there is no nginx here")
    (sample,) = [block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "nginx"]
    socket = tmp_path / "socket"
    plain = re.sub(r" *ssl_\w+ [^;]*;\n", "", sample).replace("443 ssl", f"unix:{socket}")
    plain = plain.replace("http://127.0.0.1:8000", address)
    whole = f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/error;\nevents {{}}\nhttp {{\n"
    whole += f"access_log off;\nclient_body_temp_path {tmp_path}/body;\nproxy_temp_path {tmp_path}/proxy;\n{plain}}}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    proxy = subprocess.Popen([nginx, "-p", tmp_path, "-c", tmp_path / "nginx.conf"])
    try:
        asked = ["curl", "-sfN", "--retry", "20", "--retry-connrefused", "--unix-socket", str(socket)]
        asked += ["-H", "Host: localhost", "-H", "Content-Type: application/json"]
        body = json.dumps({"prompt": "the", "seed": 1, "stream": True})
        for _ in range(100):
            if socket.exists():
                break
            subprocess.run(["sleep", "0.05"], check=True)
        done = subprocess.run(
            [*asked, "-d", body, "http://localhost/v1/completions"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().endswith("data: [DONE]")
    finally:
        proxy.terminate()
        proxy.wait()
