"""Key rules beyond the published vectors: endpoints, headers, deny-list, embedded files, ids, volatile values."""

import base64
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.canonical import RULES, canonical_json, content_hash, preimage, request_keys

CHAT = "/v1/chat/completions"


def keys(body, path=CHAT, **options):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_keys("POST", path, data, **options)


def says(content, **more):
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}


def test_the_stored_key_is_the_version_and_the_whole_digest():
    made = keys(says("hi"))
    pre = preimage("POST", "/chat/completions", canonical_json(says("hi")))
    assert made.exact == f"v1:{content_hash(pre)}"
    assert made.canonical == canonical_json(says("hi"))
    assert RULES == "v1"


def test_keys_are_pinned():
    """A change of these digests is a change of the rules: raise RULES and re-key, or take the change back."""
    body = says(
        [{"type": "text", "text": "hé"}],
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"b": {}, "a": {}}}}}],
        seed=2**60,
        stream=True,
    )
    made = keys(body, volatile=[("now", "x")], headers=[("OpenAI-Beta", "b, a")], query="api-version=1")
    assert made.exact == "v1:84129a67ee70aa12bbc48e40a3c49788344e6a1686957f6c63b569d61e903355"
    assert made.semantic == "v1:3d8e2473e3b32edbf0cb49597d6a7b72ba6fad873a8d9c6f338890a58cd75973"


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", "/chat/completions"),
        ("/chat/completions", "/chat/completions"),
        ("/v1/v1/responses", "/v1/responses"),
        ("/openai/v1/responses", "/responses"),
        ("/api/v1/embeddings/", "/embeddings"),
        ("//v1//embeddings", "/embeddings"),
        ("/v1beta/openai/chat/completions", "/chat/completions"),
        ("/proxy/team/chat/completions", "/chat/completions"),
        ("/openai/deployments/d/chat/completions", "/chat/completions"),
        ("/v1/responses/resp_1/cancel", "/responses/resp_1/cancel"),
        ("/v1/models", "/models"),
        ("/classify", "/classify"),
        ("/v1", "/v1"),
        ("", "/"),
    ],
)
def test_endpoint(path, endpoint):
    assert keys(says("hi"), path).endpoint == endpoint


def test_a_deployment_in_the_path_is_the_model():
    azure = "/openai/deployments/{}/chat/completions"
    assert keys(says("hi"), azure.format("m")).exact == keys(says("hi")).exact
    assert keys(says("hi"), azure.format("n")).exact == keys(says("hi", model="n")).exact
    bare = {"messages": says("hi")["messages"]}
    assert keys(bare, azure.format("my%20m")).exact == keys(says("hi", model="my m")).exact


def test_method_and_endpoint_count():
    body = json.dumps(says("hi")).encode()
    made = {request_keys(m, p, body).exact for m in ("POST", "PUT") for p in ("/v1/chat/completions", "/v1/responses")}
    assert len(made) == 4
    assert request_keys("post", CHAT, body) == request_keys("POST", CHAT, body)


def test_headers_that_change_behaviour_count_whatever_their_case_and_order():
    plain = keys(says("hi")).exact
    one = keys(says("hi"), headers=[("OpenAI-Beta", "b,a"), ("Authorization", "Bearer 1")]).exact
    two = keys(says("hi"), headers=[("x-request-id", "7"), ("openai-beta", "a, b")]).exact
    assert one == two != plain
    assert keys(says("hi"), headers=[("anthropic-version", "2023-06-01")]).exact != plain


def test_query_counts_decoded_sorted_and_without_credentials():
    plain = keys(says("hi")).exact
    assert keys(says("hi"), query="b=%31&a=2&api-key=s3").exact == keys(says("hi"), query="a=2&b=1").exact != plain
    assert keys(says("hi"), f"{CHAT}?a=2", query="b=1").exact == keys(says("hi"), query="a=2&b=1").exact
    assert keys(says("hi"), query="key=abc").exact == plain
    assert keys(says("hi"), query="a=").exact != plain


@pytest.mark.parametrize(
    "name",
    ["user", "safety_identifier", "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"],
)
def test_parameters_outside_both_keys(name):
    assert keys(says("hi", **{name: "x"})).exact == keys(says("hi")).exact
    assert keys(says("hi", **{name: "x"}), "/v1/unknown").exact != keys(says("hi"), "/v1/unknown").exact


