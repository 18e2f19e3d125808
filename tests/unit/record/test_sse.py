"""Server-sent events, cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from harness.record import SseEvent, SseParser


def parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def test_every_line_end_ends_a_line():
    assert parse(b"data: a\n\ndata: b\r\n\r\ndata: c\r\r") == [SseEvent("a"), SseEvent("b"), SseEvent("c")]


def test_a_crlf_cut_in_half_is_one_line_end():
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [SseEvent("a\nb")]


def test_comments_hints_and_events_without_data_are_none():
    assert parse(b": wait\n\nretry: 2500\n\nevent: ping\n\ndata:\n\nid: 7\ndata: x\n\n") == [SseEvent("x")]


def test_data_lines_join_and_one_space_is_dropped():
    assert parse(b"event: e\ndata:  a\ndata:b\n\n") == [SseEvent(" a\nb", "e")]


def test_a_byte_order_mark_is_skipped_even_in_halves():
    assert parse(b"\xef", b"\xbb\xbfdata: a\n\n") == [SseEvent("a")]


def test_an_event_without_its_blank_line_is_not_dispatched():
    assert parse(b"data: a\n") == []


def test_only_cr_and_lf_end_lines():
    text = "a\u2028b\u0085c\x0bd"
    assert parse(f"data: {text}\n\n".encode()) == [SseEvent(text)]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), max_size=5), st.data())
def test_where_the_bytes_are_cut_does_not_matter(texts: list[str], data: st.DataObject):
    ends = [data.draw(st.sampled_from(["\n", "\r\n", "\r"])) for _ in texts]
    whole = "".join(f"data: {text}{end}{end}" for text, end in zip(texts, ends, strict=True)).encode()
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=8))
    assert parse(*cut(whole, places)) == [SseEvent(text) for text in texts]
