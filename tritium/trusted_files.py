"""Files that are read only if they are whole and if nobody else could have written them.

A file is trusted when it is a regular file of this user or of root that others cannot write, in directories of which
the same holds, all the way up. A directory that others may write is accepted if it is sticky, as /tmp is: there, what
belongs to the user is safe from others. A group may write where it is the user's own: its name is the user's, it is
the user's first group, and it has no other member.

`seal` adds a checksum to a text of our own; files that others read too stay as they are and have their `checksum`
written down elsewhere. Both depend on where the file belongs, so that one cannot stand in for another. With a key they
are signatures: they cannot be made without the key, so it no longer matters who could write the file.

    >>> sealed = seal(b"text", "folder/file")
    >>> unseal(sealed, "folder/file")
    b'text'
    >>> unseal(sealed.replace(b"text", b"test"), "folder/file")
    Traceback (most recent call last):
    tritium.trusted_files.Damaged: its checksum is wrong
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import time

__all__ = ["Damaged", "Untrusted", "checksum", "exposed", "fault", "make_dirs", "matches", "opened",
           "private_name", "read",
           "seal", "unseal", "write"]  # fmt: skip

_DAY = 86400
_LINKS = 40  # as many as Linux follows
_HAS_USERS = hasattr(os, "geteuid")
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Untrusted(PermissionError):
    """Somebody else may have written this file."""


class Damaged(ValueError):
    """This file is not what was written."""


# ---------------------------------------------------------------------------------------------------------------------
# Whole


def checksum(data: bytes, name: str, key: bytes = b"") -> str:
    """A hash of a file's content and of the name it goes by, which only those who know the `key` can compute.

    >>> checksum(b"text", "a")[:8], checksum(b"text", "b")[:8], checksum(b"text", "a", b"secret")[:8]
    ('7aeeab95', '580b5fa6', 'b2324ec9')
    """
    found = hashlib.blake2b(name.encode() + b"\0", digest_size=32, key=key)
    found.update(data)
    return found.hexdigest()


def matches(found: str, data: bytes, name: str, key: bytes = b"") -> bool:
    """Whether `found` is the checksum of a file.

    >>> matches(checksum(b"text", "a"), b"text", "a"), matches(checksum(b"text", "a"), b"text", "b")
    (True, False)
    """
    wanted = checksum(data, name, key)
    if not key:
        return found == wanted
    import hmac  # how long it takes says nothing of a signature

    return hmac.compare_digest(found.encode(), wanted.encode())


_MARK = b"\n# tritium, signed with "
_TAIL = len(_MARK) + 8 + 1 + 64 + 1


@functools.cache
def _key_name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=4, person=b"name").hexdigest().encode() if key else b"no key  "


def seal(data: bytes, name: str, key: bytes = b"") -> bytes:
    """`data` with its checksum as a last line.

    >>> seal(b"text", "a")[:34]
    b'text\\n# tritium, signed with no key'
    """
    return b"".join((data, _MARK, _key_name(key), b" ", checksum(data, name, key).encode(), b"\n"))


def unseal(sealed: bytes, name: str, key: bytes = b"") -> bytes:
    """What was sealed; Damaged if it is not as it was, or belongs elsewhere."""
    data, tail = sealed[:-_TAIL], sealed[-_TAIL:]
    if len(tail) != _TAIL or not tail.startswith(_MARK):
        raise Damaged("it is cut short or not a file of this cache")
    signer, found = tail[len(_MARK) : -66], tail[-65:-1].decode(errors="replace")
    if signer != _key_name(key):
        raise Damaged("it is not signed with the key of this process" if key else "it is signed with a key")
    if not matches(found, data, name, key):
        raise Damaged("its checksum is wrong")
    return data


# ---------------------------------------------------------------------------------------------------------------------
# Trusted


@functools.cache
def _own_group(gid: int, uid: int) -> bool:
    """Whether nobody but this user is in a group, as far as one can tell."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def fault(found: os.stat_result) -> str:
    """Why others could have a hand in a file or a directory; empty if they could not.

    >>> fault(os.stat("/"))
    ''
    """
    if not _HAS_USERS:
        return ""
    user, mode = os.geteuid(), found.st_mode
    if found.st_uid != user and found.st_uid != 0:
        return f"belongs to user {found.st_uid}, this process runs as user {user}"
    if not mode & (stat.S_IWGRP | stat.S_IWOTH) or stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return ""
    if mode & stat.S_IWOTH:
        return "can be written by every user"
    return "" if _own_group(found.st_gid, user) else f"can be written by group {found.st_gid}"


