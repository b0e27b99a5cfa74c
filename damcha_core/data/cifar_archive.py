"""Gets the files of CIFAR-10 from the archive they are published in, from disk or the network."""

from __future__ import annotations

import http.client
import os
import tarfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from filelock import FileLock

from damcha_core.data.cifar_published import Published
from damcha_core.data.notify import Notify
from damcha_core.errors import DataError
from damcha_core.files import md5_of, printable_name

CONNECT_SECONDS = 4.0
READ_SECONDS = 30.0
_CHUNK_BYTES = 2**18


def fetch_files(root: Path, names: list[str], notify: Notify) -> None:
    """Put files of the data set into `root/cifar-10-batches-py`.

    The archive in root is unpacked, or downloaded first when there is none. Every file is
    written under another name and renamed when it is complete; several runs may do so at once.

    Args:
        root: the data root.
        names: files to put there, without a folder.
        notify: told about bytes downloaded.

    Raises:
        DataError: the archive in root is damaged.
        DataError: there is no archive and the download failed.
        DataError: root cannot be written.
    """
    archive = root / Published.filename
    if archive.exists():
        _check_archive(archive)
        response = None
    else:
        response = _connect(Published.url)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{Published.filename}.lock"):
            if response is not None and not archive.exists():
                _download(response, archive, notify)
            _unpack(archive, root / Published.base_folder, names)
    except OSError as error:
        raise DataError(
            f"{printable_name(root)} cannot be written ({error.strerror or error})"
        ) from error
    finally:
        if response is not None:
            response.close()


def _check_archive(archive: Path) -> None:
    if md5_of(archive) != Published.tgz_md5:
        raise DataError(
            f"{printable_name(archive)} is cut off or damaged: {archive.stat().st_size:,} bytes "
            f"whose md5 is not the published {Published.tgz_md5}. Nothing was taken from it: "
            "delete it"
        )


def _connect(url: str) -> Any:
    """Open the address, or fail within CONNECT_SECONDS whatever the network does.

    Looking up a name has no time limit of its own, so it is done beside: a thread that hangs
    there is left behind and ends with the process.
    """
    answer: list[Any] = []
    given_up = threading.Event()

    def open_url() -> None:
        try:
            response = urllib.request.urlopen(url, timeout=READ_SECONDS)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            answer.append(error)
            return
        answer.append(response)
        if given_up.is_set():
            response.close()

    thread = threading.Thread(target=open_url, name="opening", daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if not answer:
        given_up.set()
        raise DataError(f"no answer from {url} within {CONNECT_SECONDS:.0f} seconds")
    if isinstance(answer[0], Exception):
        reason = getattr(answer[0], "reason", answer[0])
        raise DataError(f"{url} cannot be reached ({reason})")
    return answer[0]


def _download(response: Any, archive: Path, notify: Notify) -> None:
    total = int(response.headers.get("Content-Length") or 0)
    partial = archive.with_name(f"{archive.name}.part")
    done = 0
    try:
        with partial.open("wb") as file:
            while chunk := response.read(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                notify(f"downloading {archive.name}", done, total)
        if md5_of(partial) != Published.tgz_md5:
            raise DataError(
                f"the download of {Published.url} is incomplete or altered ({done:,} bytes, md5 "
                f"not {Published.tgz_md5}); it was thrown away. Try again"
            )
        os.replace(partial, archive)
    except (TimeoutError, http.client.HTTPException, ConnectionError) as error:
        raise DataError(
            f"the download of {Published.url} broke off after {done:,} bytes ({error}); try again"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _unpack(archive: Path, folder: Path, names: list[str]) -> None:
    """Write the wanted members and no other, whatever paths the archive holds."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive, "r:gz") as tar:
        for name in names:
            member = tar.extractfile(f"{folder.name}/{name}")
            assert member is not None, "the archive has the published md5"
            partial = folder / f"{name}.part"
            try:
                with partial.open("wb") as file:
                    while chunk := member.read(_CHUNK_BYTES):
                        file.write(chunk)
                os.replace(partial, folder / name)
            finally:
                partial.unlink(missing_ok=True)
