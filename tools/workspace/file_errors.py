"""What the operating system says about files, in the words of tools.

The one place where `OSError` of file tools becomes `ToolFailure`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator

from ...runtime.definitions import ErrorType, ToolFailure
from .paths import not_allowed, shown

_MEANING: dict[int, tuple[ErrorType, str]] = {
    errno.ENOENT: (
        ErrorType.FILE_NOT_FOUND,
        "no such file or directory. list_directory shows what there is.",
    ),
    errno.ENOTDIR: (
        ErrorType.NOT_A_DIRECTORY,
        "not a directory, or a part of the path is a file.",
    ),
    errno.EISDIR: (ErrorType.NOT_A_FILE, "a directory, where a file is meant."),
    errno.ENXIO: (ErrorType.NOT_A_FILE, "not a regular file."),
    errno.ENODEV: (ErrorType.NOT_A_FILE, "not a regular file."),
    errno.EEXIST: (ErrorType.ALREADY_EXISTS, "it exists already."),
    errno.ENOTEMPTY: (
        ErrorType.NOT_EMPTY,
        "the directory is not empty; delete_file takes recursive=true.",
    ),
    errno.EACCES: (ErrorType.ACCESS_DENIED, "the operating system denies access."),
    errno.EPERM: (ErrorType.ACCESS_DENIED, "the operating system does not permit it."),
    errno.EROFS: (ErrorType.ACCESS_DENIED, "the file system is read-only."),
    errno.EBUSY: (ErrorType.ACCESS_DENIED, "it is in use by the operating system."),
    errno.ETXTBSY: (ErrorType.ACCESS_DENIED, "it is a program that is running."),
    errno.ENOSPC: (ErrorType.STORAGE_FULL, "no space left on the disk; nothing was changed."),
    errno.EDQUOT: (ErrorType.STORAGE_FULL, "the disk quota is used up; nothing was changed."),
    errno.EFBIG: (ErrorType.STORAGE_FULL, "the file would be larger than is allowed."),
    errno.ENAMETOOLONG: (ErrorType.VALIDATION_ERROR, "a name in the path is too long."),
    errno.EINVAL: (ErrorType.VALIDATION_ERROR, "the operating system can't do this with it."),
}


def failure(error: OSError, path: str) -> ToolFailure:
    """The typed failure for what went wrong with a path."""
    if error.errno in {errno.EXDEV, errno.ELOOP}:
        return not_allowed(path)
    fallback = ErrorType.EXECUTION_ERROR, f"{os.strerror(error.errno or errno.EIO)}."
    error_type, text = _MEANING.get(error.errno or 0, fallback)
    if error_type is ErrorType.VALIDATION_ERROR:
        return ToolFailure(error_type, f"{shown(path)}: {text}", field="path")
    return ToolFailure(error_type, f"{shown(path)}: {text}")


@contextlib.contextmanager
def failures(path: str) -> Generator[None]:
    """Turns the `OSError` of its block into a `ToolFailure` about `path`."""
    try:
        yield
    except OSError as error:
        raise failure(error, path) from error
