"""The published vectors of the key rules: digests, and which pairs of requests are one."""

import copy
import hashlib
import json

import pytest

from harness.canonical import canonical_json, parse_json, preimage, request_keys

CHAT = "/v1/chat/completions"
BASE = '{"messages":[{"content":"hi","role":"user"}],"model":"m"'


def digest(body: str, path: str = CHAT) -> str:
    return hashlib.sha256(preimage("POST", path, canonical_json(parse_json(body.encode())))).hexdigest()[:16]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BASE + "}", "e1e39a66931e14cd"),
        ('{"model": "m", "messages": [{"role": "user", "content": "hi"}]}', "e1e39a66931e14cd"),
        (BASE + ',"temperature":1}', "723f5f8488538d8a"),
        (BASE + ',"temperature":1.0}', "723f5f8488538d8a"),
        (BASE + ',"temperature":0.7}', "47382ff11e554b1b"),
        (BASE + ',"x":1e-7}', "f778d95b6805925a"),
        (BASE + ',"x":1e-06}', "0b565ef05a0d1ab9"),
        (BASE + ',"x":1e21}', "c4ea8c9abe277368"),
        (BASE + ',"x":-0.0}', "086590b85699e3c1"),
        (BASE + ',"x":0}', "086590b85699e3c1"),
        (BASE + ',"logprobs":true}', "5e5da48b55295448"),
        (BASE + ',"logprobs":1}', "3f2b5d294ab3d6b9"),
        (BASE + ',"user":null}', "0f7bf85815deba2e"),
        (BASE.replace("hi", "caf\u00e9") + "}", "b657202da5a7edc4"),
        (BASE.replace("hi", "cafe\u0301") + "}", "0fd79d5486c77481"),
    ],
)
def test_digests(body, expected):
    assert digest(body) == expected


def test_digest_of_another_path():
    assert digest(BASE + "}", "/v1/responses") == "ae80650d3c7b4d04"


def test_digest_of_keys_beyond_the_basic_plane():
    assert digest(BASE + ',"metadata":{"\ufb33":"2","\U0001f600":"1","\u20ac":"3"}}') == "a912636cb45f87cc"


def keys(body, path=CHAT, **options):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_keys("POST", path, data, **options)


def relation(left, right):
    return (
        "equal" if left.exact == right.exact else "differ",
        "equal" if left.semantic == right.semantic else "differ",
    )


def chat(**changes):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    return {**body, **changes}


def tool(name, properties=("a", "b"), description="d"):
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in properties}, "required": ["a"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def calls(first="c1", second="c2", results=("A", "B"), arguments='{"q":1}', **extra):
    called = [
        {"id": key, "type": "function", "function": {"name": "f", "arguments": arguments}} for key in (first, second)
    ]
    answers = [
        {"role": "tool", "tool_call_id": key, "content": text}
        for key, text in zip((first, second), results, strict=True)
    ]
    return chat(messages=[{"role": "assistant", "content": "", "tool_calls": called, **extra}, *answers])


def image(url):
    return chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])


def says(text):
    return chat(messages=[{"role": "user", "content": text}])


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NO_TOOLS = chat()
OTHER_USER = chat(tools=[tool("f", properties=("a", "user"))])
EMBED = {"model": "e", "input": "a"}
DATED = "2026-11-30T10:00:00Z"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(chat(tools=[tool("f")]), chat(tools=[tool("f", ("b", "a"))]), "differ equal", id="1"),
        pytest.param(chat(tools=[tool("f"), tool("g")]), chat(tools=[tool("g"), tool("f")]), "differ equal", id="2"),
        pytest.param(chat(tools=[tool("f")]), chat(tools=[tool("f", description="e")]), "differ differ", id="3"),
        pytest.param(chat(tools=[tool("f")]), NO_TOOLS, "differ differ", id="4"),
        pytest.param(calls(refusal=None), calls(), "differ equal", id="5"),
        pytest.param(calls(), calls("x", "y"), "differ equal", id="6"),
        pytest.param(calls(), calls(results=("B", "A")), "differ differ", id="7"),
        pytest.param(
            image(f"data:image/png;base64,{PNG}"),
            image(f"data:image/png;base64,{PNG[:40]}\n{PNG[40:]}"),
            "equal equal",
            id="8-line-break",
        ),
        pytest.param(
            image(f"data:image/png;base64,{PNG}"),
            image(f"data:image/png;base64,{PNG.replace('DUlE', 'DUlF')}"),
            "differ differ",
            id="8-byte",
        ),
        pytest.param(
            image(f"data:image/png;base64,{PNG}"),
            image(f"data:image/jpeg;base64,{PNG}"),
            "differ differ",
            id="8-label",
        ),
        pytest.param(calls(), calls(arguments='{ "q": 1 }'), "differ equal", id="9"),
        pytest.param(chat(seed=9007199254740992), chat(seed=9007199254740993), "differ differ", id="10"),
        pytest.param(chat(stream=True), chat(), "differ equal", id="11"),
        pytest.param(chat(user="u1"), chat(user="u2"), "equal equal", id="12-user"),
        pytest.param(chat(tools=[tool("f")]), OTHER_USER, "differ differ", id="12-property"),
        pytest.param(says(f"it is {DATED}"), says("it is 2026-12-01T10:00:00Z"), "differ differ", id="13-undeclared"),
        pytest.param(chat(model="m-2026-01-01"), chat(model="m"), "differ differ", id="16"),
        pytest.param(chat(stop="x"), chat(stop=["x"]), "differ equal", id="17"),
        pytest.param(says("hi"), says([{"type": "text", "text": "hi"}]), "differ equal", id="18"),
        pytest.param(chat(), chat(temperature=1), "differ differ", id="19"),
        pytest.param(says("a\r\nb"), says("a\nb"), "differ differ", id="24"),
    ],
)
def test_behaviour(left, right, expected):
    assert " ".join(relation(keys(left), keys(right))) == expected


