"""The sizes a model is built at, and the scope in which the gains of one layer are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

from ablate.block.added import added
from ablate.errors import InputError

COUNTED = ("n_layers", "d_model", "n_heads", "seq_len", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a model: n_layers blocks of width d_model with n_heads heads, for seq_len tokens out of vocab_size.

    `kv_heads` are the heads of keys and values, which queries share evenly (None: as many as heads), `head_width` is
    the width of each (None: d_model / n_heads). A component may have heads of its own: see `own_size`.

    `layer` is the block that the sizes are seen from (from 1); None outside the blocks. `repetition` is how often two
    tokens of one sequence are the same, if it was measured on the text: the correlation of their embeddings.
    `separator` is the token that ends a document. `source_len` is the length of the source that a decoder reads beside
    its own tokens (None: it reads none). Of tokens that stand for no text (None: there is none), `padding` fills up
    sequences or sources, `start` comes before a sequence, and `mask` takes the place of a token to be predicted.
    `sentinels` is the first of those that stand for hidden parts, which follow one another.

    Raises InputError for a size below 1 or not whole, and for a layer that the model does not have.
    """

    n_layers: int
    d_model: int
    n_heads: int
    seq_len: int
    vocab_size: int
    causal: bool = True
    layer: int | None = None
    repetition: float | None = None
    kv_heads: int | None = added(None)
    head_width: int | None = added(None)
    separator: int = added(0)
    source_len: int | None = added(None)
    padding: int | None = added(None)
    start: int | None = added(None)
    mask: int | None = added(None)
    sentinels: int | None = added(None)

    def __post_init__(self) -> None:
        counted = COUNTED if self.source_len is None else (*COUNTED, "source_len")
        wrong = [f"{name} is {getattr(self, name)!r}" for name in counted if not _counts(getattr(self, name))]
        if wrong:
            raise InputError(f"{', '.join(wrong)}\n  = each must be a whole number of at least 1")
        layer = self.layer
        if layer is not None and not (_counts(layer) and layer <= self.n_layers):
            raise InputError(
                f"there is no layer {layer!r} in a model of {self.n_layers} layers\n"
                f"  = layers are counted from 1: give one from 1 to {self.n_layers}"
            )

    def at(self, layer: int | None) -> Sizes:
        """Return the same sizes, seen from a layer; InputError if there is no layer of that number."""
        return replace(self, layer=layer)

    @property
    def d_head(self) -> int:
        """The width of one head: its own, or d_model / n_heads."""
        return self.head_width or self.d_model // self.n_heads

    @property
    def query_width(self) -> int:
        """The width of all queries together."""
        return self.n_heads * self.d_head

    @property
    def key_width(self) -> int:
        """The width of all keys together, and of all values."""
        return (self.kv_heads or self.n_heads) * self.d_head

    def scope(self, layer: int) -> dict[str, float]:
        """Return the names that arithmetic in layer `layer` (from 1) may use; unmeasured sizes are left out."""
        measured = {} if self.repetition is None else {"repetition": self.repetition}
        return measured | {
            "depth": self.n_layers,
            "layer": layer,
            "width": self.d_model,
            "heads": self.n_heads,
            "head_width": self.d_head,
            "context": self.seq_len,
            "vocabulary": self.vocab_size,
        }


def _counts(value: object) -> bool:
    """Return whether a value is a whole number of at least 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
