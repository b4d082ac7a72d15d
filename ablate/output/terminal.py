"""The only way to a terminal: whatever a text contains, only our own styling reaches it as a command.

Import `Console` and `Text` from here, never from rich: rich reads `[red]` in a text as markup, drops some control
characters and passes on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any

from rich import console as rich_console
from rich import text as rich_text
from rich.segment import Segment

from ablate.output.escape import visible

if TYPE_CHECKING:
    from rich.style import StyleType


class Text(rich_text.Text):
    """A text for a terminal: shown as it is, with escapes for characters that could drive the terminal."""

    def __init__(self, text: str = "", style: StyleType = "", **options: Any) -> None:
        super().__init__(visible(text), style, **options)

    def append(self, text: rich_text.Text | str, style: StyleType | None = None) -> Text:
        super().append(visible(text) if isinstance(text, str) else text, style)
        return self

    def __add__(self, other: object) -> Text:
        return Text.assemble(self, other) if isinstance(other, str | rich_text.Text) else NotImplemented

    def join(self, lines: Iterable[rich_text.Text]) -> Text:
        joined = Text()
        for place, line in enumerate(lines):
            joined.append(self if place else "").append(line)
        return joined

    @classmethod
    def assemble(cls, *parts: str | rich_text.Text | tuple[str, StyleType], **options: Any) -> Text:
        text = cls(**options)
        for part in parts:
            text.append(*part) if isinstance(part, tuple) else text.append(part)
        return text


class Console(rich_console.Console):
    """A terminal, or a replacement for one. Texts are not markup, and are escaped before their width is measured."""

    def __init__(self, *, stderr: bool = False, file: IO[str] | None = None, **options: Any) -> None:
        super().__init__(stderr=stderr, file=file, markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> rich_text.Text:
        return super().render_str(visible(text), **options | {"markup": False, "emoji": False})

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed, escaping also what is no `Text`, but not rich's own control codes."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(visible(piece.text), piece.style)


def line_writer(console: rich_console.Console, style: str = "", *, whole: bool = False) -> Callable[[str], None]:
    """A function that prints lines on a console without markup; `whole` lines are broken by the terminal alone."""
    return lambda text: console.print(Text(text, style), soft_wrap=whole)
