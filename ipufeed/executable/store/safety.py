"""Whether files of a cache may be trusted: a compiled program is code that will run.

A file is used if only its owner can have written it, and its owner is this user or
root: no symbolic link, a regular file, not writable by group or others; and the same for
each folder above it, where the sticky bit makes a shared one (such as /tmp) safe.

Source: the rules of ssh for its keys, and of ccache for its folder.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


class UnsafeError(PermissionError):
    """A file or folder that others may write to; the message has the cure."""


def check_folder(folder: Path) -> None:
    """Raises UnsafeError unless only this user and root can put files into `folder`."""
    real = Path(os.path.realpath(folder))
    for each in (real, *real.parents):
        try:
            status = os.stat(each)
        except OSError as error:
            raise UnsafeError(
                f"{each} cannot be looked at ({error.strerror})"
            ) from error
        reason = unsafe(status, is_cache=each == real)
        if reason:
            raise UnsafeError(f"{each} {reason}")


def open_trusted(path: Path) -> int:
    """Opens a file for reading and checks what was opened, not what the path names.

    Returns:
        Its descriptor.

    Raises:
        FileNotFoundError: There is none.
        UnsafeError: It may not be trusted.
        OSError: It cannot be opened.
    """
    try:
        # Non-blocking: a pipe in its place must not make us wait.
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        )
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise UnsafeError("is a symbolic link: put the file itself there") from None
        raise UnsafeError(f"cannot be opened ({error.strerror})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError("is not a regular file: put one there, or remove it")
        reason = unsafe(status, is_cache=True)
        if reason:
            raise UnsafeError(reason)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unsafe(status: os.stat_result, *, is_cache: bool) -> str:
    """Why a file or folder may not be trusted, or "".

    Args:
        status: Of it.
        is_cache: Whether it is the cache, or in it: then the sticky bit is not enough,
            as it lets others add files.
    """
    me = os.geteuid()
    if status.st_uid not in (me, 0):
        return (
            f"belongs to {user_name(status.st_uid)}: use a folder of your own, or "
            f"`chown {user_name(me)}` it if you trust what is in it"
        )
    sticky = bool(status.st_mode & stat.S_ISVTX) and not is_cache
    if status.st_mode & stat.S_IWOTH and not sticky:
        return "can be written by every user: `chmod o-w` it"
    if status.st_mode & stat.S_IWGRP and not sticky and is_shared(status.st_gid):
        return f"can be written by group {group_name(status.st_gid)}: `chmod g-w` it"
    return ""


def is_shared(group: int) -> bool:
    """Whether others may be in a group: any but root's, and this user's private one."""
    if group == 0:
        return False
    try:
        user = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return True
    return user.pw_gid != group or bool(members - {user.pw_name})


def user_name(user: int) -> str:
    """Its name, or its number."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def group_name(group: int) -> str:
    """Its name, or its number."""
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
