"""The kinds of extensions that a file may add, each with the folder whose files are the list of what ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `name` is that of the decorator or function that declares it, `noun` its word in sentences.

    `plural` names the kind in `defaults:` of a grammar, its list (`ablate list probes`) and its entry points
    (`ablate.probes`). `folder` is below the package. `below` says what implements a declaration, below the import of
    torch, and `way` how to mark it as such; both are empty for a kind that needs no implementation.
    """

    name: str
    noun: str
    plural: str
    folder: str
    below: str
    way: str

    @property
    def group(self) -> str:
        """The entry point group of this kind."""
        return f"ablate.{self.plural}"

    @property
    def a_noun(self) -> str:
        """The noun with its indefinite article."""
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def files(self) -> tuple[Path, ...]:
        """Return every Python file of its folder, sorted by path; not all of them contain declarations."""
        return tuple(sorted((PACKAGE / self.folder).rglob("*.py")))


COMPONENT = Kind("component", "component", "components", "components", "module", "decorate its nn.Module with")
PROBE = Kind("probe", "probe", "probes", "probes", "measurement", "decorate the function that measures with")
OPTIMIZER = Kind(
    "optimizer", "optimiser", "optimizers", "train/optimizers", "update", "decorate the function that builds it with"
)
SCHEDULE = Kind("schedule", "schedule", "schedules", "train/schedules", "", "")
OBJECTIVE = Kind(
    "objective", "objective", "objectives", "train/objectives", "loss", "decorate the class that computes it with"
)
SAMPLER = Kind(
    "sampler", "sampler", "samplers", "execute/search/samplers", "proposer", "decorate the function that makes it with"
)
CORPUS = Kind("corpus", "corpus", "corpora", "data/corpora", "reader", "decorate the function that reads it with")

KINDS = (COMPONENT, PROBE, OPTIMIZER, SCHEDULE, OBJECTIVE, SAMPLER, CORPUS)
