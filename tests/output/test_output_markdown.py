"""What a reader of Markdown sees is the text itself, by a parser that is not ours: no link, cell or HTML of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ablate.output import escape
from ablate.output.escape import visible

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = (
    "[click](javascript:alert(1))",
    "![pixel](http://a/b.png)",
    "<script>alert(1)</script>",
    "<http://a.example>",
    "a | b || c",
    "`code` and ``more`` `",
    "*bold* **bolder** _under_ __score__ ~~gone~~ $x$",
    "# heading",
    "- item\n- item",
    "1. one\n2) two",
    "> quote",
    "```\nfence",
    "---",
    "===",
    "text\n===\n# more",
    "&lt;b&gt; &#65;",
    "[x]: http://a",
    "[x] done",
    "back\\slash\\| end\\",
    "+qk_norm",
    "=1+1",
    "    four blanks",
    "\x1b[31mred\u202e",
    "a <!-- hidden --> b",
)


def texts(tokens):
    """The text that a reader sees, breaks as line feeds, and the kinds of tokens it is made of."""
    said, kinds = [], set()
    for token in tokens:
        kinds.add(token.type)
        if token.type == "inline":
            for child in token.children:
                kinds.add(child.type)
                said.append(seen(child))
        elif token.type == "paragraph_close":
            said.append("\n")
        elif token.type in ("fence", "code_block", "html_block"):
            said.append(token.content)
    return "".join(said).removesuffix("\n"), kinds


def seen(child):
    is_break = child.type in ("softbreak", "hardbreak") or (child.type, child.content) == ("html_inline", "<br>")
    return "\n" if is_break else child.content


def blanks(text: str) -> str:
    """Blanks at the ends of lines and runs of them are not seen in Markdown."""
    return "\n".join(line.strip() for line in visible(text).split("\n")).strip("\n")


ANY = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=30),
    st.text(st.sampled_from("a1 *_`[]()!<>|\\~#-+=.&;:$\n"), max_size=30),
)


@given(ANY)
def test_a_paragraph_is_its_text(text):
    said, kinds = texts(READER.parse(escape.markdown_paragraph("x" + text)))
    assert [line.strip() for line in said.split("\n") if line.strip()] == [
        line.strip() for line in blanks("x" + text).split("\n") if line.strip()
    ]
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "softbreak", "text_special"}


@given(ANY)
@example("- item")
@example("# heading")
@example("0\n ")
def test_a_line_of_a_list_is_its_text(text):
    said, kinds = texts(READER.parse(f"- {escape.for_markdown(text)}"))
    assert blanks(said) == blanks(text)
    assert kinds <= {
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "text", "text_special", "html_inline",
        "paragraph_close", "list_item_close", "bullet_list_close",
    }  # fmt: skip
    assert ("html_inline" in kinds) <= ("\n" in blanks(text))  # the <br> that stands for a line feed


@given(ANY, ANY)
def test_a_table_keeps_its_cells(first, second):
    lines = "\n".join(escape.markdown_table(("head|ing", "b"), [(first, second)]))
    cells = [token.children for token in READER.parse(lines) if token.type == "inline"]
    assert [blanks("".join(map(seen, cell))) for cell in cells] == [
        "head|ing",
        "b",
        blanks(first),
        blanks(second),
    ]
    assert all(child.type in ("text", "text_special", "html_inline") for cell in cells for child in cell)


@given(ANY)
def test_code_is_its_text(text):
    said, kinds = texts(READER.parse("x " + escape.markdown_code(text)))
    line = " ".join(visible(text).split("\n"))
    assert said.removeprefix("x").strip() == line.strip()
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}


@pytest.mark.parametrize("text", ["a | b", "|", "`|`", "a || b `c`", "plain"])
def test_code_within_a_cell_is_its_text_and_ends_no_cell(text):
    lines = f"| head | b |\n| --- | --- |\n| {escape.markdown_code_cell(text)} | next |"
    cells = [token.children for token in READER.parse(lines) if token.type == "inline"]
    assert [seen(child) for cell in cells for child in cell] == ["head", "b", text, "next"]
    assert cells[2][0].type == "code_inline"


@given(ANY)
def test_a_block_of_code_ends_where_its_text_ends(text):
    tokens = READER.parse(escape.markdown_fence("yaml", text) + "\n\nafter")
    assert [token.type for token in tokens][-3:] == ["paragraph_open", "inline", "paragraph_close"]
    assert tokens[-2].content == "after"
    if visible(text).strip("\n"):
        assert tokens[0].type == "fence" and tokens[0].content.strip("\n") == visible(text).strip("\n")


@given(ANY)
def test_a_sentence_has_code_where_it_says_so_and_nothing_else(text):
    _, kinds = texts(READER.parse("- " + escape.markdown_sentence("`a_b|c` is " + text + " and *so* on")))
    assert kinds <= {
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "text", "text_special", "code_inline",
        "paragraph_close", "list_item_close", "bullet_list_close",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["eval_loss", "[-0.082, -0.027]", "p < 0.05", "-0.05", "a (b)", "+qk_norm", "= 3"])
def test_what_means_nothing_is_left_as_it_is(text):
    assert escape.for_markdown(f"at {text}, so").removeprefix("at ").removesuffix(", so") == text


def test_the_reader_would_see_more_without_it():
    _, kinds = texts(READER.parse("\n\n".join(HOSTILE)))
    assert {"link_open", "image", "html_block", "heading_open", "em_open", "fence", "bullet_list_open"} <= kinds
