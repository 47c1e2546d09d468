"""A progress bar for training that takes longer than two seconds; silent where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tacit._quiet import terminal

_PATIENCE = 2.0  # seconds that pass without a bar


@contextmanager
def training_bar(
    description: str, total: int, *, shown: bool = True
) -> Iterator[Callable[[], None]]:
    """Yield a function to be called once a step; the bar goes to standard error, if a terminal.

    >>> with training_bar("Training", total=2) as step:
    ...     step()
    ...     step()
    """
    with ExitStack() as stack:
        watched = shown and sys.stderr.isatty()
        yield _stepper(description, total, stack) if watched else lambda: None


def _stepper(description: str, total: int, stack: ExitStack) -> Callable[[], None]:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(
        console=Console(file=stack.enter_context(terminal())),
        transient=True,
        redirect_stdout=False,  # what others print meanwhile would be shown
        redirect_stderr=False,
    )
    task, start, drawn = bar.add_task(description, total=total), time.monotonic(), False

    def step() -> None:
        nonlocal drawn
        bar.advance(task)
        if not drawn and time.monotonic() - start > _PATIENCE:
            stack.enter_context(bar)
            drawn = True

    return step
