"""An endpoint behind TLS that wants to know who asks: the standard variables for certificates."""

import http.server
import shutil
import ssl
import subprocess
import threading

import pytest

from harness.errors import UsageError
from harness.mirror._otel_sender import OtelLane
from harness.mirror._otel_settings import OtelSettings

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl makes the certificates")


def openssl(folder, *arguments):
    subprocess.run([OPENSSL, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """An authority, a server and a client that it vouches for, and a stranger; PEM files in one folder."""
    folder = tmp_path_factory.mktemp("papers")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("authority", "stranger"):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl(folder, "req", "-x509", *key, *files, "-subj", f"/CN={name}", "-days", "2")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        by = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "names")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{name}.pem", "-days", "2")
    openssl(folder, "ec", "-in", "client.key", "-aes128", "-passout", "pass:quiet", "-out", "locked.key")
    (folder / "both.pem").write_text((folder / "client.pem").read_text() + (folder / "client.key").read_text())
    (folder / "empty.pem").write_text("no certificate\n")
    return folder


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append(dict(self.connection.getpeercert()["subject"][0]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


class _Server(http.server.ThreadingHTTPServer):
    """Takes only whom the authority vouches for."""

    daemon_threads = True

    def __init__(self, papers):
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=papers / "authority.pem")
        context.load_cert_chain(papers / "server.pem", papers / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.seen = []

    def handle_error(self, request, client_address):
        """A client that is turned away is no error here."""


@pytest.fixture
def guarded(papers):
    with _Server(papers) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def variables(papers, server, **files):
    named = {f"OTEL_EXPORTER_OTLP_{name}": str(papers / file) for name, file in files.items()}
    port = server.server_port if server else 4318
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"https://127.0.0.1:{port}", **named}


ALL = {"CERTIFICATE": "authority.pem", "CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "client.key"}


@pytest.mark.parametrize(
    "files",
    [
        ALL,
        {"CERTIFICATE": "authority.pem", "CLIENT_CERTIFICATE": "both.pem"},
        {f"TRACES_{name}": file for name, file in ALL.items()},
        {**dict.fromkeys(ALL, "stranger.pem"), **{f"TRACES_{name}": file for name, file in ALL.items()}},
    ],
    ids=["three files", "key in the certificate's file", "for traces", "for traces wins"],
)
def test_the_endpoint_is_checked_and_sees_the_client(papers, guarded, store, clock, files):
    settings = OtelSettings.from_environment(variables(papers, guarded, **files))
    lane = OtelLane(store, settings, clock=clock, sleep=clock.sleep)
    assert lane._once(b'{"resourceSpans":[]}').outcome == "accepted"
    assert guarded.seen == [{"commonName": "client"}]
    lane.close()


@pytest.mark.parametrize(
    "files",
    [
        {"CERTIFICATE": "authority.pem"},
        {"CERTIFICATE": "authority.pem", "CLIENT_CERTIFICATE": "stranger.pem", "CLIENT_KEY": "stranger.key"},
        {"CERTIFICATE": "stranger.pem", "CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "client.key"},
        {"CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "client.key"},
    ],
    ids=["shows nothing", "shows a stranger's", "another authority", "the usual authorities"],
)
def test_without_the_right_papers_nothing_gets_through(papers, guarded, store, clock, files):
    settings = OtelSettings.from_environment(variables(papers, guarded, **files))
    lane = OtelLane(store, settings, clock=clock, sleep=clock.sleep)
    sent = lane._once(b'{"resourceSpans":[]}')
    assert (sent.outcome, sent.status) == ("retry", None)
    assert guarded.seen == []
    lane.close()


@pytest.mark.parametrize("name", ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"])
@pytest.mark.parametrize("signal", ["", "TRACES_"])
def test_a_file_that_is_not_there_is_named_with_its_variable(papers, name, signal):
    files = {f"{signal}{key}": file for key, file in ALL.items()} | {f"{signal}{name}": "gone.pem"}
    with pytest.raises(UsageError, match=rf"^OTEL_EXPORTER_OTLP_{signal}{name} names '.*gone\.pem', and there is no"):
        OtelSettings.from_environment(variables(papers, None, **files))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"CLIENT_KEY": "client.key"}, "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE as well"),
        ({"CERTIFICATE": "empty.pem"}, "empty.pem' holds no certificate in PEM form"),
        ({"CLIENT_CERTIFICATE": "client.pem"}, "that belong together"),
        ({"CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "server.key"}, "that belong together"),
        ({"CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "locked.key"}, "without a password"),
    ],
    ids=["no certificate", "no authority", "no key", "another's key", "a locked key"],
)
def test_files_that_are_no_use_are_refused_at_once_in_one_sentence(papers, files, said):
    with pytest.raises(UsageError, match=said) as caught:
        OtelSettings.from_environment(variables(papers, None, **files))
    assert "\n" not in str(caught.value)


def test_without_tls_the_files_are_not_read(papers):
    files = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(papers / "empty.pem")}
    assert OtelSettings.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", **files})
