"""The batch files of CIFAR-10's python layout, read without running anything that is in them.

They are pickles, and a pickle may name any function to call. Three walls stand in front of
that. The opcodes are read first, without effect, and only those that a batch file needs are
admitted, in plausible numbers. A name that is not in the table below ends the reading. And the
names that are in it lead to stand-ins of ours, which build an array from its bytes and can do
nothing else; NumPy's own functions are never called.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damcha_core.errors import DataError
from damcha_core.files import printable_name

MAX_FILE_BYTES = 512 * 2**20
MAX_OPCODES = 4_000_000
MAX_CONTAINERS = 1_000

_CONTAINERS = {"EMPTY_DICT", "EMPTY_LIST", "DICT", "LIST", "TUPLE", "TUPLE1"}
_MEMO_OPCODES = {"BINPUT", "LONG_BINPUT", "MEMOIZE"}
_OPCODES = _CONTAINERS.union(_MEMO_OPCODES) | {
    *("PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
    *("EMPTY_TUPLE", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    *("BINGET", "LONG_BINGET"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_KINDS = "uib"
"""Whole numbers and bools: the only array types that batch files hold."""


def read_batch_file(path: Path) -> dict[str, Any]:
    """Contents of a batch file: a dict of arrays, lists, byte strings and numbers.

    Keys are text, whether they were stored as bytes (Python 2) or as text.

    Raises:
        DataError: the file cannot be read or is larger than MAX_FILE_BYTES.
        DataError: it is damaged, holds what a batch file does not, or names a global that is
            not admitted; nothing in it was executed.
    """
    name = printable_name(path)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise DataError(
                f"{name}: {size:,} bytes are too many for a batch file, at most {MAX_FILE_BYTES:,}"
            )
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from error
    try:
        _check_opcodes(content)
        batch = _BatchReader(content).load()
        if not isinstance(batch, dict):
            raise pickle.UnpicklingError("it holds no dict")
        return {_text(key): _plain(value) for key, value in batch.items()}
    # A damaged pickle can make the reader fail with almost any exception.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name} is no batch file of CIFAR-10: {reason[:300]}") from error


def _check_opcodes(content: bytes) -> None:
    """Read the opcodes without carrying them out.

    Containers are limited because deep ones crash Python (the hash of a nested tuple). A pair or
    triple that is at once the arguments of a call does not count, as no stand-in takes or
    returns a container of containers; labels that are NumPy numbers have one each.
    """
    containers = 0
    previous = ""
    for number, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"the pickle opcode {opcode.name} is not admitted")
        containers += opcode.name in _CONTAINERS
        if opcode.name not in _MEMO_OPCODES:
            containers += previous in ("TUPLE2", "TUPLE3") and opcode.name != "REDUCE"
            previous = opcode.name
        # The reader makes its table of remembered objects as long as the largest index.
        wild_index = opcode.name == "LONG_BINPUT" and int(argument or 0) > number
        if number > MAX_OPCODES or containers > MAX_CONTAINERS or wild_index:
            raise pickle.UnpicklingError("more nested or more numerous objects than arrays need")


class _BatchReader(pickle.Unpickler):
    """Unpickler whose globals are the stand-ins of this file.

    Args:
        content: the whole file.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        # Text can be turned into bytes again and again; an honest file does it once.
        self._bytes_left = 2 * len(content)
        multiarray = {"_reconstruct": _Call(_empty_array), "scalar": _Call(_scalar)}
        numeric = {"_frombuffer": _Call(_array_from_buffer)}
        self._admitted: dict[str, dict[str, _Call]] = {
            "numpy": {"ndarray": _Call(bytes, n_arguments=0), "dtype": _Call(_StoredType)},
            "numpy.core.multiarray": multiarray,
            "numpy._core.multiarray": multiarray,
            "numpy.core.numeric": numeric,
            "numpy._core.numeric": numeric,
            "_codecs": {"encode": _Call(self._encode)},
            "builtins": {"bytes": _Call(bytes, n_arguments=0)},
            "__builtin__": {"bytes": _Call(bytes, n_arguments=0)},
        }

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in of a global; any other is refused by name."""
        try:
            return self._admitted[module][name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it names the global {printable_name(f'{module}.{name}')}, which is not admitted "
                "(nothing was executed)"
            ) from None

    def _encode(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError("text in another encoding than latin1")
        self._bytes_left -= len(text)
        if self._bytes_left < 0:
            raise pickle.UnpicklingError("more text than the file is long")
        return text.encode("latin1")


class _Call:
    """A stand-in that passes its arguments to one harmless function.

    Args:
        function: what to call.
        n_arguments: how many arguments it may be given; None: any number.
    """

    __slots__ = ("_function", "_n_arguments")

    def __init__(self, function: Callable[..., Any], *, n_arguments: int | None = None) -> None:
        self._function = function
        self._n_arguments = n_arguments

    def __call__(self, *arguments: Any) -> Any:
        if self._n_arguments is not None and len(arguments) != self._n_arguments:
            raise pickle.UnpicklingError("a call with unexpected arguments")
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a state for what has none")


class _StoredType:
    """Stand-in of numpy.dtype: a plain number type."""

    __slots__ = ("dtype",)

    def __init__(self, code: bytes | str, *flags: object) -> None:
        text = _text(code)
        if not all(isinstance(flag, int) for flag in flags):
            raise pickle.UnpicklingError("an array type with odd flags")
        if len(text) != 2 or text[0] not in _KINDS or text[1] not in "1248":
            raise pickle.UnpicklingError(f"the array type {text!r} is not admitted")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, *structure = state
        if any(part is not None for part in structure[:3]):
            raise pickle.UnpicklingError("structured array types are not admitted")
        if _text(order) == ">":
            self.dtype = self.dtype.newbyteorder(">")
        elif _text(order) == "<":
            self.dtype = self.dtype.newbyteorder("<")


class _StoredArray:
    """Stand-in of numpy.ndarray; gets its contents afterwards, as the state."""

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, stored_type, is_fortran, raw = state
        order = "F" if is_fortran else "C"
        self.array = _array_from_buffer(raw, stored_type, shape, order).array


def _empty_array(array_type: object, shape: object, code: bytes | str) -> _StoredArray:
    """Stand-in of _reconstruct: it is given a shape of 0 and gets the real one as its state."""
    if not isinstance(array_type, _Call) or shape != (0,) or _text(code) != "b":
        raise pickle.UnpicklingError("an array that does not begin empty")
    return _StoredArray()


def _array_from_buffer(
    raw: bytes | bytearray, stored_type: _StoredType, shape: tuple[int, ...], order: str
) -> _StoredArray:
    """An array that is a view of its bytes, so that it cannot be larger than the file."""
    if not isinstance(raw, bytes | bytearray) or not isinstance(stored_type, _StoredType):
        raise pickle.UnpicklingError("an array that is not made of bytes and a type")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise pickle.UnpicklingError("an array without a plain shape")
    needed = math.prod(shape) * stored_type.dtype.itemsize
    if needed != len(raw):
        raise pickle.UnpicklingError(
            f"an array of shape {shape} needs {needed} bytes, there are {len(raw)}"
        )
    stored = _StoredArray()
    flat = np.frombuffer(raw, stored_type.dtype)
    stored.array = flat.reshape(shape, order="F" if order == "F" else "C")
    return stored


def _scalar(stored_type: _StoredType, raw: bytes) -> int:
    stored = _array_from_buffer(raw, stored_type, (1,), "C")
    assert stored.array is not None
    return int(stored.array[0])


def _text(key: object) -> str:
    if isinstance(key, bytes):
        return key.decode("utf-8")
    if isinstance(key, str):
        return key
    raise pickle.UnpicklingError(f"text was expected, not {type(key).__name__}")


def _plain(value: object) -> object:
    return value.array if isinstance(value, _StoredArray) else value