@pytest.mark.parametrize("name", ["store", "service_tier", "stream", "stream_options"])
def test_parameters_outside_the_semantic_key(name):
    one, other = keys(says("hi", **{name: True})), keys(says("hi"))
    assert one.exact != other.exact
    assert one.semantic == other.semantic


@pytest.mark.parametrize("name", ["background", "some_new_parameter", "temperature"])
def test_unknown_parameters_count_in_both_keys(name):
    one, other = keys(says("hi", **{name: True})), keys(says("hi"))
    assert one.exact != other.exact
    assert one.semantic != other.semantic


def test_null_is_absent_only_semantically_and_only_where_listed():
    assert keys(says("hi", tools=None)).exact != keys(says("hi")).exact
    assert keys(says("hi", tools=None)).semantic == keys(says("hi")).semantic
    assert keys(says("hi", novelty=None)).semantic != keys(says("hi")).semantic


def test_required_and_enum_are_sets_semantically():
    def tool(required, enum):
        properties = {"a": {"enum": enum}, "b": {}}
        return says(
            "hi",
            tools=[
                {
                    "type": "function",
                    "name": "f",
                    "parameters": {"properties": properties, "required": required, "default": {"required": required}},
                }
            ],
        )

    one, other = keys(tool(["a", "b"], [1, "x"])), keys(tool(["b", "a"], ["x", 1]))
    assert one.exact != other.exact
    # The default is data, so its list keeps its order.
    assert one.semantic != other.semantic
    assert keys(tool(["a"], [1, "x"])).semantic == keys(tool(["a"], ["x", 1])).semantic


def test_a_property_named_properties_is_not_mistaken_for_the_keyword():
    def schema(inner):
        return says("hi", response_format={"schema": {"properties": {"properties": inner}}})

    one, other = schema({"type": "string", "description": "d"}), schema({"description": "d", "type": "string"})
    assert keys(one).exact == keys(other).exact


def test_data_in_a_schema_is_no_schema():
    def schema(*names):
        return says("hi", response_format={"schema": {"default": {"properties": dict.fromkeys(names, 1)}}})

    assert keys(schema("a", "b")).exact == keys(schema("b", "a")).exact


def test_property_order_counts_at_any_depth_of_a_schema():
    def schema(*names):
        inner = {"items": {"anyOf": [{"properties": {name: {"type": "string"} for name in names}}]}}
        return says("hi", response_format={"json_schema": {"schema": {"$defs": {"x": inner}}}})

    assert keys(schema("a", "b")).exact != keys(schema("b", "a")).exact
    assert keys(schema("a", "b")).semantic == keys(schema("b", "a")).semantic


@pytest.mark.parametrize("field", ["b64_json", "data", "file_data", "file_url", "image_url", "url"])
def test_base64_in_either_alphabet_and_padding_is_one_file(field):
    data = bytes(range(251)) * 2
    plain = base64.b64encode(data).decode()
    url_safe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    made = {
        keys(says([{"type": "some_file", "some_file": {field: text}}])).exact
        for text in (plain, url_safe, plain[:76] + "\r\n" + plain[76:])
    }
    assert len(made) == 1


def test_short_base64_is_text():
    def file(text):
        return keys(says([{"type": "file", "file": {"file_data": text}}])).exact

    assert file("QUJD_w") != file("QUJD/w")


def test_a_media_type_is_compared_without_case():
    def file(url):
        return keys(says([{"type": "file", "file": {"file_data": url}}])).exact

    assert file("data:Application/PDF;base64,QUJD") == file("data:application/pdf;base64,QUJD")


def test_base64_that_decodes_alike_but_is_written_differently_is_not_merged():
    one = "QUJD" * 20 + "QQ"
    other = "QUJD" * 20 + "QR"

    def file(text):
        return says([{"type": "file", "file": {"file_data": text}}])

    assert base64.b64decode(one + "==") == base64.b64decode(other + "==")
    assert keys(file(one)).exact != keys(file(other)).exact


