"""An export written into a folder, beside what earlier ones left there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.report.figures.export import Export
from ablate.report.figures.files import belongs_to_export, files_of
from ablate.store.durable import write_whole, writing

OPTION = "--figures"


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of an export: files by the name of their figure, other files, what it left out and why, and files in
    the folder from an earlier export.
    """

    folder: Path
    figures: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files written."""
        return (*(name for names in self.figures.values() for name in names), *self.others)


def write_export(export: Export, folder: str | Path) -> Figures:
    """Write an export into a folder, which is created if needed.

    Files of an earlier export are overwritten if they have the same name, and otherwise left and listed.
    """
    folder = Path(folder)
    with writing(folder, OPTION):
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in folder.iterdir() if path.is_file())
    figures: dict[str, tuple[str, ...]] = {}
    for name, plot in export.plots:
        contents = dict(files_of(plot, name))
        for file, content in contents.items():
            write_whole(folder / file, content, OPTION)
        figures[name] = tuple(contents)
    for file, text in export.texts.items():
        write_whole(folder / file, text.encode(), OPTION)
    written = {*export.texts, *(file for files in figures.values() for file in files)}
    earlier = tuple(name for name in belongs_to_export(there) if name not in written)
    return Figures(folder, figures, tuple(export.texts), export.left_out, earlier)
