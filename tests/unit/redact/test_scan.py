"""What the detectors find, and what they leave alone."""

import hashlib
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.redact import scan

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"


def found(text):
    return [(finding.kind, finding.text) for finding in scan(text)]


@pytest.mark.parametrize(
    ("kind", "thing"),
    [
        ("mail", "jane.doe@example.com"),
        ("mail", "j+tag@sub.example.co.uk"),
        ("mail", "jürgen@müller.de"),
        ("mail", "o'neil_7@x-y.io"),
        ("phone", "+49 30 901820"),
        ("phone", "+49 (0)30 90 18 20"),
        ("phone", "+15551234567"),
        ("phone", "+1 (555) 123-4567"),
        ("phone", "(555) 123-4567"),
        ("phone", "555-123-4567"),
        ("phone", "555.123.4567"),
        ("phone", "1-800-555-0199"),
        ("phone", "0049 30 901820"),
        ("phone", "030 90182000"),
        ("phone", "0171/1234567"),
        ("phone", "(030) 90182000"),
        ("phone", "020 7946 0958"),
        ("phone", "01 23 45 67 89"),
        ("phone", "01.23.45.67.89"),
        ("phone", "+33 1 23 45 67 89"),
        ("card", "4111 1111 1111 1111"),
        ("card", "4111-1111-1111-1111"),
        ("card", "4111111111111111"),
        ("card", "5500005555555559"),
        ("card", "2221000000000009"),
        ("card", "3782 822463 10005"),
        ("card", "6011111111111117"),
        ("card", "3530111333300000"),
        ("card", "30569309025904"),
        ("key", "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6"),
        ("key", "sk-ant-api03-Ab1Cd2Ef3Gh4_Ij5Kl6"),
        ("key", "pk-lf-1234abcd-0000-4000-8000-00000000abcd"),
        ("key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("key", "AKIAIOSFODNN7EXAMPLE"),
        ("key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
        ("key", "github_pat_11AAAAAAA0abcdefghij_klmnopq"),
        ("key", "xoxb-123456789012-abcdefABCDEF"),
        ("key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
        ("key", "hf_abcdefghijklmnopqrstuvwxyz0123"),
        ("token", JWT),
        ("private-key", PEM),
        ("private-key", "-----BEGIN PRIVATE KEY-----\nMIIEow cut"),
        ("private-key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----"),
    ],
)
@pytest.mark.parametrize("frame", ["{}", "It is ({}), or so.", "a: {}\nb", '{{"x":"{}"}}'])
def test_found_wherever_it_stands(kind, thing, frame):
    if thing.endswith("cut"):
        frame = "x {}"
    assert found(frame.format(thing)) == [(kind, thing)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcDEF123456ghi789", [("token", "abcDEF123456ghi789")]),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDE=", [("token", "dXNlcjpwYXNzd29yZDE=")]),
        ("Bearer sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6", [("key", "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6")]),
        ("OPENAI_API_KEY=Zx81kQ0pLm22", [("secret", "Zx81kQ0pLm22")]),
        ('"apiKey": "Zx81kQ0pLm22",', [("secret", "Zx81kQ0pLm22")]),
        (r"{\"api_key\": \"Zx81kQ0pLm22\"}", [("secret", "Zx81kQ0pLm22")]),
        ("client-secret => 'Zx81kQ0pLm22'", [("secret", "Zx81kQ0pLm22")]),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfi", [("secret", "wJalrXUtnFEMI/K7MDENG/bPxRfi")]),
        ("The password: hunter2x.", [("secret", "hunter2x")]),
        ("see https://bob:Tr0ub4dor@host.example/x", [("secret", "Tr0ub4dor")]),
        ("postgresql://app:s3cr3tpw@db:5432/x", [("secret", "s3cr3tpw")]),
        ("call me at 5550199", [("phone", "5550199")]),
        ("Tel.: 9876543210", [("phone", "9876543210")]),
        ("phone number 98765 43210", [("phone", "98765 43210")]),
        ("a@b.io, c@d.io", [("mail", "a@b.io"), ("mail", "c@d.io")]),
        ("mailto:a@b.io?subject=x", [("mail", "a@b.io")]),
    ],
)
def test_found_by_its_surroundings(text, expected):
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order 302-555-0199",
        "Order no. 555-123-4567",
        "order #302-5550199-1234567",
        "Order 4711-2026-000123",
        "Bestellung 0171/1234567",
        "ticket 4111111111111112",
        "4111 1111 1111 1112",
        "4111111111111111x and 4111111111111111.5",
        "EAN 4006381333931 4000000000006",
        "id 4000000000000000006",
        "1234567890123456",
        "from 2026-11-30 to 2026-12-01T10:15:00+01:00",
        "30.11.2026 10:15, 01/02/2026",
        "epoch 1764537000000, 1764537000000000",
        "EUR 1.234.567,89 or $1,234,567.89, 555.123 456",
        "+1.2345678901",
        "padded 00123456789",
        "field 0123-456 and 01234-12345678 1234",
        "0.4111111111111111 and -0.4539578763621486",
        "550e8400-e29b-41d4-a716-446655440000",
        "55512345-1234-4567-8901-555123456789",
        "ISBN 978-3-16-148410-0",
        "IBAN DE89 3704 0044 0532 0130 00",
        "10.0.0.1, 192.168.100.200, ::1",
        "version 10.2.3456, 1.2.3-4567",
        "https://shop.example/item/555-123-4567",
        "https://shop.example/call:5550199123",
        "52.520008, 13.404954",
        "call 5 times",
        "call 2026-11-30 or call at 30.11.2026",
        "fax 10.100.200.254",
        "icon@2x.png",
        "git@github.com:owner/name",
        "@harness.tool and a @ b.c",
        "pip install name@1.2.3",
        "max_tokens=1024, completion_tokens: 1024abcd",
        "api_key=os.environ['KEY1']",
        "api_key: <your-key-1>",
        "api_key=${API_KEY_1}",
        "api_key=your-api-key-123",
        "api_key = ⟦secret#1⟧",
        "password: please reset",
        "api_key=aaaaaaaaaaaaaaaa1111",
        "Bearer 0000000000000000000a",
        "pwd=/home/user1/work",
        "secret: xxxxxxxx",
        "the token: it was lost",
        "Bearer authentication",
        "Basic understanding",
        "sk-learn-is-a-library-for-machines",
        "risk-1234567890abcdefgh",
        "https://user:password@example.com/ and https://user:$PASS1@h/",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "⟦mail#1⟧ ⟦phone#12⟧ ⟦card#3⟧",
        "chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ12 fp_44709d6fcb req_0123456789abcdef call_5551234567",
    ],
)
def test_left_alone(text):
    assert found(text) == []


