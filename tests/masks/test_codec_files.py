"""A codec's file is its numbers: read back they are the same, and anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.masks import (
    AutoencoderCodec,
    BlockPCACodec,
    IdentityCodec,
    PCACodec,
    codec_bytes,
    codec_of_bytes,
    load_codec,
    save_codec,
)

MASKS = np.random.default_rng(0).integers(0, 2, size=(12, 8, 8))
CODECS = {
    "linear": PCACodec.fit(MASKS, n_components=3, blur=0.5),
    "blocks": BlockPCACodec.fit(MASKS, block_shape=(4, 4), n_components=3),
    "naive": IdentityCodec((8, 8)),
}


@pytest.mark.parametrize("kind", CODECS)
def test_what_is_read_back_encodes_and_decodes_the_same(kind, tmp_path):
    codec = CODECS[kind]
    save_codec(codec, tmp_path / "organ.codec")
    again = load_codec(tmp_path / "organ.codec")
    assert type(again) is type(codec)
    codes = codec.encode(MASKS)
    assert np.array_equal(again.encode(MASKS), codes)
    assert np.array_equal(again.decode(codes), codec.decode(codes))
    assert codec_bytes(again) == codec_bytes(codec)


@given(st.data())
def test_bytes_that_were_changed_are_another_codec_or_none(data):
    raw = codec_bytes(CODECS["linear"])
    place = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.integers(1, 255))
    changed = raw[:place] + bytes([raw[place] ^ other]) + raw[place + 1 :]
    for wrong in (changed, raw[:place], raw + bytes(8), raw + b"x"):
        try:
            found = codec_of_bytes(wrong)
        except InvalidArgument:
            continue
        assert codec_bytes(found) == wrong
        assert wrong != raw


def test_what_is_no_public_numbers_has_no_file(tmp_path):
    with pytest.raises(InvalidArgument, match="numbers alone"):
        codec_bytes(AutoencoderCodec)
    with pytest.raises(InvalidArgument, match="codec's file"):
        load_codec(tmp_path / "missing")
    for wrong in (b"", b"\n", b"[]\n", b'{"format":"tacit-codec/1"}\n', b"[" * 9999 + b"\n"):
        with pytest.raises(InvalidArgument, match="codec's file"):
            codec_of_bytes(wrong)
