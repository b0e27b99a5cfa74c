"""Results are made once, appear whole or not at all, and do without a folder if need be."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from damcha_core.data.text import text_cache
from damcha_core.data.text.text_cache import TextCache

KEY = "0123456789abcdef" * 4
ROOT = Path(text_cache.__file__).parents[3]


class Maker:
    """Makes a result of two files and counts how often."""

    def __init__(self):
        self.times = 0

    def __call__(self, folder):
        self.times += 1
        (folder / "large.bin").write_bytes(b"12345")
        (folder / "small.txt").write_text("ä")
        return {"n": self.times}


def test_a_result_is_made_once(tmp_path):
    make = Maker()
    first = TextCache(tmp_path).entry("kind", KEY, make)
    again = TextCache(tmp_path).entry("kind", KEY, make)
    assert make.times == 1
    assert first == again
    assert first.folder.parent == tmp_path
    assert (first.folder / "large.bin").read_bytes() == b"12345"
    assert first.facts == {"n": 1}


def test_other_keys_and_kinds_are_other_results(tmp_path):
    make = Maker()
    cache = TextCache(tmp_path)
    folders = {
        cache.entry(what, key, make).folder for what in ("a", "b") for key in (KEY, KEY[::-1])
    }
    assert make.times == len(folders) == 4


def test_no_trace_of_the_work_is_left(tmp_path):
    TextCache(tmp_path).entry("kind", KEY, Maker())
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {f".kind-{KEY[:40]}.lock"} == {f"kind-{KEY[:40]}"}


def test_odd_characters_in_the_path_work(tmp_path):
    folder = tmp_path / "données, test 1" / "äöü #2"
    assert TextCache(folder).entry("kind", KEY, Maker()).folder.parent == folder


def cut(folder):
    (folder / "large.bin").write_bytes(b"123")


def change(folder):
    (folder / "large.bin").write_bytes(b"12346")


def no_meta(folder):
    (folder / "meta.json").unlink()


def half_meta(folder):
    text = (folder / "meta.json").read_bytes()
    (folder / "meta.json").write_bytes(text[: len(text) // 2])


def other_key(folder):
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "key": "0"}))


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("in the way")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        change,
        no_meta,
        half_meta,
        other_key,
        a_file,
        lambda folder: (folder / "small.txt").unlink(),
        lambda folder: (folder / "meta.json").write_text("[]"),
        lambda folder: (folder / "meta.json").write_text("{}"),
        lambda folder: (folder / "meta.json").write_bytes(b"\xff\0"),
        lambda folder: [path.unlink() for path in folder.iterdir()],
    ],
)
def test_a_damaged_result_is_made_again(tmp_path, damage):
    make = Maker()
    folder = TextCache(tmp_path).entry("kind", KEY, make).folder
    damage(folder)
    again = TextCache(tmp_path).entry("kind", KEY, make)
    assert make.times == 2
    assert again.facts == {"n": 2}
    assert (again.folder / "large.bin").read_bytes() == b"12345"
    assert TextCache(tmp_path).entry("kind", KEY, make) == again


def test_large_files_are_known_by_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(text_cache, "_HASHED_BYTES", 4)
    make = Maker()
    folder = TextCache(tmp_path).entry("kind", KEY, make).folder
    change(folder)
    TextCache(tmp_path).entry("kind", KEY, make)
    assert make.times == 1
    cut(folder)
    TextCache(tmp_path).entry("kind", KEY, make)
    assert make.times == 2


def test_what_a_killed_process_left_is_cleared(tmp_path):
    leftover = tmp_path / f".kind-{KEY[:40]}.tmp"
    leftover.mkdir()
    (leftover / "half.bin").write_bytes(b"1")
    folder = TextCache(tmp_path).entry("kind", KEY, Maker()).folder
    assert {path.name for path in folder.iterdir()} == {"large.bin", "small.txt", "meta.json"}
    assert not leftover.exists()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(5, "no")])
def test_what_a_maker_raises_comes_through_and_leaves_nothing(tmp_path, error):
    def fail(folder):
        (folder / "half.bin").write_bytes(b"1")
        raise error

    cache = TextCache(tmp_path)
    with pytest.raises(type(error)) as caught:
        cache.entry("kind", KEY, fail)
    assert caught.value is error
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert cache.notices == ()
    assert cache.entry("kind", KEY, Maker()).facts == {"n": 1}


def test_two_threads_make_it_once(tmp_path):
    make = Maker()

    def slow(folder):
        second.start()
        # The other one has time to come to the lock; if it does not, the test still holds.
        second.join(0.2)
        return make(folder)

    second = threading.Thread(target=lambda: TextCache(tmp_path).entry("kind", KEY, make))
    TextCache(tmp_path).entry("kind", KEY, slow)
    second.join()
    assert make.times == 1


CHILD = """
import sys
from pathlib import Path
from damcha_core.data.text.text_cache import TextCache
def make(folder):
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    (folder / "x.bin").write_bytes(b"1")
    return {}