@given(st.uuids() | st.integers(0, 10**12) | st.floats(allow_nan=False, allow_infinity=False))
def test_ids_and_numbers_are_left_alone(value):
    assert found(f"value {value} end") == []
    assert found(f'{{"a":{value}}}') == []


@given(st.binary(max_size=9))
def test_hashes_are_left_alone(data):
    for name in ("md5", "sha1", "sha256", "sha512"):
        assert found(f"sum {hashlib.new(name, data).hexdigest()}.") == []


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_left_alone(moment):
    assert found(f"at {moment.isoformat()}, {moment:%d.%m.%Y %H:%M}, {moment:%Y-%m-%d %H:%M:%S.%f}") == []


@given(st.integers(0, 10**9), st.integers(0, 99), st.sampled_from("€$£"))
def test_prices_are_left_alone(whole, cents, sign):
    assert found(f"{sign}{whole:,}.{cents:02} and {whole}.{cents:02} {sign}") == []


def card(prefix, length, digits):
    body = (prefix + digits)[: length - 1]
    total = sum(sum(divmod(int(d) * (2 - i % 2), 10)) for i, d in enumerate(reversed(body)))
    return body + str(-total % 10)


@given(
    st.sampled_from([("4", 16), ("51", 16), ("2720", 16), ("37", 15), ("6011", 16), ("36", 14), ("62", 19)]),
    st.text("0123456789", min_size=18, max_size=18),
    st.integers(1, 9),
)
def test_every_valid_card_is_found_and_a_wrong_check_digit_is_not(issuer, digits, step):
    number = card(*issuer, digits)
    assert found(f"paid with {number}.") == [("card", number)]
    wrong = number[:-1] + str((int(number[-1]) + step) % 10)
    assert found(f"paid with {wrong}.") == []


local = st.text("abcXYZ019._+-", min_size=1, max_size=20).filter(lambda t: t[0] not in "._+-" and t[-1] != ".")
label = st.text("abcxyz019-", min_size=1, max_size=10).filter(lambda t: t[0] != "-" and t[-1] != "-")


@given(local, st.lists(label, min_size=1, max_size=3), st.sampled_from(["com", "de", "museum", "io"]))
def test_every_mail_address_is_found_whole(name, labels, top):
    address = f"{name}@{'.'.join(labels)}.{top}"
    assert found(f"Write to <{address}> now") == [("mail", address)]


@given(st.from_regex(r"\+[1-9]\d{1,2} \d{2,3} \d{3} \d{3,4}", fullmatch=True))
def test_every_international_number_is_found(number):
    number = number.translate({ord(d): str(int(d)) for d in number if d.isdigit()})
    assert found(f"ring {number}!") == [("phone", number)]


fragments = st.sampled_from(
    [
        "a@b.io",
        "+49 30 901820",
        "4111 1111 1111 1111",
        "sk-Ab1Cd2Ef3Gh4Ij5Kl6",
        "password=",
        "hunter2x",
        "Bearer ",
        "\n",
        JWT,
        PEM,
        "://u:",
        "@",
        ".",
        " ",
        "0",
        "-",
        "555-123-4567",
        "⟦",
        "é",
        "😀",
    ]
)


@given(st.lists(fragments, max_size=12).map("".join) | st.text())
def test_findings_are_in_order_apart_and_cut_from_the_text(text):
    end = 0
    for finding in scan(text):
        assert end <= finding.start < finding.end
        assert text[finding.start : finding.end] == finding.text
        end = finding.end


HOSTILE = ["a", "@", "a.", "0 ", "+1", "(", "password=", "://a:", "eyJaaaaaaaa.", "1-", "https://", "sk-", "Bearer "]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_does_not_hide_what_follows(piece):
    """A detector that is quadratic in the text would not come back from this one."""
    text = piece * (200_000 // len(piece))
    assert found(f"{text} <jane@example.com>")[-1] == ("mail", "jane@example.com")


def test_many_keys_without_an_end_are_one_finding():
    assert len(scan("-----BEGIN PRIVATE KEY-----" * 10_000)) == 1
