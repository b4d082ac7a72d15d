"""Tokenizers in files: what is found out about one, its bytes, and that it is known by its content."""

import json
import pickle

import pytest
from data_library import data, prose
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ablate.data.corpus import CorpusError
from ablate.data.sources import Text
from ablate.data.streams import fingerprint, prepare
from ablate.data.subwords import SpecialTokens
from ablate.data.tokenizer import describe_tokenizer, tokenizer_from, train_tokenizer, vocab_size_of
from ablate.space.data import LARGEST, TokenizerFile, UnusableFileError, read_saved

SPECIAL = ["<pad>", "<mask>", "<s>", "</s>"]
anything = st.lists(st.text(), max_size=5).map(lambda texts: [Text(str(i), t.encode()) for i, t in enumerate(texts)])


def byte_level(split=None):
    """Byte-level BPE as GPT-2's, with special tokens at the end, as a model's tokenizer often has them."""
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = level if split is None else pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator([prose(seed, 2000) for seed in range(3)], trainer)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def saved_in(folder, tokenizer, name="tokenizer.json"):
    tokenizer.save(str(folder / name))
    return read_saved(TokenizerFile(file=name), folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def found(folder):
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("\t\t\u00e9", normalized=False)])
    return saved_in(folder, tokenizer)


@pytest.fixture(scope="module")
def trained(found, folder):
    return train_tokenizer(found, [], folder)


def test_what_a_file_says(found, trained):
    library = Tokenizer.from_str(trained.to_json())
    assert vocab_size_of(found) == trained.vocab_size == library.get_vocab_size() == 305
    padding, mask, start, end = (library.token_to_id(token) for token in SPECIAL)
    assert (
        trained.special
        == SpecialTokens(end, padding=padding, mask=mask, start=start)
        == SpecialTokens(303, 300, 301, 302)
    )
    assert data(tokenizer="bytes").model_copy(update={"tokenizer": found}).separator == trained.separator == end
    assert found.loses == ""


@given(texts=anything)
@settings(max_examples=examples_of(60), deadline=None)
def test_byte_level_bpe_gives_every_text_back_and_counts_its_bytes(trained, texts):
    texts = [*texts, Text("added", "x\t\t\u00e9y".encode())]
    tokens = trained.encode(texts)
    assert trained.decode(tokens) == "".join(text.content.decode() + "</s>" for text in texts)
    assert trained.token_bytes()[tokens].sum() == sum(len(text.content) + 1 for text in texts)
    assert (tokens == trained.separator).sum() == len(texts) and (tokens < trained.vocab_size).all()


def test_it_cuts_texts_as_it_was_saved_but_adds_nothing_and_cuts_nothing_off(folder):
    plain = byte_level()
    texts = [Text(str(seed), prose(seed, 500).encode()) for seed in (7, 8)]
    expected = [id for text in texts for id in [*plain.encode(text.content.decode()).ids, plain.token_to_id("</s>")]]
    framed = byte_level()
    framed.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 302), ("</s>", 303)]
    )
    framed.enable_truncation(5)
    framed.enable_padding(length=1000)
    assert len(framed.encode(texts[0].content.decode()).ids) == 1000  # the claim can fail
    assert train_tokenizer(saved_in(folder, framed, "framed.json"), [], folder).encode(texts).tolist() == expected


def test_names_of_special_tokens_in_a_text_are_characters(trained):
    tokens = trained.encode([Text("sly", b"a</s>b<mask>")]).tolist()
    assert tokens.count(trained.separator) == 1 and trained.special.mask not in tokens


def normalising():
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def prefixed():
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def stripping():
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<word>", lstrip=True)])
    return tokenizer


def without_some_bytes():
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


def of_words():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


LOSSY = {
    "normalises text": normalising,
    "adds a space before each text": prefixed,
    "removes text where it splits": lambda: byte_level(pre_tokenizers.Split(Regex("x"), "removed")),
    "strips white space beside some tokens": stripping,
    "has no token for some bytes": without_some_bytes,
    "is not byte-level": of_words,
}


@pytest.mark.parametrize("why", LOSSY)
def test_a_tokenizer_that_loses_text_has_no_bytes(why, folder):
    tokenizer = LOSSY[why]()
    found = saved_in(folder, tokenizer, "lossy.json")
    assert found.loses == f"lossy.json {why}"
    assert train_tokenizer(found, [], folder).token_bytes() is None


