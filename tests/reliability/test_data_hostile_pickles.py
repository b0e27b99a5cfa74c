"""Batch files that are weapons: nothing runs, nothing swells, and the file is named."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from damcha_core.data.batch_file import read_batch_file
from damcha_core.data.cifar10 import load_cifar10
from damcha_core.errors import DataError

FILE_NAMES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]


class Call:
    """Pickles as a call of function with arguments, made when it is loaded."""

    def __init__(self, function, *arguments):
        self.function = function
        self.arguments = arguments

    def __call__(self):
        raise AssertionError("only there because pickle wants something callable")

    def __reduce__(self):
        return self.function, self.arguments


class Stateful:
    """Pickles as an object whose state is set when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        Path(state).touch()

    def __reduce__(self):
        return Stateful, (self.path,), str(self.path)


def calls(marker):
    """Objects that make a file when a plain unpickler loads them."""
    command = f"touch {marker}"
    write = f"open({str(marker)!r}, 'w').close()"
    return {
        "os.system": Call(os.system, command),
        "eval": Call(eval, write),
        "exec": Call(exec, write),
        "getattr chain": Call(Call(getattr, Call(__import__, "os"), "system"), command),
        "copy": Call(shutil.copyfile, __file__, str(marker)),
        "setstate": Stateful(str(marker)),
        "subprocess": Call(subprocess.call, ["touch", str(marker)]),
        "path": Call(Path.touch, Path(marker)),
    }


def raw_global(module, name, arguments):
    """Opcodes of a call by name, for what cannot be imported here."""
    body = pickle.dumps(arguments, 2)[2:-1]
    return b"\x80\x02" + f"c{module}\n{name}\n".encode() + body + b"R."


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


def refused(tmp_path, content, match="is no batch file"):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        read_batch_file(path)
    message = str(caught.value)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    assert caught.value.exit_code == 3
    return message


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("kind", list(calls("unused")))
def test_calls_are_refused(tmp_path, marker, kind, protocol):
    weapon = calls(marker)[kind]
    pickle.loads(pickle.dumps(weapon, protocol))
    marker.unlink()  # the control: an unguarded unpickler did run it
    for content in (weapon, {b"data": weapon}, {b"data": [weapon], b"labels": []}):
        message = refused(tmp_path, pickle.dumps(content, protocol))
        assert "not admitted" in message
    assert not marker.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("posix", "system"),
        ("nt", "system"),
        ("__builtin__", "eval"),
        ("builtins", "getattr"),
        ("numpy", "load"),
        ("numpy", "fromfile"),
        ("numpy.testing._private.utils", "runstring"),
        ("numpy.core.multiarray", "fromfile"),
        ("torch", "load"),
        ("torch.serialization", "load"),
        ("copyreg", "_reconstructor"),
        ("copy_reg", "_reconstructor"),
        ("_codecs", "lookup"),
        ("numpy", "ndarray.__class__"),
        ("builtins", "str"),
    ],
)
def test_globals_are_refused_by_name(tmp_path, marker, module, name):
    content = raw_global(module, name, (f"touch {marker}",))
    assert f"{module}.{name}" in refused(tmp_path, content, "not admitted")
    stacked = (
        b"\x80\x04"
        + b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in (module, name))
        + b"\x93)R."
    )
    assert f"{module}.{name}" in refused(tmp_path, stacked, "not admitted")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("content", "opcode"),
    [
        (b"(ios\nsystem\n.", "INST"),
        (b"(cos\nsystem\nU\x04trueo.", "OBJ"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"Pname\n.", "PERSID"),
        (b"\x80\x02}Q.", "BINPERSID"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
        (b"\x80\x02}2.", "DUP"),
        (b"S'text'\n.", "STRING"),
    ],
)
def test_opcodes_that_arrays_do_not_need(tmp_path, content, opcode):
    refused(tmp_path, content, f"opcode {opcode} is not admitted")


def array_opcodes(*, dtype=b"u1", flag=b"K\x00", start=b"K\x00", shape=b"K\x04\x85", state=None):
    """An array as Python 2 wrote it: a shell, a type, and the bytes as its state."""
    state = state or b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + start
        + b"\x85U\x01b"
        b"\x87R(K\x01"
        + shape
        + b"cnumpy\ndtype\nU"
        + bytes([len(dtype)])
        + dtype
        + flag
        + b"K\x01\x87R"
        + state
        + b"\x89U\x04abcdtbs."
    )


def test_an_array_of_python_2_is_read(tmp_path):
    (tmp_path / "b").write_bytes(array_opcodes())
    assert read_batch_file(tmp_path / "b")["data"].tolist() == list(b"abcd")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dtype": b"O8"}, "array type 'O8'"),
        ({"dtype": b"V4"}, "array type 'V4'"),
        ({"dtype": b"u1,u1"}, "array type"),
        ({"shape": b"K\x05\x85"}, "needs 5 bytes, there are 4"),
        ({"shape": b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85"}, "needs 1099511627776 bytes"),
        ({"shape": b"J\xff\xff\xff\xff\x85"}, "plain shape"),
        ({"shape": b"]"}, "plain shape"),
        (
            {"state": b"(K\x03U\x01|NU\x01aNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"},
            "structured",
        ),
        ({"state": b"}U\x09__class__K\x01sb"}, "is no batch file"),
        ({"flag": b")"}, "odd flags"),
        ({"start": b"K\x09"}, "does not begin empty"),
    ],
)
def test_arrays_that_lie(tmp_path, options, match):
    refused(tmp_path, array_opcodes(**options), match)


def test_bytes_cannot_be_grown(tmp_path):
    refused(tmp_path, raw_global("__builtin__", "bytes", (2**40,)), "unexpected arguments")
    text = "x" * 1000
    grown = [Call(encode_latin1, text, "latin1") for _ in range(900)]
    refused(tmp_path, pickle.dumps({b"data": grown}, 2).replace(LATIN1, CODECS), "more text than")
    refused(tmp_path, raw_global("_codecs", "encode", ("x", "utf7")), "another encoding")


def encode_latin1(text, encoding):
    return text


LATIN1 = f"c{encode_latin1.__module__}\nencode_latin1\n".encode()
CODECS = b"c_codecs\nencode\n"


def test_numbers_without_bytes(tmp_path):
    refused(tmp_path, raw_global("numpy.core.multiarray", "scalar", (1, 2)), "not made of bytes")


def test_state_cannot_be_set_on_a_stand_in(tmp_path):
    for state in (b"}U\x0c__setstate__K\x01s", b"N}U\x09_functionK\x01s\x86"):
        refused(tmp_path, b"\x80\x02c_codecs\nencode\n" + state + b"b.", "state for what has none")


def batch(n):
    random = np.random.RandomState(n)
    return {
        b"labels": random.randint(0, 10, n).tolist(),
        b"data": random.randint(0, 256, (n, 3072)).astype(np.uint8),
        b"label_names": [b"a"] * 10,
    }


@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("verify", [True, False])
def test_a_hostile_file_ends_the_loading(tmp_path, marker, name, verify):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for file_name in FILE_NAMES:
        (folder / file_name).write_bytes(pickle.dumps(batch(3), 2))
    (folder / name).write_bytes(pickle.dumps({b"data": Call(os.system, f"touch {marker}")}, 2))
    with pytest.raises(DataError) as caught:
        load_cifar10(root=tmp_path, verify=verify)
    assert not marker.exists()
    if not verify:
        assert str(folder / name) in str(caught.value)
        assert "posix.system" in str(caught.value)