def test_text_that_looks_like_a_file_is_text():
    url = "data:text/plain;base64," + "QUJD" * 30
    assert keys(says(url)).exact != keys(says(url + "\n")).exact
    assert url.encode() in keys(says(url)).canonical


def test_a_remote_image_is_text_and_flagged():
    def image(url):
        return keys(says([{"type": "image_url", "image_url": {"url": url}}]))

    assert image("https://example.com/a.png").flags == ("remote-url",)
    assert image("https://example.com/a.png").exact != image("https://example.com/b.png").exact
    assert image("data:image/png;base64,QUJD").flags == ()


@given(st.text("⟦⟧now#0;x", max_size=8), st.text("⟦⟧now#0;x", max_size=8))
def test_text_that_looks_like_our_marks_stays_apart(left, right):
    volatile = [("now", "x")]
    same = keys(says(left), volatile=volatile).exact == keys(says(right), volatile=volatile).exact
    assert same == (left == right)


def test_volatile_values_are_numbered_by_name_and_replaced_longest_first():
    volatile = [("id", "abcdefgh"), ("now", "abcdefgh-0001"), ("id", "zyxwvuts")]
    made = keys(says("abcdefgh-0001 abcdefgh zyxwvuts"), volatile=volatile)
    assert "⟦now#0⟧ ⟦id#0⟧ ⟦id#1⟧".encode() in made.canonical


def test_a_short_volatile_value_counts_only_as_a_word():
    made = keys(says("7 of 1970, x7, 7."), volatile=[("dice", "7"), ("none", "")])
    assert "⟦dice#0⟧ of 1970, x7, ⟦dice#0⟧.".encode() in made.canonical


def test_ids_are_renamed_by_first_appearance_and_listed():
    items = [
        {"type": "message", "id": "msg_9", "role": "user", "content": "hi"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_7", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_7", "output": "1"},
        {"type": "item_reference", "id": "fc_1"},
    ]
    made = keys({"model": "m", "input": items}, "/v1/responses")
    assert made.ids == ("msg_9", "call_7", "fc_1")
    fresh = json.loads(json.dumps(items).replace("fc_1", "fc_2").replace("call_7", "call_8").replace("msg_9", "m"))
    assert keys({"model": "m", "input": fresh}, "/v1/responses").semantic == made.semantic
    assert keys({"model": "m", "input": fresh}, "/v1/responses").exact != made.exact


def test_a_reference_to_something_outside_the_request_is_not_renamed():
    def refers(to):
        return keys({"model": "m", "input": [{"type": "item_reference", "id": to}]}, "/v1/responses").semantic

    assert refers("msg_1") != refers("msg_2")


def test_file_ids_are_content():
    one, other = (keys(says([{"type": "file", "file": {"file_id": name}}])) for name in ("file-1", "file-2"))
    assert one.semantic != other.semantic


def test_arguments_that_are_not_json_stay_text():
    def call(arguments):
        function = {"name": "f", "arguments": arguments}
        return keys(says("hi") | {"messages": [{"role": "assistant", "tool_calls": [{"function": function}]}]})

    assert call("{oops").semantic != call("{oops ").semantic
    assert call('{"a":1.0,"b":2}').semantic == call('{"b":2,"a":1}').semantic


def test_integral_floats_and_the_slow_path_give_the_same_key():
    bodies = [b'{"t":1.0,"x":"\xc3\xa9"}', b'{"x":"\\u00e9","t":1}', b'{"t":1e0,"x":"\xc3\xa9"}']
    assert len({keys(body).exact for body in bodies}) == 1


@pytest.mark.parametrize(
    ("body", "flag"),
    [
        (b'{"a":"\\ud83d"}', "not-canonical"),
        (b'{"a":NaN}', "not-canonical"),
        (b"{oops", "not-canonical"),
        (b"[" * 2000 + b"]" * 2000, "not-canonical"),
        (b'{"a":1,"a":1}', "repeated-key"),
    ],
)
def test_what_has_no_canonical_form_is_keyed_on_its_bytes(body, flag):
    made = keys(body)
    assert made.flags == (flag,)
    assert made.exact == keys(body).exact != keys(body + b" ").exact


def test_no_user_body_collides_with_one_keyed_on_bytes():
    raw = b"{oops"
    pretender = {"⟦bytes⟧": content_hash(raw)}
    assert keys(pretender).exact != keys(raw).exact