def test_pieces_kept_by_a_split_lose_nothing(folder):
    split = pre_tokenizers.Split(Regex("[0-9]"), "isolated")
    assert saved_in(folder, byte_level(split), "split.json").loses == ""


def test_it_is_known_by_its_content(library, cache, found, folder, tmp_path):
    (tmp_path / "other.json").write_text((folder / "tokenizer.json").read_text())
    renamed = read_saved(TokenizerFile(file="other.json"), tmp_path)
    assert renamed == found and renamed.file != found.file and hash(renamed) == hash(found)
    other = saved_in(tmp_path, byte_level(), "tokenizer.json")
    assert other != found and describe_tokenizer(other) != describe_tokenizer(found)

    def report(tokenizer, where):
        return fingerprint(data().model_copy(update={"tokenizer": tokenizer}), where, cache)

    same = [report(found, folder), report(renamed, tmp_path), report(found, folder)]
    assert len({each.fingerprint for each in same}) == 1
    assert report(other, tmp_path).fingerprint != same[0].fingerprint
    assert same[0].vocab_size == 305 and same[0].notes == report(other, tmp_path).notes
    streams = prepare(data().model_copy(update={"tokenizer": found}), folder, cache)
    assert streams.tokenizer.special == train_tokenizer(found, [], folder).special
    assert streams.tokenizer.decode(streams.train[:40]) == Tokenizer.from_file(str(folder / "tokenizer.json")).decode(
        streams.train[:40].tolist(), skip_special_tokens=False
    )


def test_it_is_sent_to_workers_and_recorded_by_its_content(found):
    named = data().model_copy(update={"tokenizer": found})
    sent = pickle.loads(pickle.dumps(named))
    assert sent == named and sent.tokenizer.file == "tokenizer.json" and vocab_size_of(sent.tokenizer) == 305
    assert named.model_dump(mode="json")["tokenizer"] == {"file": found.content}


def test_a_file_that_changed_is_not_used_in_its_place(tmp_path):
    found = saved_in(tmp_path, byte_level())
    normalising().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CorpusError, match="has changed since this was planned"):
        train_tokenizer(found, [], tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CorpusError, match="there is no such file"):
        train_tokenizer(found, [], tmp_path)


def test_it_comes_back_from_its_json(trained, found):
    texts = [Text("new", prose(77, 3000).encode())]
    assert tokenizer_from(found, trained.to_json()).encode(texts).tolist() == trained.encode(texts).tolist()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:-5], "no tokenizer of the library"),
        (lambda text: "[1]", "no tokenizer of the library"),
        (lambda text: text.replace("</s>", "<end>"), "no special token that ends a document"),
        (lambda text: text.replace('"dropout": null', '"dropout": 0.1'), "drops merges at random"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, change, why):
    byte_level().save(str(tmp_path / "tokenizer.json"))
    text = (tmp_path / "tokenizer.json").read_text()
    assert change(text) != text
    (tmp_path / "tokenizer.json").write_text(change(text))
    with pytest.raises(UnusableFileError, match=why) as refused:
        read_saved(TokenizerFile(file="tokenizer.json"), tmp_path)
    assert refused.value.notes


def test_more_tokens_than_a_stream_has_room_for_are_refused(tmp_path):
    tokenizer = of_words()
    described = json.loads(tokenizer.to_str())
    described["model"]["vocab"] |= {f"word{n}": n + 10 for n in range(LARGEST)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(UnusableFileError, match="65,536"):
        read_saved(TokenizerFile(file="tokenizer.json"), tmp_path)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path):
    byte_level().save(str(tmp_path / "tokenizer.json"))
    inside = tmp_path / "space"
    inside.mkdir()
    (inside / "tokenizer.json").symlink_to(tmp_path / "tokenizer.json")
    with pytest.raises(UnusableFileError, match="leads outside the folder"):
        read_saved(TokenizerFile(file="tokenizer.json"), inside)
    assert read_saved(TokenizerFile(file=str(tmp_path / "tokenizer.json")), inside).loses == ""  # said explicitly
    with pytest.raises(UnusableFileError, match="it is a folder"):
        read_saved(TokenizerFile(file=str(inside)), tmp_path)
