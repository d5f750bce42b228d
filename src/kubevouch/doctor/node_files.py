"""What lies on a node's disk, and what is wrong with it: judged from bytes, modes and the time."""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, KubeconfigError, User
from kubevouch.doctor.findings import START_AGENT, Code, Finding
from kubevouch.machinery.text.times import Time
from kubevouch.phases.join import BOOTSTRAP_CONF, CA_CERTIFICATE, CERTIFICATE_FOLDER, KUBELET_CONF
from kubevouch.pki import keys, rotation
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, KeyMaterialError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.x509_certificate import Certificate

_MAX_BYTES = 1 << 20
_OTHERS = 0o077
_PAIR_BYTES = 64 << 10  # a pair with a long chain, and the file that is switched


@dataclass(frozen=True, slots=True)
class File:
    """One path as it was found.

    Args:
        owner: the number of a user.
        content: None where nothing could be read; ``problem`` then says why.
    """

    path: Path
    exists: bool
    is_link: bool = False
    mode: int = 0
    owner: int | None = None
    content: bytes | None = field(default=None, repr=False)
    problem: str = ""


class Room(msgspec.Struct, frozen=True):
    """Whether the next pair has a place in ``folder``. ``free`` is in bytes, for this user."""

    folder: Path
    free: int
    read_only: bool


class NodeFiles(msgspec.Struct, frozen=True):
    """``dated`` says whether there are pairs beside the current one; ``room`` is None without a folder."""

    kubelet_conf: File
    bootstrap_conf: File
    ca_file: File
    current: File
    pending_key: File
    dated: bool
    room: Room | None = None
    recovery_key: File | None = None

    @property
    def all(self) -> tuple[File, ...]:
        known = (self.kubelet_conf, self.bootstrap_conf, self.ca_file, self.current, self.pending_key)
        return known if self.recovery_key is None else (*known, self.recovery_key)


class Pair(msgspec.Struct, frozen=True):
    """The current pair as far as it could be read; ``key`` is the public half of the private key."""

    chain: tuple[Certificate, ...]
    key: PublicKey | None


def gather(root: Path, certificate_folder: Path | None = None) -> NodeFiles:
    """Reads everything and changes nothing."""
    store = CertificateStore(certificate_folder or root / CERTIFICATE_FOLDER)
    try:
        dated = store.has_pairs()
    except OSError:
        dated = False
    return NodeFiles(
        _file(root / KUBELET_CONF),
        _file(root / BOOTSTRAP_CONF),
        _file(root / CA_CERTIFICATE),
        _file(store.current_path),
        _file(store.pending_key_path),
        dated,
        room_in(store.current_path.parent),
        _file(RecoveryKeys(store.current_path.parent).path),
    )


def room_in(folder: Path) -> Room | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Room(folder, found.f_bavail * found.f_frsize, bool(found.f_flag & os.ST_RDONLY))


def _file(path: Path) -> File:
    try:
        is_link = path.is_symlink()
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            return File(path, True, is_link, stat.S_IMODE(status.st_mode), status.st_uid, file.read(_MAX_BYTES))
    except FileNotFoundError:
        return File(path, os.path.lexists(path), path.is_symlink(), problem="is not there")
    except OSError as err:
        return File(path, True, problem=(err.strerror or str(err)).lower())


# ------------------------------------------------------------------ judgements


def judge(files: NodeFiles, *, now: dt.datetime) -> Iterator[Finding]:
    """All that can be seen without the API server."""
    for file in files.all:
        if file.exists and file.content is None and not file.is_link:
            yield Code.FILE_UNREADABLE.found(f"{file.path}: {file.problem}")
    if not files.kubelet_conf.exists and not files.current.exists and not files.dated:
        yield Code.NOT_JOINED.found(f"neither {files.kubelet_conf.path} nor {files.current.path} is there")
        return
    yield from _kubeconfig(files)
    yield from _link(files)
    yield from _modes(files)
    yield from _owners(files)
    yield from _left_over(files)
    if files.room is not None:
        yield from judge_room(files.room)
    pair = read_pair(files)
    if isinstance(pair, Finding):
        yield pair
    elif pair is not None:
        yield from judge_pair(files, pair, now=now)


def judge_room(room: Room) -> Iterator[Finding]:
    if room.read_only:
        yield Code.FOLDER_NOT_WRITABLE.found(f"{room.folder} is mounted read-only", f"findmnt -T {room.folder}")
    elif room.free < _PAIR_BYTES:
        yield Code.FOLDER_NOT_WRITABLE.found(
            f"{room.folder} has {room.free} bytes left, expected {_PAIR_BYTES}", f"df -h {room.folder}"
        )


def _kubeconfig(files: NodeFiles) -> Iterator[Finding]:
    file = files.kubelet_conf
    if not file.exists:
        yield Code.KUBECONFIG_MISSING.found(f"{file.path} is not there")
    elif file.content is not None:
        try:
            current_entries(file)
        except KubeconfigError as err:
            yield Code.KUBECONFIG_BROKEN.found(f"{file.path}: {err}")


def current_entries(file: File) -> tuple[Cluster, User]:
    """The cluster and the user of the current context. Raises :class:`KubeconfigError`."""
    config = kubeconfig.load(file.content or b"")
    context = config.contexts.get(config.current_context)
    if context is None or context.cluster not in config.clusters or context.user not in config.users:
        raise KubeconfigError("its current context names no cluster and user")
    return config.clusters[context.cluster], config.users[context.user]


