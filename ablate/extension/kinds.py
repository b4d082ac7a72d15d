"""The kinds of things that a file may add, each with the folder whose files are the list of what ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `name` is that of the decorator or function that declares a thing of it, `noun` its word in sentences.

    `plural` names the kind in `defaults:` of a grammar, its list (`ablate list probes`) and its entry points
    (`ablate.probes`). `folder` is below the package. `below` says what stands below the import of torch and carries the
    declaration out, with the way to say so; empty for a kind that needs nothing there.
    """

    name: str
    noun: str
    plural: str
    folder: str
    below: str
    way: str

    @property
    def group(self) -> str:
        """The group of its entry points."""
        return f"ablate.{self.plural}"

    @property
    def a_noun(self) -> str:
        """The noun behind its article."""
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def files(self) -> tuple[Path, ...]:
        """Every Python file of its folder, in order of path; those without a declaration are none of its things."""
        return tuple(sorted((PACKAGE / self.folder).rglob("*.py")))


COMPONENT = Kind("component", "component", "components", "components", "module", "decorate its nn.Module with")
PROBE = Kind("probe", "probe", "probes", "probes", "measurement", "decorate the function that measures with")
OPTIMIZER = Kind(
    "optimizer", "optimiser", "optimizers", "train/optimizers", "update", "decorate the function that builds it with"
)
SCHEDULE = Kind("schedule", "schedule", "schedules", "train/schedules", "", "")
SAMPLER = Kind(
    "sampler", "sampler", "samplers", "execute/search/samplers", "proposer", "decorate the function that makes it with"
)
CORPUS = Kind("corpus", "corpus", "corpora", "data/corpora", "reader", "decorate the function that reads it with")

KINDS = (COMPONENT, PROBE, OPTIMIZER, SCHEDULE, SAMPLER, CORPUS)
