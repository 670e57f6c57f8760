"""The page behind a real reverse proxy: below a prefix that nginx takes away, below one that it
hands on, and by TLS that ends there."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.browser.operator import Operator, chromium, operator, url_of

from arneb.demo.process import BrokerProcess

NGINX: Final = "nginx"
WITHIN_S: Final = 10.0

CONFIGURATION: Final = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_read_timeout 60s;
        proxy_set_header X-Forwarded-Proto $scheme;
        location /kept/ {{ proxy_pass {kept}; }}
        location /taken/ {{
            rewrite ^ $request_uri;
            rewrite ^/taken(/.*) $1 break;
            return 400;
            proxy_pass {taken}$uri;
        }}
    }}
}}
"""
"""Both ways of the guide. A ``proxy_pass`` with a path of its own would hand on ``%2F``, which is
the name of a virtual host, as a slash."""


@dataclass(frozen=True)
class Proxied:
    """A proxy before two brokers."""

    plain: int
    tls: int
    taken: BrokerProcess
    kept: BrokerProcess

    def url(self, folder: str, *, tls: bool = False) -> str:
        scheme, port = ("https", self.tls) if tls else ("http", self.plain)
        return f"{scheme}://127.0.0.1:{port}/{folder}/"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def make_certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    assert shutil.which(NGINX), f"expected {NGINX}: apt install nginx-light"
    folder = tmp_path_factory.mktemp("nginx")
    make_certificate(folder)
    settings = folder / "arneb.toml"
    settings.write_text('[http]\npath_prefix = "/kept"\n')
    with (
        BrokerProcess(folder / "taken", ["amqp", "http"]) as taken,
        BrokerProcess(folder / "kept", ["amqp", "http"], [f"--config={settings}"]) as kept,
    ):
        found = Proxied(free_port(), free_port(), taken, kept)
        text = CONFIGURATION.format(
            folder=folder, plain=found.plain, tls=found.tls,
            taken=url_of(taken).rstrip("/"), kept=url_of(kept).rstrip("/"),
        )  # fmt: skip
        (folder / "nginx.conf").write_text(text)
        command = [NGINX, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        server = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            ends_at = time.monotonic() + WITHIN_S
            while not _answers(found.url("taken")):
                assert server.poll() is None, server.stderr and server.stderr.read()
                assert time.monotonic() < ends_at, (folder / "error.log").read_text()
                time.sleep(0.05)
            yield found
        finally:
            server.terminate()
            server.wait(WITHIN_S)
            assert server.stderr is not None
            server.stderr.close()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def is_used(somebody: Operator) -> None:
    """Figures are live, a queue is made and looked at, and a logout ends it."""
    page = somebody.page
    somebody.log_in()
    somebody.go("#/queues")
    somebody.press("New queue")
    page.get_by_label("Name", exact=True).fill("behind")
    somebody.press("Make it")
    # By the stream, so the proxy does not hold it back.
    page.get_by_role("link", name="behind", exact=True).click()
    expect(page.get_by_role("heading", name="behind")).to_be_visible()
    somebody.press("Log out")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


@pytest.mark.parametrize("folder", ["taken", "kept"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_page_works_below_a_prefix(
    browser: Browser, proxied: Proxied, folder: str, tls: bool
) -> None:
    url = proxied.url(folder, tls=tls)
    with operator(browser, url, ignores_certificates=True) as somebody:
        somebody.log_in()
        (cookie,) = somebody.page.context.cookies()
        assert (cookie["path"], cookie["secure"]) == (f"/{folder}/", tls)
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        somebody.press("Log out")
        expect(somebody.page.get_by_role("button", name="Log in")).to_be_visible()
        assert somebody.page.context.cookies() == []
    with operator(browser, url, ignores_certificates=True) as somebody:
        is_used(somebody)
    api = f"{url}api/page/topics/%2F?page=1&name=behind"
    found = httpx.get(api, auth=("guest", "guest"), verify=False).json()
    assert [each["name"] for each in found["items"]] == ["behind"]
    queue = httpx.delete(f"{url}api/queues/%2F/behind", auth=("guest", "guest"), verify=False)
    assert queue.status_code == 204


def test_two_brokers_behind_one_proxy_do_not_end_each_others_sessions(
    browser: Browser, proxied: Proxied
) -> None:
    with operator(browser, proxied.url("taken")) as somebody:
        somebody.log_in()
        somebody.url = proxied.url("kept")
        somebody.log_in()
        assert len(somebody.page.context.cookies()) == 2
        somebody.press("Log out")
        somebody.page.goto(proxied.url("taken"))
        expect(somebody.page.locator("main h1")).to_have_text("Overview")


def test_what_has_a_prefix_of_its_own_is_there_without_it_too(proxied: Proxied) -> None:
    direct = url_of(proxied.kept)
    assert httpx.get(direct).status_code == 200
    assert httpx.get(f"{direct}kept/healthz").status_code == 200
    assert httpx.get(f"{direct}healthz").status_code == 200
    moved = httpx.get(f"{direct}kept")
    assert (moved.status_code, moved.headers["location"]) == (308, "kept/")
    assert httpx.get(f"{direct}keptx/healthz").status_code == 401
