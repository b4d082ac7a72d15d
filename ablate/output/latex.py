"""Text within LaTeX: what LaTeX would read as a command or a comment is escaped, and Greek letters are commands."""

from __future__ import annotations

import re

from ablate.output.escape import visible

_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",  # two of them would be a dash
    "[": "{[}",  # after \\ it would begin an argument
    "]": "{]}",
    "*": "{*}",
    "×": r"$\times$",
    "÷": r"$\div$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "…": r"\ldots{}",
    "–": "--",
    "\n": " ",
    "\t": " ",
}
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψω",
        (
            *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"),
            *("mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega"),
        ),
        strict=True,
    )
)
_SIGNS |= {letter: rf"$\{name}$" for letter, name in GREEK.items()}
_NUMBER = re.compile(r"(?<![\w.])-(?=[\d.])")


def for_latex(text: str) -> str:
    r"""Escape a text for a paragraph or a table of LaTeX.

    >>> print(for_latex("peak_kurtosis & 50 %"))
    peak\_kurtosis \& 50 \%
    """
    return "".join(_SIGNS.get(letter, letter) for letter in visible(text))


def numbers_for_latex(text: str) -> str:
    r"""Escape a text with numbers, whose minus signs become those of LaTeX.

    >>> print(numbers_for_latex("-0.061 [-0.089, -0.032]"))
    $-$0.061 {[}$-$0.089, $-$0.032{]}
    """
    return "$-$".join(for_latex(part) for part in _NUMBER.split(text))
