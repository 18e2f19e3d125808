"""The standard variables, honoured or refused with one sentence; no key in any message."""

import pytest

from harness.errors import UsageError
from harness.mirror._otel_settings import OtelSettings

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def settings(**variables):
    return OtelSettings.from_environment({**HERE, **variables})


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "  "}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp"}, "https://c/otlp/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/in"}, "http://t/in"),
        ({**HERE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/in"}, "http://t/in"),
        ({**HERE, "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({**HERE, "OTEL_SDK_DISABLED": "false"}, "http://127.0.0.1:4318/v1/traces"),
        ({**HERE, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**HERE, "OTEL_TRACES_EXPORTER": "otlp"}, "http://127.0.0.1:4318/v1/traces"),
    ],
)
def test_where_spans_go(variables, endpoint):
    found = OtelSettings.from_environment(variables)
    assert (found.endpoint if found else None) == endpoint


def test_what_stands_when_nothing_else_is_said():
    found = settings()
    assert found.headers == {}
    assert found.timeout == 10.0
    assert found.gzip is False
    assert found.content is False
    assert found.resource == {"service.name": "goldfork"}
    assert found.skipped == ""
    assert found.host == "127.0.0.1:4318"


def test_headers_are_percent_decoded_and_those_for_traces_win():
    general = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20cGs6c2s%3D, x-team = a%2Cb"}
    assert settings(**general).headers == {"authorization": "Basic cGs6c2s=", "x-team": "a,b"}
    assert settings(**general, OTEL_EXPORTER_OTLP_TRACES_HEADERS="k=v").headers == {"k": "v"}


def test_timeout_is_in_milliseconds():
    assert settings(OTEL_EXPORTER_OTLP_TIMEOUT="2500").timeout == 2.5
    assert settings(OTEL_EXPORTER_OTLP_TIMEOUT="2500", OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="500").timeout == 0.5


def test_compression():
    assert settings(OTEL_EXPORTER_OTLP_COMPRESSION="gzip").gzip
    assert not settings(OTEL_EXPORTER_OTLP_COMPRESSION="gzip", OTEL_EXPORTER_OTLP_TRACES_COMPRESSION="none").gzip


def test_resource_attributes_and_service_name():
    named = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=shop,deployment.environment.name=eu%2Dprod"}
    assert settings(**named).resource == {"service.name": "shop", "deployment.environment.name": "eu-prod"}
    assert settings(**named, OTEL_SERVICE_NAME="till").resource["service.name"] == "till"


@pytest.mark.parametrize(
    ("word", "asked"),
    [
        ("true", True),
        ("True", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("false", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("yes please", False),
        ("", False),
    ],
)
def test_content_only_where_it_is_asked_for(word, asked):
    assert settings(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=word).content is asked


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "OTEL_EXPORTER_OTLP_COMPRESSION"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "0"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "OTLP endpoint"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:99999"}, "OTLP endpoint"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "sk-canary-0123456789"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "bad name=sk-canary-0123456789"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=sk-canary-0123456789%0d%0ax:y"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=%ff%fe"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:sk-canary-0123456789@c:4318"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "no pairs"}, "OTEL_RESOURCE_ATTRIBUTES"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_one_sentence(variables, names):
    with pytest.raises(UsageError) as caught:
        settings(**variables)
    said = str(caught.value)
    assert names in said
    assert "canary" not in said
    assert "\n" not in said


def test_keys_are_in_no_representation():
    assert "canary" not in repr(settings(OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20sk-canary-0123456789"))


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://lf:3000/api/public/otel"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://any/api/public/otel/v1/traces"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://any/api/public/otel/"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://lf:3000", "LANGFUSE_BASE_URL": "http://LF:3000/"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://lf:443/x", "LANGFUSE_HOST": "https://lf"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://cloud.langfuse.com", "LANGFUSE_PUBLIC_KEY": "pk-lf-1"},
    ],
)
def test_langfuses_own_endpoint_is_not_fed_twice(variables):
    assert "Langfuse's own" in settings(**variables).skipped


@pytest.mark.parametrize(
    "variables",
    [
        {"LANGFUSE_BASE_URL": "http://127.0.0.1:3000", "LANGFUSE_PUBLIC_KEY": "pk-lf-1"},
        {"LANGFUSE_BASE_URL": "https://127.0.0.1:4318"},
        {"LANGFUSE_PUBLIC_KEY": "pk-lf-1"},
    ],
)
def test_a_collector_beside_langfuse_is_fed(variables):
    assert settings(**variables).skipped == ""
