"""The archive of CIFAR-10: unpacked, downloaded, or refused; never half taken."""

from __future__ import annotations

import contextlib
import hashlib
import io
import socketserver
import tarfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest
from torchvision.datasets import CIFAR10

from damcha_core.data import cifar_archive
from damcha_core.data.cifar10 import load_cifar10
from damcha_core.errors import DataError

BASE = CIFAR10.base_folder
ARCHIVE = CIFAR10.filename


@pytest.fixture
def published(tmp_path, write_batches, monkeypatch):
    """Bytes of an archive whose checksums count as the published ones here."""
    source = tmp_path / "source"
    write_batches(source)

    def md5(content):
        return hashlib.md5(content).hexdigest()

    def of(name):
        return md5((source / BASE / name).read_bytes())

    (source / BASE / "readme.html").write_text("not wanted", encoding="utf-8")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(source / BASE, arcname=BASE)
        tar.add(source / BASE / "readme.html", arcname="../escaped.html")
    monkeypatch.setattr(CIFAR10, "train_list", [[n, of(n)] for n, _ in CIFAR10.train_list])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", of("test_batch")]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": of("batches.meta")})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(buffer.getvalue()))
    return buffer.getvalue()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data"


@contextlib.contextmanager
def served(content, monkeypatch, *, length=None, delay=0.0):
    """A web server of this process, at the published address as far as the code can see."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(delay)
            with contextlib.suppress(OSError):
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(length or len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

        def log_message(self, *_arguments):
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/{ARCHIVE}"
        monkeypatch.setattr(CIFAR10, "url", address)
        # A proxy of the machine must not stand between the test and itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        monkeypatch.setattr(urllib.request, "urlopen", opener.open)
        try:
            yield
        finally:
            server.shutdown()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("no network in this test")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


def refused(root, match, **options):
    with pytest.raises(DataError, match=match) as caught:
        load_cifar10(root=root, **options)
    assert len(str(caught.value).splitlines()) <= 2
    assert str(caught.value).endswith("damcha train --task digits")


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_archive_on_disk_is_unpacked_without_network(root, published, no_network):
    root.mkdir()
    (root / ARCHIVE).write_bytes(published)
    assert len(load_cifar10(root=root).train) == 36
    assert visible(root) == [BASE, ARCHIVE]
    assert "readme.html" not in visible(root / BASE)
    assert not (root.parent / "escaped.html").exists()
    assert not any(name.endswith(".part") for name in visible(root / BASE))


def test_missing_files_alone_are_unpacked(root, published, no_network):
    root.mkdir()
    (root / ARCHIVE).write_bytes(published)
    load_cifar10(root=root)
    (root / BASE / "data_batch_2").unlink()
    kept = (root / BASE / "data_batch_1").stat().st_mtime_ns
    load_cifar10(root=root)
    assert (root / BASE / "data_batch_1").stat().st_mtime_ns == kept


def test_several_runs_may_unpack_at_once(root, published, no_network):
    root.mkdir()
    (root / ARCHIVE).write_bytes(published)
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: load_cifar10(root=root), range(4)))
    assert [len(data.train) for data in loaded] == [36] * 4
    assert visible(root) == [BASE, ARCHIVE]


@pytest.mark.parametrize("verify", [True, False])
def test_cut_archive_is_named_and_not_taken(root, published, no_network, verify):
    root.mkdir()
    (root / ARCHIVE).write_bytes(published[: len(published) // 2])
    size = f"{len(published) // 2:,}"
    refused(root, f"{ARCHIVE} is cut off or damaged: {size} bytes", verify=verify)
    assert visible(root) == [ARCHIVE]


def test_download_with_progress(root, published, monkeypatch):
    told = []
    with served(published, monkeypatch):
        data = load_cifar10(root=root / "deep", notify=lambda *fact: told.append(fact))
    assert len(data.train) == 36
    assert told[-1] == (f"downloading {ARCHIVE}", len(published), len(published))
    assert visible(root / "deep") == [BASE, ARCHIVE]
    assert (root / "deep" / ARCHIVE).read_bytes() == published


def test_download_that_breaks_off_leaves_nothing(root, published, monkeypatch):
    with served(published[:1000], monkeypatch, length=len(published)):
        refused(root, r"(broke off after|incomplete or altered)")
    assert visible(root) == []


def test_download_of_something_else_leaves_nothing(root, published, monkeypatch):
    with served(b"<html>please log in</html>", monkeypatch):
        refused(root, "incomplete or altered")
    assert visible(root) == []


def test_address_that_is_gone(root, published, monkeypatch):
    with served(None, monkeypatch):
        refused(root, "cannot be reached")
    assert not root.exists()


def test_silent_server_is_given_up(root, published, monkeypatch):
    monkeypatch.setattr(cifar_archive, "CONNECT_SECONDS", 0.3)
    start = time.monotonic()
    with served(published, monkeypatch, delay=1.0):
        refused(root, "no answer from")
        assert time.monotonic() - start < 0.9
        # The answer that comes too late is closed and changes nothing.
        late = next(thread for thread in threading.enumerate() if thread.name == "opening")
        late.join()
    assert not root.exists()


def test_connection_lost_while_reading(root, published, monkeypatch):
    class Response(io.BytesIO):
        headers = {"Content-Length": "5"}  # noqa: RUF012

        def read(self, size=-1):
            raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Response())
    refused(root, "broke off after 0 bytes")
    assert visible(root) == []


def test_root_that_cannot_be_written(root, published, monkeypatch, no_network):
    root.mkdir()
    (root / ARCHIVE).write_bytes(published)
    (root / BASE).write_text("a file in the place of the folder", encoding="utf-8")
    refused(root, "cannot be written")
