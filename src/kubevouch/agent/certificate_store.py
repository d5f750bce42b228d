"""The certificate files of a kubelet: ``kubelet-client-current.pem`` and what it points to.

Layout and order: client-go ``util/certificate/certificate_store.go`` (Kubernetes 1.36). Unlike there, the current pair
is switched in one rename, two updates in one second do not overwrite each other, and old pairs go away
(kubernetes/kubernetes#53027). Our programs take a lock while they ask for a pair or switch; reading takes none.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch.agent.interface import CertificateStoreError, CertificateStoreInUseError
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import keys
from kubevouch.pki.authority import load_key_pair
from kubevouch.pki.errors import AuthorityError, KeyMaterialError, ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.files import (
    PRIVATE,
    FileInUseError,
    Stamp,
    UnsafeFileError,
    is_private,
    locked,
    make_folder,
    make_private,
    read_private,
    stamp,
    sync_folder,
    write_atomically,
)

CLIENT_PREFIX = "kubelet-client"
KEPT_PAIRS = 2
"""The current one and the one before: more only lie about as keys that can be stolen."""
_MAX_BYTES = 1 << 20
MakeKey = Callable[[], Awaitable[PrivateKey | None]]
_DATED = re.compile(r"(?:-[0-9]+){6,7}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredPair:
    """A certificate with its chain, leaf first, and its key."""

    chain: tuple[Certificate, ...]
    key: PrivateKey = field(repr=False)

    @property
    def leaf(self) -> Certificate:
        return self.chain[0]


class CertificateStore:
    """One kind of certificate in one folder.

    Args:
        relative_links: a first current link holds a bare file name, for a tree that is going to be moved; kubelets
            write the absolute path.
        certificate_file, key_file: where a pair may stand that somebody else put there.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str = CLIENT_PREFIX,
        *,
        relative_links: bool = False,
        certificate_file: Path | None = None,
        key_file: Path | None = None,
    ) -> None:
        self._folder = folder
        self._prefix = prefix
        self._relative_links = relative_links
        self._given = (certificate_file, key_file)
        self.current_path = folder / f"{prefix}-current.pem"
        self._updated_path = folder / f"{prefix}-updated.pem"
        self.pending_key_path = folder / f"{prefix}.key.tmp"
        self.lock_path = folder / f".{prefix}.lock"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold off other programs of ours until the end of the block; the lock ends with the process.

        Raises:
            CertificateStoreInUseError: another one is at it.
            OSError: the folder cannot be written.
        """
        make_folder(self._folder)
        try:
            with locked(self.lock_path):
                yield
        except FileInUseError as err:
            raise CertificateStoreInUseError(
                f"another program is asking for a certificate for {self.current_path}", "wait until it is done"
            ) from err

    # -------------------------------------------------------------- the pair

    def stamp(self) -> Stamp | None:
        """Changes when :meth:`current` may answer otherwise."""
        return stamp(self.current_path)

    def current(self) -> StoredPair | None:
        """The pair that counts, or None when there is none.

        A current pair that cannot be read is an error, not a reason to look further.

        Raises:
            CertificateStoreError: the files hold no pair.
            OSError: they cannot be read.
        """
        self._recover()
        if self.current_path.exists():
            content = _read(self.current_path)
            return _pair(content, content, self.current_path)
        prefixed = (self._folder / f"{self._prefix}.crt", self._folder / f"{self._prefix}.key")
        for certificate, key in (self._given, prefixed):
            if certificate is not None and key is not None and certificate.exists() and key.exists():
                # Whoever puts a pair there decides who may read it.
                read = _content if (certificate, key) == self._given else _read
                return _pair(_content(certificate), read(key), certificate)
        return None

    def update(self, certificate: bytes, key: PrivateKey, *, now: dt.datetime) -> Path:
        """Put a new pair on disk and make it the current one; the path of its own file.

        Args:
            certificate: PEM, leaf first; only plain CERTIFICATE blocks are kept.

        Raises:
            CertificateStoreError: certificate and key are no pair, or something stands where a link has to be.
            OSError: the current pair is as it was.
        """
        content = _bounded(_only_certificates(certificate, self.current_path) + keys.to_pem(key), self.current_path)
        _pair(content, content, self.current_path)
        for link in (self.current_path, self._updated_path):
            if link.exists() and not link.is_symlink():
                raise CertificateStoreError(
                    f"expected {quote(str(link))} to be a symlink but it is a file", "move the file away and try again"
                )
        make_folder(self._folder)
        dated = self._free_name(now)
        write_atomically(dated, content, mode=PRIVATE)
        written = _read(dated)
        _pair(written, written, dated)
        self._switch(dated)
        self._prune(dated)
        return dated

    def _switch(self, dated: Path) -> None:
        # A link that was made relative, for a tree that is moved, stays so.
        relative = self._relative_links or (
            self.current_path.is_symlink() and not self.current_path.readlink().is_absolute()
        )
        self._updated_path.unlink(missing_ok=True)
        self._updated_path.symlink_to(dated.name if relative else dated.absolute())
        self._updated_path.replace(self.current_path)
        sync_folder(self._folder)

    def _recover(self) -> None:
        """A kubelet that stopped in the middle of a switch leaves the new link under its other name."""
        if not os.path.lexists(self.current_path) and self._updated_path.is_symlink():
            self._updated_path.replace(self.current_path)
            sync_folder(self._folder)

    def _free_name(self, now: dt.datetime) -> Path:
        # Kubelets name the files by local time.
        stem = f"{self._prefix}-{now.astimezone():%Y-%m-%d-%H-%M-%S}"
        taken = self._dated(f"{stem}*")
        if not taken:
            return self._folder / f"{stem}.pem"
        serial = taken[-1].stem.removeprefix(stem).removeprefix("-")
        return self._folder / f"{stem}-{int(serial or 1) + 1:02}.pem"

    def _dated(self, stem: str) -> list[Path]:
        """Oldest first. By stem: with ``.pem`` the second file of a second would come before the first."""
        found = (path for path in self._folder.glob(f"{stem}.pem") if _DATED.fullmatch(path.stem, len(self._prefix)))
        return sorted(found, key=lambda path: path.stem)

    def _prune(self, newest: Path) -> None:
        """A file that cannot be removed is no reason to fail: the new pair is in place."""
        older = [path for path in self._dated(f"{self._prefix}-*") if path != newest]
        for path in older[: 1 - KEPT_PAIRS]:
            with contextlib.suppress(OSError):
                path.unlink()

    # -------------------------------------------------------------- repair

    def has_pairs(self) -> bool:
        """Whether there are pairs, current or not."""
        return bool(self._dated(f"{self._prefix}-*"))

    def repair(self, usable: Callable[[StoredPair], bool], *, now: dt.datetime) -> list[str]:
        """Make the files such that :meth:`current` and :meth:`update` work again; what was done, in sentences.

        No bytes are thrown away: a file that is no pair gets ``.broken`` behind its name. The newest pair that is
        ``usable`` becomes the current one if the current one is none (kubernetes/kubernetes#53288).

        Raises:
            OSError: the files cannot be changed.
        """
        done: list[str] = []
        self._recover()
        if self.current_path.exists() and not is_private(self.current_path):
            make_private(self.current_path)
            done.append(f"{self.current_path} could be read by others; its mode is 0600 now")
        if self.pending_key_path.exists() and not is_private(self.pending_key_path):
            # Nothing has been issued for it, so it costs nothing to begin with a key that nobody else can have.
            make_private(self.pending_key_path)
            done.append(_set_aside(self.pending_key_path, "could be read by others, or was made by them"))
        if self._updated_path.exists() and not self._updated_path.is_symlink():
            done.append(_set_aside(self._updated_path, "is a file where a link has to be"))
        if self.current_path.exists():
            done += self._repair_current(now)
        if not self.current_path.exists():
            done += self._fall_back(usable)
        if self.pending_key_path.exists():
            try:
                keys.load_pem(_read(self.pending_key_path), in_tpm=True)
            except (KeyMaterialError, CertificateStoreError):
                done.append(_set_aside(self.pending_key_path, "holds no private key"))
        return done

    def _repair_current(self, now: dt.datetime) -> list[str]:
        path = self.current_path
        try:
            content = _read(path)
            _pair(content, content, path)
        except CertificateStoreError as err:
            said = _set_aside(path.resolve(), f"is no pair ({err})")
            path.unlink(missing_ok=True)
            return [said]
        if path.is_symlink():
            return []
        dated = self._free_name(now)
        os.link(path, dated)
        self._switch(dated)
        return [f"{path} was a file; it is a link to {dated.name} now"]

    def _fall_back(self, usable: Callable[[StoredPair], bool]) -> list[str]:
        for dated in reversed(self._dated(f"{self._prefix}-*")):
            try:
                content = _read(dated)
                if not usable(_pair(content, content, dated)):
                    continue
            except (CertificateStoreError, OSError):
                continue
            self._switch(dated)
            return [f"{self.current_path} leads to the newest good pair, {dated.name}"]
        return []

    # -------------------------------------------------------------- the key of a pending request

    async def pending_key(
        self, algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256, make: MakeKey | None = None
    ) -> tuple[PrivateKey, bool]:
        """The key of the request under way, and whether it was made just now.

        It is on disk before this returns, so that a restart goes on with the same request. A key of another algorithm
        than is wanted now was never of use and is replaced, and so is one that a program stopped before it dropped it.

        Args:
            make: where a new key comes from, such as a TPM; None, or None from it, makes one here.

        Raises:
            CertificateStoreError: the file holds no key; as kubelets do, it is not replaced.
            OSError: it cannot be read or written.
        """
        path = self.pending_key_path
        if path.exists():
            try:
                found = keys.load_pem(_read(path), in_tpm=True)
                _know_tpm(found)
                if keys.algorithm_of(found) is algorithm and not self._is_in_use(found):
                    return found, False
            except KeyMaterialError as err:
                raise CertificateStoreError(
                    f"{path} holds no private key: {err}", "remove the file to begin with a new key"
                ) from err
        key = (None if make is None else await make()) or await _fresh_key(algorithm)
        make_folder(self._folder)
        write_atomically(path, keys.to_pem(key), mode=PRIVATE)
        return key, True

    def put_pending_key(self, key: PrivateKey) -> None:
        """A key that was made elsewhere, for the next request. Raises ``OSError``."""
        make_folder(self._folder)
        write_atomically(self.pending_key_path, keys.to_pem(key), mode=PRIVATE)

    def _is_in_use(self, key: PrivateKey) -> bool:
        """Whether the current pair has this key: its request would only give that pair again."""
        try:
            current = self.current()
        except CertificateStoreError:
            return False
        return current is not None and keys.public_key_of(current.key).info == keys.public_key_of(key).info

    def drop_pending_key(self) -> None:
        """Once the pair is in place. Raises ``OSError``."""
        self.pending_key_path.unlink(missing_ok=True)


async def _fresh_key(algorithm: KeyAlgorithm) -> PrivateKey:
    """Two primes may take seconds, for which the agent would answer nobody and renew nothing else."""
    if algorithm.is_rsa:
        # kubevouch credential reads this store in each call of a kubectl, and needs no loop.
        import asyncio

        return await asyncio.to_thread(keys.generate, algorithm)
    return keys.generate(algorithm, post_quantum=algorithm.is_post_quantum)


def _set_aside(path: Path, why: str) -> str:
    aside = path.with_name(f"{path.name}.broken")
    path.replace(aside)
    sync_folder(path.parent)
    return f"{path} {why}; it was moved to {aside.name}"


def _read(path: Path) -> bytes:
    """A file with a key of ours."""
    try:
        return _bounded(read_private(path, _MAX_BYTES + 1), path)
    except UnsafeFileError as err:
        raise CertificateStoreError(f"{path} cannot be used: {err}", err.hint) from err


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return _bounded(file.read(_MAX_BYTES + 1), path)


def _bounded(content: bytes, path: Path) -> bytes:
    if len(content) > _MAX_BYTES:
        raise CertificateStoreError(f"{path} is longer than {_MAX_BYTES} bytes")
    return content


def _pair(certificate: bytes, key: bytes, path: Path) -> StoredPair:
    """In either order in one file. Raises :class:`CertificateStoreError`."""
    try:
        _, private_key = load_key_pair(certificate, key, in_tpm=True)
        _know_tpm(private_key)
        return StoredPair(tuple(x509_certificate.parse_bundle(certificate)), private_key)
    except (AuthorityError, ParseError) as err:
        raise CertificateStoreError(
            f"{path} holds no pair of certificate and key: {err}", "move the file away to ask for a new certificate"
        ) from err


def _know_tpm(key: PrivateKey) -> None:
    """A key that stays in a TPM does not say in which; it is this machine's."""
    if keys.is_in_tpm(key):
        from kubevouch.attestation.tpm import node_keys

        node_keys.use_own_tpm()


def _only_certificates(text: bytes, path: Path) -> bytes:
    try:
        found = [block for block in pem.blocks(text) if block.type == pem.CERTIFICATE and not block.headers]
    except ParseError as err:
        raise CertificateStoreError(f"the certificates for {path} cannot be read: {err}") from err
    return b"".join(pem.encode(pem.CERTIFICATE, block.contents) for block in found)
