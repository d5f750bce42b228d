"""A CA key that never leaves a PKCS#11 token: an HSM, a smart card, SoftHSM.

Calls into a module block, and may block for ever; who signs does so on a thread (:mod:`.key_threads`). A token that is
pulled out takes its sessions with it, and most modules notice a token that has come back only after they have been
initialized again, so both is done here whenever nothing else helps.

Source: PKCS #11 3.0 section 5 (C_Initialize, C_Login), RFC 7512.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.signature import Signing, external_signing
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.signers.pkcs11_uri import KeyName
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

if TYPE_CHECKING:
    from pkcs11 import Session, Token

T = TypeVar("T")

log = get_logger("signers.pkcs11")

MAX_SESSIONS = 8
"""That sign at once. A token may have fewer; then others wait for one of them."""

RESTART_SECONDS = 5.0
"""How often at most a module is initialized anew: it ends the sessions of every token that it drives."""

_DRAIN_SECONDS = 5.0
_CKF_OS_LOCKING_OK = 0x2
_CKR_OK, _CKR_ALREADY_INITIALIZED = 0x0, 0x191


def library() -> ModuleType:
    """python-pkcs11, which is an extra. Raises :class:`KeyMaterialError` when it is not installed."""
    try:
        import pkcs11
    except ImportError:
        raise KeyMaterialError("keys in PKCS#11 tokens need python-pkcs11: pip install 'kubevouch[pkcs11]'") from None
    return pkcs11


class _FunctionList(ctypes.Structure):
    """The beginning of CK_FUNCTION_LIST."""

    _fields_ = (
        ("version", ctypes.c_ubyte * 2),
        ("initialize", ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)),
        ("finalize", ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)),
    )


class _InitializeArguments(ctypes.Structure):
    """CK_C_INITIALIZE_ARGS: no locks of ours, the module may take the system's."""

    _fields_ = (
        ("create", ctypes.c_void_p),
        ("destroy", ctypes.c_void_p),
        ("lock", ctypes.c_void_p),
        ("unlock", ctypes.c_void_p),
        ("flags", ctypes.c_ulong),
        ("reserved", ctypes.c_void_p),
    )


