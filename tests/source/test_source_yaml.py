"""Located values stand where they say, and every limit of the reader holds."""

import time

import pytest
import yaml
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.errors import InputError
from ablate.source.compose import MAX_DEPTH, MAX_NODES
from ablate.source.located import Items, Mapping, Scalar, Source, to_python
from ablate.source.yaml import MAX_BYTES, parse_yaml, read_yaml


def walk(located):
    yield located
    if isinstance(located, Mapping):
        for key, value in located.entries:
            yield key
            yield from walk(value)
    elif isinstance(located, Items):
        for item in located:
            yield from walk(item)


# Documents written by a small writer of our own, which notes where each scalar stands.

WORDS = st.text("abcdefgh_äπ漢😀", min_size=1, max_size=6).filter(lambda word: word not in ("true", "null"))
SCALARS = st.one_of(
    WORDS.map(lambda word: (word, word)),
    WORDS.map(lambda word: (f"'{word}: {word}'", f"{word}: {word}")),
    WORDS.map(lambda word: (f'"{word} # {word}"', f"{word} # {word}")),
    st.integers(-999, 999).map(lambda number: (str(number), number)),
    st.floats(-1e9, 1e9).map(lambda number: (repr(number), number)),
    st.sampled_from([("true", True), ("~", None), ("1e-6", 1e-6), ("off", "off")]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
SPACES = st.sampled_from(["", " ", "  ", "\n   ", " # a comment, 漢\n   "])
ENDS = st.sampled_from(["\n", "\r\n", "  # πt\n", "\n\n", "\r\n  \r\n"])


class Writer:
    def __init__(self, draw):
        self.draw, self.text, self.places = draw, "", []

    def scalar(self, written, value):
        self.places.append((len(self.text), written, value))
        self.text += written

    def flow(self, tree):
        if isinstance(tree, tuple):
            self.scalar(*tree)
            return
        opening, closing = "[]" if isinstance(tree, list) else "{}"
        self.text += opening
        for number, item in enumerate(tree):
            self.text += (", " if number else "") + self.draw(SPACES)
            if isinstance(tree, dict):
                self.scalar(item, item)
                self.text += ": " + self.draw(SPACES)
                item = tree[item]
            self.flow(item)
        self.text += " " + self.draw(SPACES) + closing

    def block(self, tree, indent=""):
        if not tree or isinstance(tree, tuple) or self.draw(st.booleans()):
            self.flow(tree)
            self.text += self.draw(ENDS)
            return
        for number, item in enumerate(tree):
            self.text += indent if number or not indent else ""
            if isinstance(tree, dict):
                self.scalar(item, item)
                self.text += ":"
                item = tree[item]
            else:
                self.text += "-"
            nested = item and not isinstance(item, tuple)
            if nested and self.draw(st.booleans()):
                self.text += self.draw(ENDS) + indent + "  "
                self.block(item, indent + "  ")
            else:
                self.text += " "
                self.flow(item)
                self.text += self.draw(ENDS)


def plain(tree):
    if isinstance(tree, tuple):
        return tree[1]
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    return {key: plain(value) for key, value in tree.items()}


@pytest.mark.fast
@settings(deadline=None)
@given(TREES, st.data())
def test_values_and_places_of_random_documents(tree, data):
    writer = Writer(data.draw)
    writer.block(tree)
    located = parse_yaml(writer.text)
    assert to_python(located) == plain(tree)
    scalars = [found for found in walk(located) if isinstance(found, Scalar)]
    assert [(s.span.start, s.span.text, s.value) for s in scalars] == writer.places
    for scalar in scalars:
        before = writer.text[: scalar.span.start].replace("\r\n", "\n")
        assert scalar.span.line == before.count("\n") + 1
        assert scalar.span.column == len(before) - before.rfind("\n")


@settings(deadline=None, max_examples=examples_of(200))
@given(st.text(st.sampled_from(list("ab1:-?,[]{}#&*!|>'\"%@`<~ \n\t\r\\\ufeff\x00\x85\u2028\ud83dλ")), max_size=40))
def test_any_text_is_read_or_refused_in_words(text):
    try:
        located = parse_yaml(text)
    except InputError as refusal:
        assert str(refusal).startswith("error: ")
    else:
        for found in walk(located):
            assert 1 <= found.span.line <= found.span.end_line
            assert found.span.start <= found.span.end <= len(text)


@pytest.mark.fast
def test_spans_of_collections_anchors_and_blocks():
    text = "a: &x !!seq # list\n  [1, 2]\nb:\n  c: *x\n  d: |\n    one\n\n# end\n"
    located = parse_yaml("\ufeff" + text, "t.yaml")
    assert to_python(located) == {"a": [1, 2], "b": {"c": [1, 2], "d": "one\n"}}
    assert located["a"].span.text == "[1, 2]"
    assert located["b"].span.text == "c: *x\n  d: |\n    one"
    assert located["b"]["c"] is located["a"]  # shared, and shown where it is written
    assert (located.span.line, located.span.column, located.key("b").span.line) == (1, 1, 3)


@pytest.mark.fast
def test_a_mapping_answers_for_its_keys():
    located = parse_yaml("a: 1\nb:\n")
    assert list(located) == ["a", "b"] and len(located) == 2 and "b" in located
    assert located.get("c") is None
    assert located.get("b") == Scalar(None, "", located.span)
    assert hash(located) == hash(parse_yaml("\n\na:   1\nb: ", "elsewhere"))
    with pytest.raises(KeyError):
        located.key("c")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("written", "part", "expected"),
    [
        ("1/sqrt(2*detph)", "detph", "detph"),
        ("'1/detph'", "detph", "detph"),
        ('"1/\\x64etph"', "detph", '"1/\\x64etph"'),
    ],
)
def test_part_of_a_scalar(written, part, expected):
    scalar = parse_yaml(f"gain: {written}")["gain"]
    at = scalar.text.index(part)
    assert scalar.within(at, at + len(part)).text == expected


@pytest.mark.fast
def test_lines_of_a_source():
    source = Source("x", "a\r\nbb\rccc\n")
    assert [source.line(number) for number in (1, 2, 3, 4, 9)] == ["a", "bb", "ccc", "", ""]
    assert source.span(3, 5).text == "bb" and source.offset(3, 1) == 6


# Limits


def refusal(text):
    with pytest.raises(InputError) as caught:
        parse_yaml(text)
    return str(caught.value)


@pytest.mark.fast
def test_depth():
    assert to_python(parse_yaml("[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)))
    assert "nested deeper than 64" in refusal("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    assert "nested deeper than 64" in refusal("- " * 5000)
    half = "[" * 40 + "1" + "]" * 40
    assert "nested deeper than 64" in refusal(f"a: &a {half}\nb: {'[' * 30}*a{']' * 30}")
    assert parse_yaml(f"a: &a {half}\nb: [*a]")


@pytest.mark.full
def test_number_of_values():
    assert len(parse_yaml("[" + "1," * (MAX_NODES - 1) + "]")) == MAX_NODES - 1
    assert "more than 20,000 values" in refusal("[" + "1," * MAX_NODES + "]")


@pytest.mark.fast
def test_an_alias_counts_as_all_it_stands_for():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))
    assert "an alias counts as everything it stands for" in refusal(bomb)
    assert len(yaml.safe_load(bomb)) == 9  # PyYAML itself would hand the bomb on
    assert parse_yaml("\n".join(bomb.splitlines()[:3]))


@pytest.mark.fast
def test_size_of_a_file(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_text("a: 1 #".ljust(MAX_BYTES))
    assert to_python(read_yaml(path)) == {"a": 1}
    path.write_text("a: 1 #".ljust(MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_yaml(path)
    assert "larger than 1 MiB" in refusal("#" * (MAX_BYTES + 1))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("data", "message", "place"),
    [
        (b"a: 1\nb: \xff\n", "this is not UTF-8: byte 0xff at offset 8", ":2:4"),
        ("é: ".encode() + b"\xe9", "this is not UTF-8: byte 0xe9 at offset 4", ":1:4"),
        ("a: 1".encode("utf-16"), "it looks like UTF-16", ":1:1"),
        (b"a: \x00", "the character U+0000 is not allowed in YAML", ":1:4"),
        (b"", "the document is empty", ":1:1"),
    ],
)
def test_bytes_that_are_no_text(tmp_path, data, message, place):
    path = tmp_path / "odd.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    assert message in str(caught.value) and f"odd.yaml{place}\n" in str(caught.value)


@pytest.mark.fast
def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "op_vs_preln.yaml").write_text("a: 1")
    with pytest.raises(InputError, match=r"(?s)no such file.*did you mean 'op_vs_preln.yaml'\?"):
        read_yaml(tmp_path / "op_vs_prelm.yaml")
    with pytest.raises(InputError, match="is a directory"):
        read_yaml(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_yaml(tmp_path / "missing" / "x.yaml")
    with pytest.raises(InputError, match="null"):
        read_yaml("a\0b")


# Time: 1 MiB takes 1 to 2.5 s at worst (two cores, one at work). Clocks differ, so what is tested is that it grows no
# faster than the text, on the shapes that were found slowest.

SLOW = {
    "blank lines": lambda size: "a: >\n" + "\n" * (size - 5),
    "plain lines": lambda size: "x\n" * (size // 2),
    "directives": lambda size: "%A b\n" * (size // 5 - 1) + "a: 1",
    "one long tag": lambda size: "!" + "a" * (size - 3) + " x",
    "one long line of equal keys": lambda size: "{" + "a: 1," * (size // 110) + "}",
}


def growth(read, make):
    """How many times longer half of 1 MiB takes than an eighth of it."""
    seconds = []
    for size in (MAX_BYTES // 8, MAX_BYTES // 2):
        text, start = make(size), time.process_time()
        read(text)
        seconds.append(time.process_time() - start)
    return (seconds[1] + 0.02) / (seconds[0] + 0.02)


def read_or_refuse(text):
    try:
        parse_yaml(text)
    except InputError as refused:
        assert len(str(refused)) < 100_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", SLOW)
def test_time_grows_no_faster_than_the_text(case):
    assert any(growth(read_or_refuse, SLOW[case]) < 8 for _ in range(3)), "a busy machine is not busy three times"


@pytest.mark.full
def test_quadratic_time_would_be_seen():  # the test above can fail
    quadratic = growth(
        lambda text: sum(text.count("\n", start) for start in range(0, len(text), 64)), SLOW["plain lines"]
    )
    assert quadratic > 8
