"""Words with the same words backwards: pairs that are the same on every machine."""

import random

from ablate.data.corpora.declare import Settings, Text, corpus, implements


@corpus("pairs_of_words", source="this test")
class PairsOfWords(Settings):
    """No settings."""

    @property
    def pairs(self):
        return True


@implements(PairsOfWords)
class Texts:
    title, place, notes = "pairs of words", "pairs of words", ()

    def __init__(self, settings, folder):
        pass

    def stamp(self):
        return "always"

    def texts(self):
        drawn = random.Random(0)
        for group in range(20):
            for number in range(60):
                letters = [drawn.choice("abcdefgh ") for _ in range(drawn.randint(1, 12))]
                for side, text in (("source", letters), ("target", letters[::-1])):
                    yield Text(f"g{group}/{number:02d}/{side}", "".join(text).encode())