class Module:
    """A shared library, which is initialized once a process and serves every token that it knows.

    ``generation`` counts initializations: sessions of an earlier one are gone.
    """

    def __init__(self, path: str) -> None:
        """Raises :class:`KeyMaterialError`: it cannot be loaded."""
        self.path = path
        self.generation = 0
        self._users = 0
        self._changed = threading.Condition()
        self._pkcs11 = library()
        try:
            self._functions = _functions(path)
            self.library = self._pkcs11.lib(path)
            # python-pkcs11 promises the module that only one thread will call it, which then takes no locks.
            self.library.finalize()
        except (self._pkcs11.PKCS11Error, OSError, AttributeError) as err:
            raise KeyMaterialError(f"the PKCS#11 module {quote(path)} cannot be loaded: {_words(err)}") from err
        self._initialize()

    def _initialize(self) -> None:
        arguments = _InitializeArguments(flags=_CKF_OS_LOCKING_OK)
        answer = self._functions.initialize(ctypes.addressof(arguments))
        if answer not in (_CKR_OK, _CKR_ALREADY_INITIALIZED):
            raise SignerUnavailable(f"the PKCS#11 module {quote(self.path)} does not start: error {answer:#x}")

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside, the module is not initialized anew."""
        with self._changed:
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def restart(self, seen: int) -> bool:
        """Initialize it anew, unless that was done since generation ``seen``; False if it cannot be done now.

        Raises:
            SignerUnavailable: it does not start any more.
        """
        with self._changed:
            if self.generation != seen:
                return True
            # One that hangs in a call of its own is in the way of all tokens of its module.
            if not self._changed.wait_for(lambda: not self._users, _DRAIN_SECONDS):
                return False
            self._functions.finalize(None)
            self._initialize()
            self.generation += 1
            return True


def _functions(path: str) -> _FunctionList:
    found = ctypes.POINTER(_FunctionList)()
    ctypes.CDLL(path).C_GetFunctionList(ctypes.byref(found))
    return found.contents


@cache
def module(path: str) -> Module:
    """The module at ``path``, loaded at the first call. Raises :class:`KeyMaterialError`: it cannot be."""
    return Module(path)


class TokenKey:
    """The key that ``name`` names; see ``signers.keys.CAKey``."""

    blocks = True

    def __init__(self, name: KeyName, public_key: PublicKey, pin: Callable[[], str], clock: Clock) -> None:
        """Nothing is asked of the token yet.

        Args:
            public_key: that of the CA's certificate.
            pin: asked for at each login; empty where the token needs none.

        Raises:
            KeyMaterialError: the module cannot be loaded, or such keys are not supported.
        """
        if public_key.kind not in (KeyKind.RSA, KeyKind.ECDSA):
            raise KeyMaterialError(f"a {public_key.name} key in a PKCS#11 token is not supported, RSA and ECDSA are")
        self.public_key = public_key
        self.signing: Signing = external_signing(public_key, self._sign)
        self._name = name
        self._pin = pin
        self._clock = clock
        self._module = module(name.module)
        self._pkcs11 = library()
        self._lock = threading.Lock()
        self._idle: list[tuple[Session, Any]] = []
        self._generation = 0
        self._login: Session | None = None
        self._refused_pin: bytes | None = None
        self._was_there = False
        self._restarted = float("-inf")

    def verify(self) -> None:
        """Ask the token for the key.

        Raises:
            SignerUnavailable: the token is not there now.
            KeyMaterialError: no such key, or another one than the certificate's.
        """
        self._with_key(lambda _key: None)

    def _sign(self, octets: bytes) -> bytes:
        mechanisms = self._pkcs11.Mechanism
        if self.public_key.kind is KeyKind.RSA:
            return bytes(self._with_key(lambda key: key.sign(octets, mechanism=mechanisms.SHA256_RSA_PKCS)))
        digest = hashlib.new(_DIGESTS.get(self.public_key.bits, "sha256"), octets).digest()
        pair = bytes(self._with_key(lambda key: key.sign(digest, mechanism=mechanisms.ECDSA)))
        half = len(pair) // 2
        numbers = (der.encode_integer(int.from_bytes(part)) for part in (pair[:half], pair[half:]))
        return der.encode(der.SEQUENCE, *numbers)

    def _with_key(self, use: Callable[[Any], T]) -> T:
        """What ``use`` gives, over sessions of now if those that are open have ended with the token."""
        errors = self._pkcs11
        problem: Exception
        for attempt in range(3):
            seen = self._module.generation
            try:
                with self._module.used():
                    return self._once(use)
            except (errors.PinIncorrect, errors.PinLocked, errors.PinExpired, errors.PinInvalid) as err:
                raise KeyMaterialError(f"the PIN for {self._name} is refused: {_words(err)}") from None
            except (errors.PKCS11Error, SignerUnavailable) as err:
                problem = err
            # At first only a session may have ended; then the module may not have noticed that a token is back.
            if attempt and not self._restart(seen):
                break
        if isinstance(problem, errors.NoSuchKey) and not self._was_there:
            raise KeyMaterialError(f"there is no {self._name}") from None
        raise SignerUnavailable(f"{self._name} cannot be used now: {_words(problem)}") from problem

    def _restart(self, seen: int) -> bool:
        now = self._clock.monotonic()
        if now - self._restarted < RESTART_SECONDS:
            return self._module.generation != seen
        self._restarted = now
        return self._module.restart(seen)

    def _once(self, use: Callable[[Any], T]) -> T:
        session, key = self._take()
        try:
            result = use(key)
        except self._pkcs11.PKCS11Error:
            # What ended this session has ended the others, too.
            with self._lock:
                ended = [session, *(idle for idle, _ in self._idle)]
                self._idle.clear()
            for each in ended:
                with suppress(self._pkcs11.PKCS11Error):
                    each.close()
            raise
        with self._lock:
            self._idle.append((session, key))
        return result

    def _take(self) -> tuple[Session, Any]:
        with self._lock:
            if self._generation != self._module.generation:
                self._idle.clear()
                self._login = None
                self._generation = self._module.generation
            if self._idle:
                return self._idle.pop()
            token = self._token()
            session = token.open()
            try:
                return session, self._find(session)
            except self._pkcs11.NoSuchKey:
                # A token shows private keys to who has logged in, on whichever session.
                if self._login is not None or not self._log_in(token):
                    session.close()
                    raise
            return session, self._find(session)

    def _token(self) -> Token:
        name = self._name
        wanted = (name.token, name.serial.encode(), name.manufacturer, name.model)
        for slot in self._module.library.get_slots(token_present=True):
            if name.slot not in (-1, slot.slot_id):
                continue
            with suppress(self._pkcs11.TokenNotPresent, self._pkcs11.TokenNotRecognised):
                token: Token = slot.get_token()
                said = (token.label, token.serial, token.manufacturer_id, token.model)
                if all(not want or want == got for want, got in zip(wanted, said, strict=True)):
                    return token
        raise SignerUnavailable("the token is not there")

    def _find(self, session: Session) -> Any:
        which = self._pkcs11.ObjectClass.PRIVATE_KEY
        name = self._name
        key = session.get_key(object_class=which, label=name.label or None, id=name.key_id or None)
        self._was_there = True
        return key

    def _log_in(self, token: Token) -> bool:
        """Whether that was worth a try. A token locks itself after some wrong PINs: none is shown twice."""
        pin = self._pin()
        shown = hashlib.sha256(pin.encode()).digest()
        if not pin or shown == self._refused_pin:
            if pin:
                raise KeyMaterialError(f"the PIN for {self._name} was refused, and is the same still")
            return False
        try:
            self._login = token.open(user_pin=pin)
        except self._pkcs11.UserAlreadyLoggedIn:
            return False
        except (self._pkcs11.PinIncorrect, self._pkcs11.PinInvalid, self._pkcs11.PinLenRange):
            self._refused_pin = shown
            raise
        return True


_DIGESTS = {224: "sha256", 256: "sha256", 384: "sha384", 521: "sha512"}


def _words(err: BaseException) -> str:
    """python-pkcs11's errors have names and hardly ever words."""
    return str(err) or type(err).__name__
