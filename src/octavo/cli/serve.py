"""octavo serve: runs as a local server with OpenAI's interface."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import Whole, complain, show_text, the_run
from octavo.cli.generate import Precision
from octavo.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from octavo.serving.http import Drained

KEY = "OCTAVO_SERVE_KEY"
Positive = validators.Number(gte=1)
Runs = Annotated[
    Path,
    Parameter(
        help="Run folders, names in runs, checkpoint folders, or folders of runs; default: the newest run."
    ),
]
Port = Annotated[Whole, Parameter(help="0: any that is free.", validator=validators.Number(gte=0, lte=65535))]
Host = Annotated[
    str,
    Parameter(help=f"The address to listen at. Any but this machine's own needs a key in {KEY}."),
]
AllowHost = Annotated[
    list[str] | None,
    Parameter(
        help="Another name by which clients call this server, such as a proxy's; give it several times for several.",
        negative="",
    ),
]
Memory = Annotated[
    float | None,
    Parameter(
        help="GiB that loaded models may take; default: half of what is free.",
        validator=validators.Number(gt=0),
    ),
]
Slots = Annotated[
    Whole,
    Parameter(help="Texts that a model writes at once.", validator=[Positive, validators.Number(lte=1024)]),
]
Queue = Annotated[
    Whole, Parameter(help="Texts of a model that may wait for that.", validator=validators.Number(gte=0))
]
Timeout = Annotated[
    float, Parameter(help="Seconds that a request may take.", validator=validators.Number(gt=0))
]
Drain = Annotated[
    float,
    Parameter(
        help="Seconds that the server waits at its end for what is under way.",
        validator=validators.Number(gt=0),
    ),
]


def serve_command(
    *runs: Runs,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
    memory: Memory = None,
    slots: Slots = 64,
    queue: Queue = 256,
    timeout: Timeout = 600,
    drain: Drain = 30,
    precision: Precision = "float32",
) -> int:
    """Serve models to every client that speaks OpenAI's interface.

    A model is called RUN, or RUN@STEP for each checkpoint that is kept. Each text is the same to the bit alone and
    among others, and that of 'octavo generate --seed'. Ctrl-C or SIGTERM finishes what is under way.

    For example:

    octavo serve runs/pidgin-demo

    octavo serve runs --port 8080 --memory 4

    OCTAVO_SERVE_KEY=... octavo serve runs/book --host 0.0.0.0 --allow-host models.example.org
    """
    try:
        from octavo.serving.app import application
        from octavo.serving.http import listening, serve
        from octavo.serving.service import Limits
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra(missing, "serve", "A server") from error
    from octavo.serving.models import places_of
    from octavo.util.memory import available_memory

    key, own = os.environ.get(KEY) or None, is_loopback(host)
    if key is None and not own:
        raise InputError(
            f"{host} can be reached from other machines, so the server needs a key.",
            remedy=f"set the variable {KEY}, or leave --host out",
        )
    places = places_of([the_run(run) for run in runs] or [the_run(None)])
    gigabytes = memory or (available_memory() or 2**32) / 2**31
    sock = listening(host, port)
    quiet_logs()

    def ready(_: Drained) -> None:
        number = sock.getsockname()[1]
        name = "localhost" if own else host
        address = f"http://{name}:{number}"
        several = f"{len(places)} models, the first of them " if len(places) > 1 else ""
        complain(f"{several}{places[0].name}; loaded when it is first asked for; Ctrl-C ends")
        header = "" if key is None else " -H 'Authorization: Bearer ...'"
        told = f'{{"model": "{places[0].name}", "prompt": ""}}'
        show_text(f"serving at {address}/v1; try: curl {address}/v1/completions{header} --json '{told}'")

    names = [*(allow_host or ()), *([] if own else [host])]
    serve(
        places,
        sock,
        partial(application, hosts=names, addresses=not own, key=key),
        memory=int(gigabytes * 2**30),
        limits=Limits(queue=queue, seconds=timeout),
        slots=slots,
        precision=precision,
        seconds=drain,
        ready=ready,
    )
    complain("stopped")
    return 0


def quiet_logs() -> None:
    """Let the server say what happens to models, and nothing of each request."""
    logging.basicConfig(format="%(message)s", handlers=[Complaints()], force=True)
    logging.getLogger("octavo.serve").setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Complaints(logging.Handler):
    """Log lines on standard error, as everything that a verb says there."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(self.format(record))
