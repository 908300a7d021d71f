"""Every command of docs/guide/serve.md and the README's client, against servers of small runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from e2e.forked import Octavo, until
from guards.common import ROOT
from guards.snippets import blocks, commands

pytest.importorskip("uvicorn")

from unit.serving.conftest import running

PAGE = ROOT / "docs" / "guide" / "serve.md"
README = ROOT / "README.md"
ADDRESS = "http://localhost:8000"
OTHERS = ("/v1/translate", "/v1/forecast")
"""Whose runs take long to train; their own tests ask them."""


@pytest.fixture(scope="module")
def book(octavo: Octavo, finished: Path) -> Path:
    """runs/book, as the page has it."""
    return Path(shutil.copytree(finished, octavo.folder / "served" / "runs" / "book", symlinks=True))


@pytest.fixture(scope="module")
def address(book: Path) -> Iterator[str]:
    with running(book) as (address, _):
        yield address


def found(language: str) -> list[str]:
    """The page's blocks of a language."""
    return [block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == language]


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


def test_its_python_runs(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")
    assert found("py")
    for text in found("py"):
        exec(compile(here(text, address), PAGE.name, "exec"), {})
        assert capsys.readouterr().out


def test_the_client_of_the_readme(octavo: Octavo, capsys: pytest.CaptureFixture[str]) -> None:
    """On the run of `octavo demo`, by the command that stands above it."""
    pytest.importorskip("openai")
    text = README.read_text("utf-8")
    told = re.search(r"`octavo serve (runs/\S+)`", text)
    (client,) = [block.text for block in blocks(text) if block.language == "py"]
    assert told and Path(told[1]).name in client
    run = octavo.folder / "readme" / told[1]
    few = ["corpus.stories=300", "training.steps=3", "report.explainer=false"]
    done = octavo("train", "pidgin-demo", "--out", run, *few, patch="few_prompts")
    assert done.code == 0, done.err
    command = octavo.start("serve", told[1], "--port", "0", folder=octavo.folder / "readme")
    out = command.files[1]
    until(lambda: "serving at" in out.read_text() if out.exists() else False)
    try:
        at = re.search(r"serving at (http://\S+)/v1", out.read_text())
        assert at
        exec(compile(client.replace(ADDRESS, at[1]), README.name, "exec"), {})
        assert capsys.readouterr().out.strip()
    finally:
        command.signal(15)
        assert command.wait().code == 0


def test_its_servers_start(octavo: Octavo, book: Path) -> None:
    """Each at a port that is free."""
    started = 0
    for line in "\n".join(found("console")).splitlines():
        before, verb, rest = line.partition("octavo serve")
        if verb:
            given = dict(word.split("=", 1) for word in before.split())
            words = ["serve", *shlex.split(rest)]
            if "--port" in words:
                words[words.index("--port") + 1] = "0"
            else:
                words += ["--port", "0"]
            told = f"import os; os.environ |= {given}; from octavo.cli import main; main({words})"
            command = octavo.start(program=told, folder=book.parents[1])
            out = command.files[1]
            until(lambda out=out: "serving at" in out.read_text() if out.exists() else False)
            try:
                said = re.search(r"http://\S+:(\d+)/v1", out.read_text())
                assert said, words
                key = {"Authorization": f"Bearer {given['OCTAVO_SERVE_KEY']}"} if given else {}
                models = httpx2.get(f"http://127.0.0.1:{said[1]}/v1/models", headers=key, trust_env=False)
                assert [card["id"] for card in models.json()["data"]] == ["book"]
            finally:
                command.signal(15)
                assert command.wait().code == 0
            started += 1
    assert started == 3


def test_its_editor_can_ask(address: str) -> None:
    openai = pytest.importorskip("openai")
    (setting,) = [text for text in found("text") if "apiBase" in text]
    (told,) = yaml.safe_load(here(setting, address))["models"]
    assert told["provider"] == "openai"
    with openai.OpenAI(base_url=told["apiBase"], api_key=told["apiKey"]) as client:
        asked: dict[str, Any] = {"model": told["model"], "messages": [{"role": "user", "content": "the fox"}]}
        chunks = list(client.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_its_evaluator_scores(address: str, tmp_path: Path) -> None:
    """On a task that needs no network."""
    pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed here")
    (command,) = [text for text in found("text") if text.startswith("lm_eval")]
    rows = [{"passage": "the brown fox", "choices": [" jumps", " runs"], "answer": 0}] * 3
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = {
        "task": "local",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{passage}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc"}],
    }
    (tmp_path / "local.yaml").write_text(yaml.safe_dump(task))
    words = shlex.split(here(command, address).replace("lambada_openai", "local").replace("\\\n", ""))
    whole = [sys.executable, "-m", *words, "--include_path", tmp_path, "--output_path", tmp_path / "out"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(whole, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert 0 <= json.loads(results.read_text())["results"]["local"]["acc,none"] <= 1


def test_its_proxy_passes_everything_on(book: Path, tmp_path: Path) -> None:
    """With TLS, by a certificate of its own, under the name that the server is told."""
    nginx, openssl = shutil.which("nginx", path="/usr/sbin:" + os.environ["PATH"]), shutil.which("openssl")
    if nginx is None or openssl is None or shutil.which("curl") is None:
        pytest.skip("there is no nginx here, or no openssl, or no curl")
    (sample,) = found("nginx")
    name = re.search(r"server_name (\S+);", sample)
    assert name
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name[1]}"]
    made += ["-addext", f"subjectAltName=DNS:{name[1]}", "-keyout", key, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(book, hosts=[name[1]], key="choose-one") as (address, _):
        whole = sample.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
        whole = re.sub(r"ssl_certificate \S+;", f"ssl_certificate {certificate};", whole)
        whole = re.sub(r"ssl_certificate_key \S+;", f"ssl_certificate_key {key};", whole)
        whole = whole.replace("http://127.0.0.1:8000", address)
        folders = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        head = f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/error;\nevents {{}}\nhttp {{\naccess_log off;\n"
        (tmp_path / "nginx.conf").write_text(f"{head}{folders}{whole}}}\n")
        proxy = subprocess.Popen(
            [nginx, "-p", tmp_path, "-c", tmp_path / "nginx.conf"], stderr=subprocess.DEVNULL
        )
        try:
            until(lambda: reachable(port))
            url, body = (
                f"https://{name[1]}:{port}/v1/completions",
                {"prompt": "the", "seed": 1, "stream": True},
            )
            base = ["curl", "-sN", "--cacert", certificate, "--resolve", f"{name[1]}:{port}:127.0.0.1", url]
            base += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
            said = subprocess.check_output([*base, "-H", "Authorization: Bearer choose-one"], text=True)
            assert said.rstrip().endswith("data: [DONE]")
            assert json.loads(subprocess.check_output(base))["error"]["code"] == "invalid_api_key"
        finally:
            proxy.terminate()
            proxy.wait()


def reachable(port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
