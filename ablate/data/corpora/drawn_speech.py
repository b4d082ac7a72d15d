"""Drawn speech, frames of a filter bank and the sounds that they were drawn from, to be transcribed.

    c_t = c_sound, moved from that of the sound before over its first frames              two formants of each sound
    frame_tf = loudness Σ_k a_k / (1 + ((f - c_tk - speaker) / w)²) + noise,  smoothed over frames

A sound takes a drawn number of frames, is never repeated at once, and runs into the next (coarticulation). A speaker
shifts all formants of an utterance, so no single feature names a sound, and silence of a drawn length is before and
after. The targets are the sounds in order, then token 0, the end: how many there are is not told by the frames.

Each utterance is drawn by a key of its own, its number. Numbers are raw words, and of arithmetic only what is rounded
exactly: the same bytes on every machine.
"""

from __future__ import annotations

from ablate.data.corpora.declare import Layout, Settings, corpus, implements
from ablate.space.documents import Count

LAYOUT = Layout(shape=(96, 20), dtype="float32", targets=12, classes=25)
END = 0  # the token that ends a transcript; sounds are those from 1 on
FEWEST, MOST = 3, LAYOUT.targets - 1  # the fewest and the most sounds of an utterance
SHORTEST, LONGEST = 4, 8  # the fewest and the most frames of a sound
SILENCE = 4  # at most so many frames before and after
FORMANTS = ((3.0, 5.0, 7.0, 9.0), (10.0, 11.5, 13.0, 14.5, 16.0, 17.5))
"""The first and the second formants; each pair is a sound."""
WIDTH = 1.2
GLIDE = 3  # over how many frames a sound comes from the one before
SPEAKER = 1.0  # the most that a speaker shifts formants by, in features: half of what is between two first ones
NOISE = 0.15


@corpus("drawn_speech", source="this work", version=1)
class DrawnSpeech(Settings):
    """`{drawn_speech: 20000}`: how many utterances there are."""

    drawn_speech: Count

    @property
    def layout(self) -> Layout:
        return LAYOUT


from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.data.record_stream import DrawnExamples
from ablate.data.uniform import Uniform, bell

Frames: TypeAlias = npt.NDArray[np.float32]


@implements(DrawnSpeech)
def read(settings: DrawnSpeech, folder: Path) -> DrawnExamples:
    return DrawnExamples("drawn_speech", "utterances", settings.drawn_speech, LAYOUT, draw)


def draw(number: int) -> tuple[Frames, list[int]]:
    """The frames [times, features] of the utterance of a number, and its sounds, the end among them."""
    uniform = Uniform(f"drawn utterance/{number}")
    many, speaker, loudness, before, after = uniform(5).tolist()
    sounds = _sounds(uniform, FEWEST + int(many * (MOST - FEWEST + 1)))
    durations = [SHORTEST + int(share * (LONGEST - SHORTEST + 1)) for share in uniform(len(sounds)).tolist()]
    centres, loud = _formants(sounds, durations, 1 + int(before * SILENCE), 1 + int(after * SILENCE))
    centres = centres + SPEAKER * (2 * speaker - 1)
    away = (np.arange(LAYOUT.shape[1])[None, None, :] - centres[:, :, None]) / WIDTH
    peaks = 1 / (1 + away * away)
    frames = (0.7 + 0.6 * loudness) * loud[:, None] * (peaks[:, 0] + 0.7 * peaks[:, 1])
    for time in range(1, len(frames)):
        frames[time] = 0.3 * frames[time - 1] + 0.7 * frames[time]
    noisy = frames + NOISE * bell(f"drawn utterance/{number}/noise", frames.shape)
    return noisy.astype(np.float32), [*sounds, END]


def _sounds(uniform: Uniform, many: int) -> list[int]:
    sounds: list[int] = []
    for share in uniform(many).tolist():
        others = [sound for sound in range(1, LAYOUT.classes) if sound not in sounds[-1:]]
        sounds.append(others[int(share * len(others))])
    return sounds


def _formants(
    sounds: list[int], durations: list[int], before: int, after: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Both formants of each frame, and whether there is a sound."""
    own = [(FORMANTS[0][(sound - 1) % 4], FORMANTS[1][(sound - 1) // 4]) for sound in sounds]
    centres = [own[0]] * before
    for place, frames in enumerate(durations):
        last, here = own[max(place - 1, 0)], own[place]
        for frame in range(frames):
            come = min((frame + 1) / GLIDE, 1.0)
            centres.append((last[0] + come * (here[0] - last[0]), last[1] + come * (here[1] - last[1])))
    centres += [own[-1]] * after
    loud = np.zeros(len(centres))
    loud[before : len(centres) - after] = 1
    return np.array(centres), loud
