"""A report as one self-contained HTML file: no script, no request. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ablate.output.escape import for_html as escape
from ablate.report import document as doc

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""A browser loads nothing for a page."""

ON_PAPER = '<p class="paper dim">Folded sections are printed only if they were opened before.</p>'


def render(document: doc.ReportDocument) -> str:
    """Return the whole file, with a list of its sections above the first. The same document gives the same text."""
    shown = escape(document.title)
    about = escape(" · ".join(document.about))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{shown}</h1>\n<p class="dim">{about}</p>\n'
        + "\n".join(_body(document))
        + f"\n{ON_PAPER}\n</main>\n</body>\n</html>\n"
    )


def _body(document: doc.ReportDocument) -> Iterator[str]:
    sections = [(part, _part(part, 2)) for part in document.parts]
    titles = [part.title for part, text in sections if isinstance(part, doc.Section) and text]
    listed = False
    for part, text in sections:
        if isinstance(part, doc.Section) and text and not listed:
            links = "".join(f'<li><a href="#{slug(title)}">{escape(title)}</a></li>' for title in titles)
            yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
            listed = True
        if text:
            yield text


def _parts(parts: Iterable[doc.Part], level: int) -> str:
    return "\n".join(filter(None, (_part(part, level) for part in parts)))


def _part(part: doc.Part, level: int) -> str:
    match part:
        case doc.Lead(sentences):
            return f'<div class="answer">{_paragraphs(sentences)}</div>'
        case doc.Statements(lines):
            return f'<div class="answer">{_paragraphs(line.words for line in lines)}</div>'
        case doc.Prose(text, kind):
            status = ' role="status"' if kind == "warning" else ""
            name = {"plain": "", "note": ' class="note"', "warning": ' class="partial"'}[kind]
            return f"<p{name}{status}>{_words(text)}</p>"
        case doc.BulletList(lines, kind):
            marked = "" if kind == "plain" else f' class="{"beware" if kind in ("beware", "unequal") else "dim"}"'
            items = _bullets(lines)
            return f"<div{marked}>{items}</div>" if marked and lines else items if lines else ""
        case doc.Verbatim(text, small=small):
            return f'<pre class="{"long" if small else "wrap"}">{escape(text)}</pre>'
        case doc.VerdictGrid():
            return _verdicts(part)
        case doc.TableOf(grid, titled, bare):
            return _table_of(grid, level, titled=titled, bare=bare)
        case doc.GroupedTable() | doc.FrontTable():
            return _table_of(part.grid, level)
        case doc.Figure():
            return _figure(part)
        case doc.Group(parts):
            inside = "".join(_part(child, level) for child in parts)
            return f'<div class="plots small">{inside}</div>' if inside else ""
        case doc.Stacked(parts):
            return f"<div>{_parts(parts, level)}</div>"
        case doc.Fold():
            return _fold(part, level)
        case doc.Section(title, parts, folded, note):
            inside = _parts(parts, level + 1)
            inside = f"{_note(note)}\n{inside}" if note and inside else inside
            return _section(title, inside, level, folded=folded) if inside else ""


def _section(title: str, inside: str, level: int, *, folded: bool) -> str:
    named = f'<h{level} id="{slug(title)}">{escape(title)}</h{level}>'
    if folded:
        return f'<details class="appendix"><summary>{named}</summary>{inside}</details>'
    return f"{named}\n{inside}"


