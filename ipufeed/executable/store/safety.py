"""Checks whether cached files may be trusted: a compiled program is code that will run.

A file is used if it is a regular file, not a symbolic link, whose owner is this user or
root, and which group and others cannot write. The same holds for each folder above it,
where the sticky bit makes a shared folder (such as /tmp) safe.

Source: the rules of ssh for keys, and of ccache for its folder.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


class UnsafeError(PermissionError):
    """Other users may write to a file or folder; the message has the remedy."""


def check_folder(folder: Path) -> None:
    """Raises UnsafeError unless only this user and root can put files into `folder`."""
    real = Path(os.path.realpath(folder))
    for each in (real, *real.parents):
        try:
            status = os.stat(each)
        except OSError as error:
            raise UnsafeError(
                f"{each} cannot be accessed ({error.strerror})"
            ) from error
        reason = _fault(status, is_cache=each == real)
        if reason:
            raise UnsafeError(f"{each} {reason}")


def open_trusted(path: Path) -> int:
    """Opens a file for reading, and checks the opened file rather than the path.

    Returns:
        The file's descriptor.

    Raises:
        FileNotFoundError: The file does not exist.
        UnsafeError: The file may not be trusted, or cannot be opened.
    """
    try:
        # Non-blocking: opening a pipe in its place must not block.
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
        reason = _fault(status, is_cache=True)
        if reason:
            raise UnsafeError(reason)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _fault(status: os.stat_result, *, is_cache: bool) -> str:
    """Returns why a file or folder may not be trusted, or "".

    Args:
        status: Its status.
        is_cache: Whether it is the cache's folder or in it: the sticky bit, which lets
            others add files, is not sufficient then.
    """
    me = os.geteuid()
    if status.st_uid not in (me, 0):
        return (
            f"belongs to {_user_name(status.st_uid)}: use a folder of your own, or "
            f"`chown {_user_name(me)}` it if you trust what is in it"
        )
    sticky = bool(status.st_mode & stat.S_ISVTX) and not is_cache
    if status.st_mode & stat.S_IWOTH and not sticky:
        return "can be written by every user: `chmod o-w` it"
    if status.st_mode & stat.S_IWGRP and not sticky and _is_shared(status.st_gid):
        return f"can be written by group {_group_name(status.st_gid)}: `chmod g-w` it"
    return ""


def _is_shared(group: int) -> bool:
    """Whether a group may have other members: not root's nor this user's private one."""
    if group == 0:
        return False
    try:
        user = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return True
    return user.pw_gid != group or bool(members - {user.pw_name})


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