def test_other_media_types_are_keyed_on_bytes():
    made = request_keys("POST", "/v1/x", b"\x00\x01", content_type="application/octet-stream")
    assert made.flags == ("bytes",)
    assert made.exact != request_keys("POST", "/v1/x", b"\x00\x02", content_type="application/octet-stream").exact
    assert request_keys("GET", "/v1/models", b"").canonical == b""


def part(name, text, filename=None):
    file = f'; filename="{filename}"' if filename else ""
    return f'content-disposition: form-data; name="{name}"{file}\r\n\r\n{text}'


def form(*parts, boundary="XX", path="/v1/audio/transcriptions", tail="--"):
    body = "".join(f"--{boundary}\r\n{text}\r\n" for text in parts) + f"--{boundary}{tail}\r\n"
    return keys(body.encode(), path, content_type=f'multipart/form-data; boundary="{boundary}"')


def test_parts_of_a_form_count_in_order_with_name_and_file_name():
    base = form(part("file", "abc", "a.wav"), part("model", "m"))
    assert form(part("file", "abc", "a.wav"), part("model", "m"), boundary="a+b.c").exact == base.exact
    for other in (
        form(part("model", "m"), part("file", "abc", "a.wav")),
        form(part("file", "abc", "b.wav"), part("model", "m")),
        form(part("clip", "abc", "a.wav"), part("model", "m")),
        form(part("file", "abd", "a.wav"), part("model", "m")),
    ):
        assert other.exact != base.exact
    assert form(part("file", "abc", "a.wav"), part("model", "m"), part("user", "u")).exact == base.exact
    # A file is content whatever the part is called.
    assert form(part("file", "abc", "a.wav"), part("model", "m"), part("user", "u", "u.txt")).exact != base.exact
    streamed = form(part("file", "abc", "a.wav"), part("model", "m"), part("stream", "true"))
    assert streamed.exact != base.exact
    assert streamed.semantic == base.semantic


def test_a_broken_form_is_keyed_on_bytes():
    assert form(part("a", "b"), tail="").flags == ("bytes",)
    assert keys(b"x", content_type="multipart/form-data").flags == ("bytes",)
    assert keys(b"x", content_type="multipart/form-data; boundary=XX").flags == ("bytes",)
    assert keys(b"--XX\r\nx\r\n--XX--", content_type="multipart/form-data; boundary=XX").flags == ("bytes",)


C012 = [
    (r'{"model":"m","temperature":1}', r'{ "temperature": 1.0, "model":"m" }', True),
    (r'{"q":"caf\u00e9"}', '{"q":"café"}', True),
    ('{"stream":true}', '{"stream":1}', False),
    ('{"messages":[1,2]}', '{"messages":[2,1]}', False),
    ('{"x":null}', "{}", False),
    ('{"seed":9007199254740993}', '{"seed":9007199254740992}', False),
]


@pytest.mark.parametrize(("left", "right", "same"), C012)
def test_c012_what_counts_as_the_same_request_body(left, right, same):
    assert (keys(left.encode()).exact == keys(right.encode()).exact) is same
    hashes = {content_hash(keys(text.encode()).canonical) for text in (left, right)}
    assert (len(hashes) == 1) is same


def test_c012_keys_do_not_depend_on_the_process():
    code = (
        "from harness.canonical import request_keys, tool_key\n"
        'print(request_keys(\'POST\', \'/v1/x\', b\'{"b":[1.5],"a":{"d":1,"c":2}}\').exact,'
        " tool_key('t', None, {'s': {'a', 'b', 'c', 'd'}}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
names = st.sampled_from(["messages", "input", "tools", "stop", "content", "text", "user", "properties", "id"])


@given(st.dictionaries(names | st.text(max_size=3), json_values, max_size=5), st.sampled_from(["/v1/responses", CHAT]))
def test_any_body_has_keys_and_its_spelling_does_not_matter(body, path):
    compact = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    made = keys(compact, path)
    assert "not-canonical" not in made.flags
    # Schema property order counts, so keys stay in place here.
    assert keys(json.dumps(body, indent=1).encode(), path) == made