def _link(files: NodeFiles) -> Iterator[Finding]:
    current = files.current
    if not current.exists and files.dated:
        yield Code.LINK_MISSING.found(f"{current.path} is not there, and older pairs are")
    elif current.is_link and current.content is None:
        yield Code.LINK_DANGLING.found(f"{current.path} points to a file that is not there")
    elif current.exists and not current.is_link:
        yield Code.LINK_IS_FILE.found(f"{current.path} is a file, expected a link to a dated pair")


def _modes(files: NodeFiles) -> Iterator[Finding]:
    for file in files.all:
        if file is not files.ca_file and file.content is not None and file.mode & _OTHERS:
            yield Code.MODES_TOO_OPEN.found(
                f"{file.path} has the mode {file.mode:04o}, expected 0600", f"chmod 0600 {file.path}"
            )


def _owners(files: NodeFiles) -> Iterator[Finding]:
    """One user has to be able to read and replace them all: kubelet and agent are that of the kubeconfig."""
    wanted = files.kubelet_conf.owner
    for file in files.all:
        if None not in (wanted, file.owner) and file.owner != wanted:
            yield Code.OWNER_DIFFERS.found(
                f"{file.path} belongs to user {file.owner}, and {files.kubelet_conf.path} to user {wanted}",
                f"chown {wanted} {file.path}",
            )


def _left_over(files: NodeFiles) -> Iterator[Finding]:
    if files.bootstrap_conf.exists and files.kubelet_conf.exists and files.current.exists:
        path = files.bootstrap_conf.path
        yield Code.BOOTSTRAP_KUBECONFIG_LEFT.found(f"{path} is still there", f"rm {path}")


def read_pair(files: NodeFiles) -> Pair | Finding | None:
    """The current pair, None where there is no file of it."""
    content = files.current.content
    if content is None:
        return None
    try:
        chain = tuple(x509_certificate.parse_bundle(content))
    except ParseError as err:
        return Code.PAIR_BROKEN.found(f"{files.current.path} ({len(content)} bytes) holds no certificate: {err}")
    try:
        return Pair(chain, keys.public_key_of(keys.load_pem(content, in_tpm=True)))
    except KeyMaterialError as err:
        return Code.PAIR_BROKEN.found(f"{files.current.path} holds no private key: {err}")


def judge_pair(files: NodeFiles, pair: Pair, *, now: dt.datetime) -> Iterator[Finding]:
    leaf, path = pair.chain[0], files.current.path
    if pair.key is not None and pair.key.canonical_info != leaf.public_key.canonical_info:
        yield Code.KEY_MISMATCH.found(f"the private key in {path} is not that of the certificate in it")
    if now > leaf.not_after:
        yield Code.CERTIFICATE_EXPIRED.found(
            f"the certificate of {leaf.subject.common_name} has ended at {Time.of(leaf.not_after)}",
            # The agent comes back with it by itself, where the cluster allows that.
            START_AGENT if files.recovery_key is not None and files.recovery_key.exists else "",
        )
    elif now < leaf.not_before:
        yield Code.CERTIFICATE_NOT_YET_VALID.found(
            f"the certificate of {leaf.subject.common_name} begins at {Time.of(leaf.not_before)}, and it is "
            f"{Time.of(now)} here"
        )
    elif now > latest_rotation(leaf):
        yield Code.RENEWAL_OVERDUE.found(
            f"the certificate should have been renewed until {Time.of(latest_rotation(leaf))}; it ends at "
            f"{Time.of(leaf.not_after)}"
        )
    authority = authority_of(files)
    if authority:
        yield from _judge_authority(files, pair, authority)


def latest_rotation(leaf: Certificate) -> dt.datetime:
    return rotation.rotation_deadline(leaf.not_before, leaf.not_after, 1.0)


def authority_of(files: NodeFiles) -> tuple[Certificate, ...]:
    """The CA certificates of the node's kubeconfig; none where they cannot be read."""
    try:
        cluster, _ = current_entries(files.kubelet_conf)
        content = cluster.certificate_authority_data
        if not content and cluster.certificate_authority:
            content = _file(files.kubelet_conf.path.parent / cluster.certificate_authority).content or b""
        return tuple(x509_certificate.parse_bundle(content))
    except (KubeconfigError, ParseError):
        return ()


def _judge_authority(files: NodeFiles, pair: Pair, authority: tuple[Certificate, ...]) -> Iterator[Finding]:
    leaf, *rest = pair.chain
    try:
        verify_chain(leaf, rest, TrustAnchors(authority), now=leaf.not_before)
    except ClientCertificateError as err:
        yield Code.CERTIFICATE_OTHER_CA.found(
            f"the certificate in {files.current.path} does not come from the CA in {files.kubelet_conf.path}: {err}"
        )
    if files.ca_file.content is None:
        return
    try:
        beside = {each.contents for each in x509_certificate.parse_bundle(files.ca_file.content)}
    except ParseError:
        beside = set()
    if beside != {each.contents for each in authority}:
        yield Code.CA_FILE_DIFFERS.found(f"{files.ca_file.path} does not hold the CA in {files.kubelet_conf.path}")