cache = TextCache(Path(sys.argv[1]) if sys.argv[1] else None)
entry = cache.entry("kind", "ab" * 20, make)
print(entry.folder, entry.folder.is_dir(), *cache.notices, sep="|")
"""


def child(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_make_it_once(tmp_path):
    log = tmp_path / "log"
    runs = [child(tmp_path / "cache", log) for _ in range(2)]
    outputs = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0]
    assert len(outputs) == 1
    assert log.read_text() == "made\n"


def test_without_a_folder_to_write_results_last_as_long_as_the_process(tmp_path):
    (tmp_path / "file").write_text("")
    run = child("", tmp_path / "log", DAMCHA_CACHE=str(tmp_path / "file" / "cache"))
    folder, was_there, notice = run.communicate()[0].strip().split("|")
    assert run.returncode == 0
    assert was_there == "True"
    assert not Path(folder).exists()
    assert not Path(folder).parent.exists()
    assert "DAMCHA_CACHE" in notice
    assert str(tmp_path / "file" / "cache") in notice


def test_the_notice_comes_once_and_results_are_found_again(tmp_path):
    (tmp_path / "file").write_text("")
    cache = TextCache(tmp_path / "file" / "cache")
    make = Maker()
    assert cache.notices == ()
    entries = [cache.entry("once", key, make) for key in (KEY, KEY[::-1], KEY)]
    assert make.times == 2
    assert entries[0] == entries[2]
    assert len(cache.notices) == 1


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(n, os.strerror(n)) for n in (errno.EROFS, errno.EACCES, errno.EPERM)),
        NotImplementedError("the file system has no locks"),
    ],
)
def test_a_folder_that_can_be_read_alone_is_read(tmp_path, monkeypatch, error):
    make = Maker()
    kept = TextCache(tmp_path).entry("kind", KEY, make)

    class Refused(text_cache.FileLock):
        def acquire(self, *args, **options):
            if tmp_path in Path(self.lock_file).parents:
                raise error
            return super().acquire(*args, **options)

    monkeypatch.setattr(text_cache, "FileLock", Refused)
    cache = TextCache(tmp_path)
    assert cache.entry("kind", KEY, make) == kept
    assert cache.notices == ()
    other = cache.entry("other", hashlib.sha256(repr(error).encode()).hexdigest(), make)
    assert tmp_path not in other.folder.parents
    assert getattr(error, "strerror", None) or str(error) in cache.notices[0]
    assert cache.entry("kind", KEY, make) == kept
    assert make.times == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch, number):
    def full(self, *args, **options):
        raise OSError(number, os.strerror(number))

    cache = TextCache(tmp_path / "cache")
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        cache.entry("kind", KEY, Maker())
    assert caught.value.errno == number
    assert cache.notices == ()


def test_where_the_folder_is(monkeypatch, tmp_path):
    for name in ("DAMCHA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", "/home/x"))
    assert TextCache().folder == Path("/home/x/.cache/damcha")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert TextCache().folder == Path("/home/x/.cache/damcha")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert TextCache().folder == tmp_path / "damcha"
    monkeypatch.setenv("DAMCHA_CACHE", str(tmp_path / "own"))
    assert TextCache().folder == tmp_path / "own"
    assert TextCache(tmp_path / "given").folder == tmp_path / "given"


def test_no_home_is_no_folder(monkeypatch):
    for name in ("DAMCHA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    cache = TextCache()
    assert cache.folder is None
    assert len(cache.notices) == 1
    assert cache.entry("homeless", KEY, Maker()).folder.is_dir()
    assert len(cache.notices) == 1
