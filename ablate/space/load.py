"""Reading a space: file, profile and --set are laid over its preset and grammar, then every key is checked in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar, read_grammar
from ablate.grammar.named_blocks import ABOUT
from ablate.grammar.named_files import shipped_files
from ablate.source.document import note_unknown_key
from ablate.source.located import Mapping, Scalar
from ablate.source.problems import Problems, nearest, quote, suggest, together
from ablate.source.yaml import is_file, parse_yaml, read_yaml
from ablate.space.blocks import read_blocks
from ablate.space.changed import check_changes, with_changes
from ablate.space.classifier import check_classifier
from ablate.space.constraints import read_warned
from ablate.space.corpora import CorpusSpec
from ablate.space.design import Search
from ablate.space.fits import check_fits
from ablate.space.layers import lay_on_grammar, lay_preset, lay_profile, lay_settings
from ablate.space.layouts import layout_of
from ablate.space.origin import Origins
from ablate.space.paths import ELSEWHERE, is_inside
from ablate.space.search import check_beside
from ablate.space.searched_values import check_searched_values
from ablate.space.sections import Sections
from ablate.space.size_checks import check_ladder
from ablate.space.space import KeptTexts, Space
from ablate.space.streamed import example_length, streamed
from ablate.space.variants import choices_of
from ablate.space.vary_checks import check_vary
from ablate.space.ways import HINTS

REQUIRED = ("space", "question", "grammar", "model", "data", "recipe", "design", "seeds", "measure", "judge", "threads")
OPTIONAL = ("preset", "block", "blocks", "variants", "constraints", "fair", "noise", "profiles")
PRESET = ("model", "data", "recipe", "measure", "judge", "block", "seeds", "threads", "fair", "noise")
"""The sections that a preset may have; the others are the question itself."""


def load_space(
    path: Path,
    catalogue: Catalogue,
    *,
    profile: str | None = None,
    settings: Sequence[str] = (),
    kept: KeptTexts | None = None,
) -> Space:
    """Read a space; `settings` are `path=value` texts. Raises InputError with every mistake found, at its place.

    With the texts that were `kept` of it no file is read, and `path` only names it.
    """
    problems = Problems()
    written = read_yaml(path) if kept is None else parse_yaml(kept.space, str(path))
    if not isinstance(written, Mapping):
        notes = (f"with the keys: {', '.join((*REQUIRED, *OPTIONAL))}",)
        problems.add("a space must be a mapping", written.span, notes=notes)
        problems.raise_if_any()
    assert isinstance(written, Mapping)
    text = written.span.source.text
    corpora = catalogue.of_kind(CorpusSpec)
    written = lay_settings(lay_profile(written, profile, corpora, problems), settings, corpora)
    grammar = _grammar(written, path, catalogue, problems, kept)
    _check_keys(written, problems)
    _check_profiles(written, problems)
    if grammar is None:  # without it nothing more can be checked
        problems.raise_if_any()
    assert grammar is not None
    if grammar.space is not None:
        _check_keys(grammar.space, problems)
    check_presets(grammar, problems)
    located = lay_on_grammar(lay_preset(grammar, written, corpora, problems), written, corpora)
    _check_missing(located, problems)
    space = _space(located, path, profile, tuple(settings), grammar, problems, kept)
    if space is not None and not len(problems):
        check_classifier(space, space.origins, problems)
        check_changes(space, problems)
        check_vary(space, problems)
        check_ladder(space, problems)
        check_searched_values(space, problems)
    problems.raise_if_any()
    assert space is not None
    return _searched_from_variant(replace(space, text=text))


def _searched_from_variant(space: Space) -> Space:
    """Return a space whose search starts from a variant with the changes of that variant, for all that it proposes."""
    search = space.design.search
    if search is None or not space.changes_of(search.from_):
        return space
    problems = Problems()
    changed = with_changes(space, space.variants[search.from_].changes, problems)
    problems.raise_if_any()
    assert changed is not None
    return replace(changed, variants={})


def check_presets(grammar: Grammar, problems: Problems) -> None:
    """Note the keys of presets that are no section of a space, or a section that only the space itself may have."""
    for preset in grammar.presets.values():
        for key, _ in preset.sections.entries:
            if key.value not in PRESET:
                message, accepted = f"unknown key {quote(key.text)} in preset {preset.name}", (*ABOUT, *PRESET)
                problems.add_unknown(message, key.span, key.text, accepted, "a preset accepts")


def _space(
    located: Mapping,
    path: Path,
    profile: str | None,
    settings: tuple[str, ...],
    grammar: Grammar,
    problems: Problems,
    kept: KeptTexts | None,
) -> Space | None:
    """Read the resolved space; None if a section has a mistake."""
    sections = Sections(located, grammar, problems, Origins(located, path, None if kept is None else kept.tokenizers))
    name, question = sections.name(), sections.text("question")
    model, around = sections.model()
    data, recipe = sections.data(), sections.recipe()
    measure = sections.measure()
    judge = sections.judge(measure)
    (seeds, auto), threads = sections.seeds(), sections.threads()
    fair, noise = sections.fair(), sections.noise()
    design = sections.design(measure, recipe, seeds)
    check_fits(model, recipe, data, measure, judge, design, grammar.catalogue, sections.origins, problems)
    if design is not None and design.search is not None:
        check_beside(sections.origins, noise, auto, problems)
        grammar = _starting(design.search, grammar, sections.origins, problems)
    warned = read_warned(located.get("constraints"), design, grammar, problems)
    blocks = read_blocks(located, design, judge, grammar, warned, problems)
    others = {} if blocks is None else choices_of(blocks.variants.values())
    tune = sections.tune(recipe, None if blocks is None else blocks.named, others)
    if (
        name is None
        or question is None
        or model is None
        or around is None
        or data is None
        or recipe is None
        or measure is None
        or judge is None
        or design is None
        or seeds is None
        or fair is None
        or tune is None
        or threads is None
        or blocks is None
    ):
        return None
    layout = layout_of(data, grammar.catalogue)
    return Space(
        name=name,
        question=question,
        path=path,
        profile=profile,
        settings=settings,
        grammar=grammar,
        model=model,
        around=around,
        blocks=blocks.named,
        overrides=blocks.overrides,
        replaced=blocks.replaced,
        data=streamed(
            data,
            recipe,
            length=example_length(model, recipe, grammar.catalogue),
            windows=measure.evaluation.windows,
            layout=layout,
        ),
        recipe=recipe,
        design=design,
        seeds=seeds,
        auto=auto,
        fair=fair.model_copy(update={"tune": tune}),
        noise=noise,
        measure=measure,
        judge=judge,
        threads=threads,
        located=located,
        warned=warned,
        variants=blocks.variants,
        kept=kept,
    )


def _starting(search: Search, grammar: Grammar, origins: Origins, problems: Problems) -> Grammar:
    """Return the grammar at the start that a search names, if it does; one that the grammar lacks is noted."""
    if search.start is None:
        return grammar
    if search.start in grammar.starts:
        return grammar.starting(search.start)
    written = origins.written("design", "search", "start")
    assert written is not None
    message = f"grammar {grammar.name} has no start {quote(search.start)}"
    problems.add_unknown(message, written.span, search.start, tuple(grammar.starts), "its starts are")
    return grammar


def _check_keys(located: Mapping, problems: Problems) -> None:
    known = (*REQUIRED, *OPTIONAL)
    unknown = [key for key, _ in located.entries if key.value not in known]
    for key in unknown:
        free = [word for word in known if word not in located]
        note_unknown_key(problems, key, "", known, free, "a space accepts", HINTS)


def _check_profiles(located: Mapping, problems: Problems) -> None:
    """Check that the names of profiles are texts, since a profile is chosen by a text."""
    profiles = located.get("profiles")
    for key, _ in profiles.entries if isinstance(profiles, Mapping) else ():
        if not isinstance(key.value, str):
            problems.add("the name of a profile must be text", key.span, notes=(f'write it in quotes: "{key.text}"',))


def _check_missing(located: Mapping, problems: Problems) -> None:
    missing = [word for word in REQUIRED if word not in located]
    unknown = [str(key) for key in located if key not in (*REQUIRED, *OPTIONAL)]
    meant = {HINTS.meant(word, "", missing) or nearest(word, missing) for word in unknown}
    first = located.key("space").span if "space" in located else located.entries[0][0].span
    for word in missing:
        if word not in meant:
            problems.add(f"missing key {word!r} in the space", first)


def _grammar(
    located: Mapping, path: Path, catalogue: Catalogue, problems: Problems, kept: KeptTexts | None
) -> Grammar | None:
    """Read the grammar of a space; None if there is none, or if it has mistakes, which are then in `problems`."""
    before = len(problems)
    file = grammar_file(located, path, problems) if kept is None else kept.grammar
    if file is None:
        return None
    texts = None if kept is None else kept.grammars
    try:
        read = read_yaml(file) if texts is None else parse_yaml(texts[""], str(file))
        grammar = read_grammar(read, file, catalogue, problems, texts)
    except InputError as unreadable:
        raise together([*problems.errors(), unreadable]) from None
    return grammar if len(problems) == before else None


def grammar_file(located: Mapping, path: Path, problems: Problems) -> Path | None:
    """Return the grammar beside the space (`grammars/NAME.yaml` next to its folder), else the shipped one of that name.

    A path is relative to the folder of the space. Neither may leave its folder, by `..` or by a link; an absolute path
    may name any file. That there is none is noted.
    """
    named = located.get("grammar")
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        place = named.span if named is not None else located.span
        problems.add("a space needs a grammar", place, notes=("such as grammar: transformer",))
        return None
    name = named.value
    tried = _tried(name, path)
    file = next((candidate for candidate in tried if is_file(candidate)), None)
    if file is not None and not Path(name).is_absolute() and not is_inside(file, tried[file]):
        problems.add(f"{quote(name)} leads out of {tried[file]}", named.span, notes=(ELSEWHERE,))
        return None
    if file is None:
        file = shipped_files("grammar").get(name)
    if file is None:
        shipped = tuple(shipped_files("grammar"))
        beside = (other.stem for folder in tried.values() for other in folder.glob("*.yaml"))
        notes = (*(f"looked for {candidate}" for candidate in tried), f"shipped with ablate: {', '.join(shipped)}")
        label = suggest(name, (*shipped, *beside)) or ""
        problems.add(f"there is no grammar {quote(name)}", named.span, label=label, notes=notes)
    return file


def _tried(name: str, space: Path) -> dict[Path, Path]:
    """Return the paths at which a grammar may be, in the order tried, each with the folder that it must not leave."""
    if name.endswith((".yaml", ".yml")):
        return {space.parent / name: space.parent}
    folders = (up / "grammars" for up in (space.parent.parent, space.parent, Path()))
    return {folder / f"{name}.yaml": folder for folder in folders}
