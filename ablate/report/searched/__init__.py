"""What a search over blocks found: one record, shown on the terminal, as Markdown, as JSON and as a page.

    record.py     the search as frozen values: what was asked, proposed, trained, and confirmed
    reckoned.py   what follows from them: the front, who beats the reference, hypervolume
    held.py       what fresh seeds left of it
    answer.py     the answer and what to beware of, in sentences
    rows.py       the tables of what was found, as text; course.py those of how it went
    confirmed.py  that of what fresh seeds say, for the terminal
    defined.py    what each number means
    ask_next.py   how to repeat it, and how to ask which edit of a found block matters
    screen.py     the terminal: the answer in one screen
    markdown.py   Markdown
    json_form.py  JSON
    page.py       one HTML file that needs no other (see report/html); plots.py its plots, drawn.py their axes

A search proposes; it does not find out. It looks at many blocks at few seeds, so the best of them are in part the
luckiest: what is said of them is said with that, and what fresh seeds left of it stands beside it.
"""
