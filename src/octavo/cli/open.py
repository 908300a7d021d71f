"""octavo open: everything in a window of the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import Whole, complain, show_text
from octavo.errors import MissingExtra


def open_command(
    folder: Annotated[
        Path,
        Parameter(help="The folder of your work: runs/, studies/ and texts/ lie in it, or a folder of runs."),
    ] = Path(),
    *,
    port: Annotated[
        Whole | None,
        Parameter(
            help="The port on this machine; default: the one that the folder had last, or any that is free.",
            validator=validators.Number(gte=0, lte=65535),
        ),
    ] = None,
    browser: Annotated[
        bool, Parameter(help="Open a browser; without one the address is printed alone.")
    ] = True,
    memory: Annotated[
        float | None,
        Parameter(
            help="GiB that loaded models may take; default: half of what is free.",
            validator=validators.Number(gt=0),
        ),
    ] = None,
) -> int:
    """Open a page in the browser: drop a text, train, watch, play with the model, look inside, take it away.

    Only this machine reaches it, by the address that is printed, which holds a token. What the page starts goes on when
    the page or this command ends. Ctrl-C ends it.

    For example:

    octavo open

    octavo open my-novels --port 8123
    """
    try:
        from octavo.browser.app import application
        from octavo.serving.http import listening, serve
        from octavo.serving.service import Limits
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra(missing, "serve", "A page") from error
    from functools import partial

    from octavo.browser.address import Address, show_in_browser
    from octavo.browser.guard import Tickets
    from octavo.browser.work import Work
    from octavo.cli.serve import quiet_logs
    from octavo.util.memory import available_memory

    work = Work.open(folder)
    address = Address.of(work.folder)
    if port is None and (ticket := address.ticket()) is not None:
        show_text(f"open already at {address}")
        if browser:
            show_in_browser(address.with_ticket(ticket))
        return 0
    tickets = Tickets()
    sock = address.listen(listening, port)
    quiet_logs()

    def ready(_: object) -> None:
        address.keep()
        show_text(f"open at {address}")
        complain("Ctrl-C ends this; what the page has started goes on")
        if browser and not show_in_browser(address.with_ticket(tickets.new())):
            complain("no browser was found here: open the address in one")

    serve(
        [],
        sock,
        partial(application, work=work, token=address.token, tickets=tickets),
        memory=int((memory or (available_memory() or 2**32) / 2**31) * 2**30),
        limits=Limits(),
        slots=8,
        seconds=3.0,
        ready=ready,
    )
    complain("stopped")
    return 0