def slug(title: str) -> str:
    """Return a title as an id.

    >>> slug("Every block trained")
    'every-block-trained'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def _fold(fold: doc.Fold, level: int) -> str:
    name = f"<b>{escape(fold.name)}</b> " if fold.name else ""
    marks = "; ".join(f"<code>{escape(mark)}</code>" for mark in fold.code)
    words = " ".join(filter(None, (escape(fold.summary), marks)))
    return f"<details><summary>{name}{words}</summary>{_parts(fold.parts, level + 1)}</details>"


def _verdicts(grid: doc.VerdictGrid) -> str:
    """On a narrow screen each row is a card, so that every number stays visible."""
    first, *names = grid.heading
    head = f'<th scope="col">{escape(first)}</th>' + "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(cell, name) for cell, name in zip(cells, names, strict=True))
        + "</tr>\n"
        for label, cells in grid.rows
    )
    return _scrolling(grid.title, head, body, ' class="grid"')


def _scrolling(title: str, head: str, body: str, kind: str = "") -> str:
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title, quote=True)}"><table{kind}>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: doc.Cell, name: str) -> str:
    number = f"<span>{escape(cell.number)}</span>" if cell.number else ""
    metric = f"<i>{escape(name)}</i>"
    return f'<td class="v-{cell.verdict.replace("_", "-")}">{metric}<b>{escape(cell.words)}</b>{number}</td>'


def _figure(figure: doc.Figure) -> str:
    shades = "".join(
        f'<span><i style="background:var(--shade{shade})"></i>{escape(text)}</span> ' for shade, text in figure.key
    )
    key = f'<div class="key">{shades}</div>' if shades else ""
    return f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}{key}</figcaption></figure>\n"


def _table_of(grid: doc.Grid, level: int, *, titled: bool = True, bare: bool = False) -> str:
    if bare:
        return _table(grid) if grid.rows else ""
    parts = [f'<h{level} id="{slug(grid.title)}">{escape(grid.title)}</h{level}>'] if titled else []
    parts += [_note(grid.note)] if grid.note else []
    parts += [_table(grid)] if grid.rows else []
    parts += [f'<div class="beware">{_bullets(grid.caveats)}</div>'] if grid.caveats else []
    parts += [f'<div class="dim">{_bullets(grid.remarks)}</div>'] if grid.remarks else []
    return "\n".join(parts)


def _note(note: str) -> str:
    return f'<p class="note">{escape(note[:1].upper() + note[1:])}.</p>'


def _table(grid: doc.Grid) -> str:
    columns = range(len(grid.heading))
    kind = ["n" if place in grid.numbers else "w" if place in grid.whole else "" for place in columns]
    head = "".join(_entry("th", text, k, ' scope="col"') for text, k in zip(grid.heading, kind, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            _entry("td" if place else "th", text, kind[place], "" if place else ' scope="row"')
            for place, text in enumerate(row)
        )
        + "</tr>\n"
        for row in grid.rows
    )
    return _scrolling(grid.title, head, body)


def _entry(tag: str, words: doc.Words, kind: str, scope: str) -> str:
    inside = escape(words) if isinstance(words, str) else _words(words)
    return f"<{tag}{scope}{f' class={kind}' if kind else ''}>{inside}</{tag}>"


def _paragraphs(lines: Iterable[doc.Words]) -> str:
    return "".join(f"<p>{_words(line)}</p>" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{with_code(line)}</li>" for line in lines) + "</ul>"


def _words(words: doc.Words) -> str:
    return with_code(words) if isinstance(words, str) else "".join(map(_span, words))


def _span(span: doc.StyledText) -> str:
    text = escape(span.text)
    if span.tone == "plain":
        return text
    if span.tone == "strong":
        return f"<b>{text}</b>"
    kind = "dim" if span.tone == "faint" else "v-" + span.tone.replace("_", "-")
    return f'<span class="{kind}">{text}</span>'


def with_code(text: str) -> str:
    """Return a sentence in which text between backticks is code.

    Outside of code, no line ends between the sign of an edit and its name, or between a number and its percent sign.
    """
    pieces = re.split(r"`([^`]+)`", escape(text))
    return "".join(f"<code>{piece}</code>" if place % 2 else _together(piece) for place, piece in enumerate(pieces))


def _together(text: str) -> str:
    return re.sub(r"(?<!\S)-(?=\w)", "-\u2060", text).replace(" %", "\u00a0%")


# The style sheet of a page: light or dark like the reader's system, for narrow and wide screens, and for paper.

CSS = """
:root{--ink:#1b1f24;--faint:#a3acb5;--dim:#59636e;--front:#0b57d0;--reference:#6e2a8c;--fresh:#7a4a00;--paper:#fff;
--line:#d8dee4;--wash:#f3f5f7;--better:#146c2e;--worse:#b3261e;--same:#0b57d0;--lost:#6e2a8c;
--better-wash:#dff3e4;--worse-wash:#fbe3e1;--same-wash:#e1ecfb;--lost-wash:#f1e3f7;
--line0:#1b1f24;--line1:#0b57d0;--line2:#c2410c;--line3:#0f766e;--line4:#8b21c8;--line5:#a06400;
--shade0:#edf3fb;--shade1:#d2e2f6;--shade2:#aecbee;--shade3:#82aee2;--shade4:#558fd2;--shade5:#2f6db8;--shade6:#154c92;
--shade7:#082c61;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--faint:#6b7683;--dim:#9aa5b1;--front:#8ab4f8;--reference:#d7a6ff;
--fresh:#e3b667;--paper:#15181c;--line:#343b43;--wash:#1f2429;
--better:#7bd88f;--worse:#f2938c;--same:#8ab4f8;--lost:#d7a6ff;
--better-wash:#16301d;--worse-wash:#3d1f1d;--same-wash:#1a2a45;--lost-wash:#33203f;
--line0:#e4e8ec;--line1:#8ab4f8;--line2:#ff9d5c;--line3:#4fd1bf;--line4:#d7a6ff;--line5:#f2cf5b;
--shade0:#1b2430;--shade1:#1e3350;--shade2:#214672;--shade3:#2b5f9a;--shade4:#417fc0;--shade5:#6aa2dc;--shade6:#9fc6ef;
--shade7:#dcebfb}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:68rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem}
h2{font-size:1.2rem;margin:2.25rem 0 .25rem}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p,ul{margin:.5rem 0;max-width:46rem}
ul{padding-left:1.2rem}
li{margin:.2rem 0}
.dim,.note,caption{color:var(--dim)}
.note{margin:0 0 .5rem}
.answer{font-size:1.1rem;border-left:4px solid var(--front);padding-left:.9rem;margin:1.25rem 0}
.answer p{margin:.3rem 0}
.beware{border-left:4px solid var(--fresh);padding-left:.9rem}
.partial{border:2px solid var(--fresh);padding:.5rem .9rem;font-weight:600}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:1rem 2rem;align-items:start}
figure{margin:.5rem 0;max-width:36rem}
.small{grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr))}
.small figure{max-width:30rem}
figure svg{width:100%;height:auto;display:block}
figcaption{font-size:.85rem;color:var(--dim)}
.scroll{overflow-x:auto;margin:.5rem 0}
.scroll:focus-visible{outline:2px solid var(--front)}
table{border-collapse:separate;border-spacing:0;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.1rem 0 .4rem;font-size:.85rem}
th,td{padding:.28rem .9rem .28rem 0;text-align:left;vertical-align:top}
thead th{border-bottom:1px solid var(--faint);color:var(--dim);font-weight:600;vertical-align:bottom}
tbody th{font-weight:600;white-space:pre-wrap;position:sticky;left:0;background:var(--paper)}
@media(max-width:40rem){tbody th{max-width:8.5rem}}
tbody th,tbody td{border-bottom:1px solid var(--line)}
.n{text-align:right;white-space:nowrap}
thead .n{white-space:normal}
@media screen and (min-width:40rem){td.w{white-space:nowrap}}
code,pre{font:.86rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--wash);padding:.7rem .9rem;overflow-x:auto;border-radius:4px}
.wrap{white-space:pre-wrap}
details{margin:.5rem 0}
summary{cursor:pointer;padding:.15rem 0}
nav ul{list-style:none;padding:0;margin:.75rem 0;display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.9rem;
max-width:none}
.grid td{padding:.4rem .7rem;border:2px solid var(--paper);border-radius:6px;background:var(--wash);min-width:8rem}
.grid td b{display:block;font-weight:600}
.grid td span{display:block;font-size:.86rem;white-space:nowrap}
.grid td i{display:none}
.grid thead th{padding-left:.7rem}.grid thead th:first-child{padding-left:0}
.grid .v-better,.grid .v-better-by-rank{background:var(--better-wash)}
.grid .v-better b,.grid .v-better-by-rank b{color:var(--better)}
.grid .v-worse,.grid .v-worse-by-rank{background:var(--worse-wash)}
.grid .v-worse b,.grid .v-worse-by-rank b{color:var(--worse)}
.grid .v-equivalent{background:var(--same-wash)}.grid .v-equivalent b{color:var(--same)}
.grid .v-diverged{background:var(--lost-wash)}.grid .v-diverged b{color:var(--lost)}
.grid .v-none{background:none}
@media screen and (max-width:40rem){.grid thead{display:none}.grid,.grid tbody,.grid tr,.grid th,.grid td{display:block}
.grid tbody th{position:static;max-width:none;border:0;padding-top:.8rem}.grid td{margin:.15rem 0}
.grid td i{display:block;font-style:normal;font-size:.8rem;color:var(--dim)}}
.appendix>summary{display:flex;align-items:baseline;gap:.4rem}.appendix>summary::before{content:"▸"}
.appendix[open]>summary::before{content:"▾"}.appendix>summary h2{margin:1rem 0 .25rem}
.key{display:flex;flex-wrap:wrap;gap:.1rem .8rem;margin:.3rem 0}
.key i{display:inline-block;width:.9em;height:.9em;margin-right:.3em;vertical-align:-.1em}
a{color:var(--front)}
summary code,li code{display:inline-block;max-width:100%;overflow-wrap:anywhere}
footer{margin-top:3rem}.paper{display:none}
@media print{:root{--ink:#000;--faint:#888;--dim:#444;--front:#0b3d91;--reference:#5b1f78;--fresh:#6b4000;--paper:#fff;
--better:#0f5223;--worse:#9b1c15;--same:#0b3d91;--lost:#5b1f78;
--better-wash:#e6f5ea;--worse-wash:#fbe9e7;--same-wash:#e8f0fb;--lost-wash:#f4e9f8;
--line:#ccc;--wash:#f6f6f6;
--line0:#000;--line1:#0b57d0;--line2:#c2410c;--line3:#0f766e;--line4:#8b21c8;--line5:#a06400;
--shade0:#edf3fb;--shade1:#d2e2f6;--shade2:#aecbee;--shade3:#82aee2;--shade4:#558fd2;--shade5:#2f6db8;--shade6:#154c92;
--shade7:#082c61;color-scheme:light}
nav{display:none}a{color:inherit;text-decoration:none}
body{max-width:none;padding:0;font-size:10pt}.scroll,pre{overflow:visible}pre{white-space:pre-wrap}
table{font-size:8.5pt}th,td{padding-right:.6rem}.n{white-space:normal}tbody th{position:static}
figure,tr,pre,.answer,.beware{break-inside:avoid}h2,h3,caption,summary{break-after:avoid}
.plots,.small{grid-template-columns:1fr 1fr;gap:.2rem 1rem}
thead{display:table-header-group}
figure{max-width:12cm}.long{columns:3;font-size:6.5pt;line-height:1.3;break-inside:auto;break-before:avoid}.note{break-after:avoid}
.appendix:not([open]){display:none}.paper{display:block}summary{list-style:none}}
"""
