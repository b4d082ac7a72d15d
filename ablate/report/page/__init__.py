"""The page of a space: one record, shown as one HTML file that needs no other and as Markdown.

    record.py         the answer and everything behind it, as frozen values
    answer.py         the answer in sentences: what was found, what stands undecided, what did not help
    verdicts.py       tables of verdicts, of the variants, and of a factorial
    accounts.py       tables of cost, of what was unequal, of noise, of trials and what they ran with
    forest.py         every comparison with its interval, a panel for each metric
    curves.py         losses and probes over training
    heatmaps.py       probes by layer and step
    token_kernels.py  kernels of tokens by position
    gains.py          trained gains over training
    pareto.py         two metrics against each other; the means of two edits that interact
    panels.py         what plots share: colours of variants, axes, how many fit
    html.py           the file for a browser
    markdown.py       Markdown
    glossary.py       what the numbers mean

Every figure has a table beside it or says where its numbers are; what is folded or drawn at fewer steps is said.
"""

from ablate.report.page.html import to_html
from ablate.report.page.markdown import to_markdown
from ablate.report.page.record import PageRecord, Shown

__all__ = ["PageRecord", "Shown", "to_html", "to_markdown"]
