"""The trials of an Optuna study as a table, from its storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.errors import InputError
from ablate.source.problems import quote
from ablate.store.run_tables import Parts, check_sqlite, tabulated
from ablate.store.table_files import Table

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


def read_study(name: str, study: str, uri: str) -> Table:
    """Read the trials of a study; InputError for one that cannot be read or is not there."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    check_sqlite(uri, "studies", "Optuna")
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = optuna.storages.RDBStorage(uri, skip_table_creation=True)
        if study not in (known := optuna.get_all_study_names(storage)):
            raise InputError(f"{uri} has no study {quote(study)}\n  = it has {', '.join(known) or 'none'}")
        trials = optuna.load_study(study_name=study, storage=storage).get_trials(deepcopy=False)
    except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
        raise InputError(f"{uri} cannot be read: {str(error).splitlines()[0]}") from None
    finally:
        optuna.logging.set_verbosity(level)
    return tabulated(name, [_parts(trial) for trial in trials])


def _parts(trial: FrozenTrial) -> Parts:
    values = trial.values or ()
    names = ("value",) if len(values) == 1 else tuple(f"value_{k}" for k in range(len(values)))
    return {
        "": {"number": trial.number, "state": trial.state.name},
        "params": trial.params,
        "metrics": dict(zip(names, values, strict=True)),
        "user_attrs": trial.user_attrs,
    }