def test_behaviour_13_declared_volatile_values_do_not_count():
    left = keys(says(f"it is {DATED}"), volatile=[("now", DATED)])
    right = keys(says("it is 2026-12-01T10:00:00Z"), volatile=[("now", "2026-12-01T10:00:00Z")])
    assert relation(left, right) == ("equal", "equal")
    assert "it is ⟦now#0⟧".encode() in left.canonical


def test_behaviour_14_sdk_headers_do_not_count():
    one, two = ([("X-Stainless-Retry-Count", count)] for count in ("0", "1"))
    assert relation(keys(chat(), headers=one), keys(chat(), headers=two)) == ("equal", "equal")


def test_behaviour_15_host_and_port_are_not_asked_for():
    hosts = [[("host", f"127.0.0.1:{port}")] for port in (5001, 5002)]
    left, right = (keys(chat(), headers=host) for host in hosts)
    assert relation(left, right) == ("equal", "equal")


def test_behaviour_20_repeated_keys_are_keyed_on_bytes():
    one = keys(b'{"model":"m","model":"n"}')
    other = keys(b'{"model":"m", "model":"n"}')
    assert relation(one, other) == ("differ", "differ")
    assert one.flags == ("repeated-key",)
    assert keys(b'{"model":"m","model":"n"}') == one


def form(boundary, text="hello"):
    body = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n'
        f"content-type: text/plain\r\n\r\n{text}\r\n--{boundary}--\r\n"
    )
    return keys(body.encode(), "/v1/files", content_type=f"multipart/form-data; boundary={boundary}")


def test_behaviour_21_the_boundary_of_a_form_does_not_count():
    assert relation(form("AA"), form("BB")) == ("equal", "equal")
    assert relation(form("AA"), form("AA", "hullo")) == ("differ", "differ")
    assert form("AA").flags == ("multipart",)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (EMBED, {**EMBED, "input": ["a"]}, ("differ", "equal")),
        ({**EMBED, "encoding_format": "base64"}, {**EMBED, "encoding_format": "float"}, ("differ", "differ")),
    ],
)
def test_behaviour_22_embeddings(left, right, expected):
    assert relation(keys(left, "/v1/embeddings"), keys(right, "/v1/embeddings")) == expected


def test_behaviour_23_a_rerun_parent_counts_by_its_output():
    def asked(response, **parents):
        body = {"model": "m", "input": "go on", "previous_response_id": response}
        return keys(body, "/v1/responses", parents=parents)

    assert relation(asked("resp_1"), asked("resp_2")) == ("differ", "differ")
    same = relation(asked("resp_1", resp_1="aa"), asked("resp_2", resp_2="aa"))
    assert same == ("differ", "equal")
    assert relation(asked("resp_1", resp_1="aa"), asked("resp_2", resp_2="bb")) == ("differ", "differ")


def test_behaviour_25_a_third_identical_call_has_the_same_key():
    # That two recordings do not answer a third call is the resolver's; the key must not hide that they are identical.
    first, second, third = (keys(copy.deepcopy(calls())) for _ in range(3))
    assert first == second == third