_walked: dict[tuple[str, int], str] = {}


def exposed(directory: str) -> str:
    """Why others could change what lies in a directory; empty if they could not. What is not there yet is nobody's.

    Every directory on the way is looked at, and every link, once in a process.

    >>> exposed("/")
    ''
    """
    if not _HAS_USERS:
        return ""
    known = (directory, os.geteuid())
    if known not in _walked:
        try:
            reason = _walk(os.path.abspath(directory))
        except FileNotFoundError:
            return ""
        except OSError as error:
            return str(error)
        _walked[known] = reason
    return _walked[known]


def _walk(path: str) -> str:
    at, todo, links = "/", path.split("/")[::-1], 0
    while todo:
        name = todo.pop()
        if name in ("", "."):
            path = at
        elif name == "..":
            at = path = os.path.dirname(at)
        else:
            path = os.path.join(at, name)
        found = os.lstat(path)
        if reason := fault(found):
            return f"{path} {reason}"
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _LINKS:
                return f"{path} is one of too many links"
            target = os.readlink(path)
            at = "/" if target.startswith("/") else at
            todo += target.split("/")[::-1]
        else:
            at = path
    return ""


def opened(path: str, anyone: bool = False) -> tuple[int, os.stat_result]:
    """An open file, and what was looked at; Untrusted unless only this user or root could write it, or `anyone` may."""
    if not anyone:
        folder = os.path.dirname(path)
        found = os.lstat(folder)
        reason = exposed(os.path.dirname(folder)) or (exposed(folder) if stat.S_ISLNK(found.st_mode) else fault(found))
        if reason:
            raise Untrusted(f"{path}: {reason}")
    # A pipe in its place would make us wait, a link could lead anywhere.
    file = os.open(path, _READ)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted(f"{path} is not a regular file")
        if not anyone and (reason := fault(found)):
            raise Untrusted(f"{path} {reason}")
    except BaseException:
        os.close(file)
        raise
    return file, found


def read(path: str, anyone: bool = False) -> bytes:
    """The content of a file; Untrusted unless only this user or root could write it, or `anyone` may.

    What is read is what was looked at. The time of its last use is noted once a day, for those who make room.
    """
    file, found = opened(path, anyone)
    try:
        parts, size = [], found.st_size + 1
        while part := os.read(file, size):
            parts.append(part)
        if found.st_mtime < time.time() - _DAY:
            with contextlib.suppress(OSError):
                os.utime(file)
    finally:
        os.close(file)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def make_dirs(path: str, mode: int) -> None:
    """Make a directory and those it lies in, each with this mode.

    >>> import tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "a", "b")
    >>> make_dirs(folder, 0o700)
    >>> os.path.isdir(folder)
    True
    """
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(20, "not a directory", path) from None
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_dirs(parent, mode)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)


def private_name(path: str) -> str:
    """A name beside a file that tells whose it is while it is written.

    >>> private_name("/cache/file").startswith(f"/cache/.tmp.{os.getpid()}.")
    True
    """
    # In the same directory: a file takes ten times as long to rename into another one.
    return os.path.join(os.path.dirname(path), f".tmp.{os.getpid()}.{os.urandom(8).hex()}")


def write(path: str, data: bytes, mode: int) -> None:
    """Write under a private name, then rename: nobody sees half a file."""
    private = private_name(path)
    file = os.open(private, _CREATE, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        os.replace(private, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(private)
        raise
