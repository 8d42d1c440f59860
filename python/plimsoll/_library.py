"""Calls of libplimsoll.so (include/plimsoll.h): a request and its answer are JSON."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, Mapping, Optional

_UNKNOWN = 2**64 - 1  # PLIM_UNKNOWN


class _Failure(ctypes.Structure):
    _fields_ = [  # plim_error
        ("code", ctypes.c_int),
        ("message", ctypes.c_char * 320),
        ("hint", ctypes.c_char * 640),
        ("file", ctypes.c_char * 512),
        ("byte", ctypes.c_uint64),
    ]


class Error(Exception):
    """What is wrong with a request, a file or a setting.

    >>> import plimsoll
    >>> try:
    ...     plimsoll.estimate("qwen2.5-7b", lora_ranks=16)
    ... except plimsoll.Error as error:
    ...     print(error.message, "/", error.hint)
    a request of estimate has no member "lora_ranks" / did you mean "lora_rank"?
    """

    def __init__(
        self,
        message: str,
        hint: Optional[str] = None,
        file: Optional[str] = None,
        byte: Optional[int] = None,
    ) -> None:
        super().__init__(message, hint, file, byte)
        self.message = message  #: what is wrong, naming the value
        self.hint = hint  #: what to type or do next
        self.file = file  #: the file it is about
        self.byte = byte  #: where the mistake is in that file

    def __str__(self) -> str:
        place = self.file
        if place is not None and self.byte is not None:
            place += f", byte {self.byte}"
        lines = [self.message, place and f"--> {place}", self.hint and f"help: {self.hint}"]
        return "\n".join(line for line in lines if line)


Error.__module__ = "plimsoll"  # as which it is known


def _load() -> ctypes.CDLL:
    folder = os.path.dirname(os.path.abspath(__file__))
    # The variable is for the tests of the module, which are run before there is a package.
    path = os.environ.get("PLIMSOLL_LIBRARY") or os.path.join(folder, "libplimsoll.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as why:
        raise ImportError(f"plimsoll's library cannot be loaded: {why}") from None
    library.plimsoll_version.restype = ctypes.c_char_p
    library.plimsoll_free.argtypes = [ctypes.c_void_p]
    library.plimsoll_free.restype = None
    library.plimsoll_snapshot_close.argtypes = [ctypes.c_void_p]
    library.plimsoll_snapshot_close.restype = None
    return library


_library = _load()
version = _library.plimsoll_version().decode()


def _plain(value: Any) -> Any:
    """Paths and collections as JSON knows them."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a request cannot have a value of type {type(value).__name__}")


def text_of(request: Mapping[str, Any]) -> bytes:
    """A request as JSON. Members without a value (None) are left out; the option `try` is try_ in Python."""
    members = {name.rstrip("_"): value for name, value in request.items() if value is not None}
    return json.dumps(members, default=_plain).encode()


def _check(code: int, failure: _Failure) -> None:
    if code == 0:
        return

    def text(value: bytes) -> Optional[str]:
        return value.decode(errors="replace") or None

    file = text(failure.file)
    # Without a file, the offset is one into a request that the caller did not write.
    byte = failure.byte if file is not None and failure.byte != _UNKNOWN else None
    raise Error(text(failure.message) or "unknown error", text(failure.hint), file, byte)


def ask(function: str, *arguments: Any) -> Dict[str, Any]:
    """Calls plimsoll_FUNCTION(arguments..., &answer, &error) and returns the answer."""
    answer, failure = ctypes.c_void_p(), _Failure()
    try:
        call = getattr(_library, f"plimsoll_{function}")
    except AttributeError:
        raise Error(f"libplimsoll.so {version} has no plimsoll_{function}", "install a newer plimsoll") from None
    code = call(*arguments, ctypes.byref(answer), ctypes.byref(failure))
    _check(code, failure)
    try:
        document: Dict[str, Any] = json.loads(ctypes.string_at(answer.value or 0))
    finally:
        _library.plimsoll_free(answer)
    return document


def snapshot_open(request: Mapping[str, Any]) -> ctypes.c_void_p:
    snapshot, failure = ctypes.c_void_p(), _Failure()
    call = _library.plimsoll_snapshot_open
    _check(call(text_of(request), ctypes.byref(snapshot), ctypes.byref(failure)), failure)
    return snapshot


def snapshot_replay(snapshot: ctypes.c_void_p, request: Mapping[str, Any]) -> None:
    failure = _Failure()
    call = _library.plimsoll_snapshot_replay
    _check(call(snapshot, text_of(request), ctypes.byref(failure)), failure)


def snapshot_close(snapshot: ctypes.c_void_p) -> None:
    _library.plimsoll_snapshot_close(snapshot)
