"""Telling how far adding has come."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from agentkit_py.errors import MissingDependencyError
from agentkit_py.knowledge.documents import Progress

ProgressTo: TypeAlias = Callable[[Progress], None] | Literal["bar"] | None


@contextmanager
def progress_sink(given: ProgressTo) -> Generator[Callable[[Progress], None], None, None]:
    """What progress is told to."""
    if given != "bar":
        yield given or _nobody
        return
    try:
        from rich.progress import Progress as Bar
    except ImportError as error:
        raise MissingDependencyError("rich", "cli", 'add(progress="bar")') from error
    with Bar() as bar:
        task = bar.add_task("adding", total=None)

        def tell(progress: Progress) -> None:
            bar.update(
                task, description=progress.source, completed=progress.done, total=progress.total
            )

        yield tell


def _nobody(progress: Progress) -> None:
    """Nobody wants to know."""
