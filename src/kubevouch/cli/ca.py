"""``kubevouch ca rotate``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import ADMIN_FILE, connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.control_plane import layout_flags, take_layout
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.phases.certificates.ca_rotation import CARotation, CARotationError
    from kubevouch.phases.certificates.ca_rotation_plan import Obstacle, Rotation, Standing
    from kubevouch.phases.certificates.control_plane_files import Layout
    from kubevouch.pki.x509.x509_certificate import Certificate

T = TypeVar("T")
_SHOWN = 20
_LOCK = ".ca-rotation.lock"
_WAIT_SECONDS = 5.0

_accept_loss = click.option(
    "--accept-loss", "accept_loss", multiple=True, metavar="NAME", help="Machine or common name not to wait for; again."
)


@click.group(cls=ui.Group)
def ca() -> None:
    """Look after a cluster's certificate authority."""
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")


@ca.group(cls=ui.Group)
def rotate() -> None:
    """Replace the cluster's CA by another one, with nobody locked out.

    Both CAs are trusted until every certificate comes from the next one. Each command can be run again wherever it was
    cut off.
    """


@rotate.command()
@click.option("--force", is_flag=True, help="Have the next CA sign although some do not trust it yet.")
@click.option("--wait", is_flag=True, help="Go on until the next CA signs and all machines have renewed.")
@click.option("--renewal-window", type=DURATION, default=None, help="In which machines renew.  [default: 6h]")
@click.option("--key-algorithm", default="", help="Of the next CA's key.  [default: that of the former one]")
@_accept_loss
@kubeconfig_option
@layout_flags
def start(
    force: bool, wait: bool, renewal_window: dt.timedelta | None, key_algorithm: str, accept_loss: tuple[str, ...],
    **flags: Any,
) -> None:  # fmt: skip
    """Begin a rotation, or go on with one: by one phase, if nothing is in the way."""
    from kubevouch.phases.certificates.ca_rotation import CARotationError, Settings
    from kubevouch.phases.certificates.ca_rotation_plan import Phase
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.pki.keys import KeyAlgorithm
    from kubevouch.util.clock import SystemClock

    try:
        algorithm = KeyAlgorithm.parse(key_algorithm) if key_algorithm else None
    except KeyMaterialError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    if renewal_window is not None and renewal_window < dt.timedelta():
        raise ui.CLIError("got a negative --renewal-window, expected 0 or more", code=ExitCode.INVALID)
    settings = Settings(accept_loss, force, renewal_window, algorithm)

    async def work(rotation: CARotation) -> None:
        clock, told = SystemClock(), ""
        while True:
            try:
                state = await rotation.start(settings)
            except CARotationError as err:
                if not wait or not err.obstacles:
                    raise
            else:
                if str(state.phase) != told:
                    told = str(state.phase)
                    _done(state)
                if not wait or state.over:
                    return
            found, standing = await rotation.status()
            if found is not None and found.paused:
                raise ui.CLIError("somebody has paused the rotation", hint=f"{standing.command} goes on")
            if found is not None and found.phase is Phase.RENEWING and not standing.obstacles:
                ui.step("all machines have renewed", standing.command)
                return
            ui.waiting(f"{standing.ready} of {standing.total} machines; {len(standing.obstacles)} in the way")
            await clock.sleep(_WAIT_SECONDS)

    _change(flags, work)


@rotate.command()
@ui.output_option
@kubeconfig_option
@layout_flags
def status(output: str, **flags: Any) -> None:
    """Say how far the rotation is, who lags behind, and what comes next."""
    found, standing = _with_rotation(flags, lambda rotation: rotation.status())
    if output != "text":
        ui.document(tree(found, standing), output)
        return
    for line in words(found, standing):
        ui.say(line)


@rotate.command()
@kubeconfig_option
@layout_flags
def pause(**flags: Any) -> None:
    """Stop where the rotation is: no phase begins, and no machine begins to renew. start goes on."""
    _change(flags, lambda rotation: _tell(rotation.pause()))


@rotate.command()
@kubeconfig_option
@layout_flags
def rollback(**flags: Any) -> None:
    """Go back to the former CA. Once the next one has signed, machines have to renew before finish."""
    _change(flags, lambda rotation: _tell(rotation.rollback()))


@rotate.command()
@kubeconfig_option
@layout_flags
def sync(**flags: Any) -> None:
    """On another control plane, with pki/ca-rotation copied to it: bring its files to the phase of the cluster."""
    _change(flags, lambda rotation: _tell(rotation.sync()))


@rotate.command()
@_accept_loss
@kubeconfig_option
@layout_flags
def finish(accept_loss: tuple[str, ...], **flags: Any) -> None:
    """Give up the CA that goes, once no certificate depends on it any more."""
    _change(flags, lambda rotation: _tell(rotation.finish(accept_loss)))


# ------------------------------------------------------------------ words


async def _tell(step: Awaitable[Rotation]) -> None:
    _done(await step)


def _done(state: Rotation) -> None:
    paused = ", paused" if state.paused else ""
    back = ", back to the former CA" if state.backwards else ""
    ui.step(f"{state.phase}{back}{paused}", _AFTERWARDS.get(str(state.phase), ""))


_AFTERWARDS = {
    "Distributing": "both CAs are published; run start again once the machines have taken them over",
    "Renewing": "machines renew by themselves; kubevouch ca rotate status tells when to finish",
    "Finished": "one CA is trusted; tokens need its pin from now on",
    "Withdrawn": "the former CA is trusted alone",
}


def words(rotation: Rotation | None, standing: Standing) -> list[str]:
    """The status in plain words."""
    lines = [standing.words]
    if rotation is not None:
        lines.append(f"  phase          {rotation.phase} since {_time(rotation.since)}, begun {_time(rotation.began)}")
        lines += [f"  {each['name']:<14} {_authority_words(each)}" for each in _authorities(rotation)]
    if not (rotation is None or rotation.over):
        lines.append(f"  machines       {standing.ready} of {standing.total} are ready for the next step")
    lines += [f"  {each.name}: {each.why}" for each in standing.obstacles[:_SHOWN]]
    if len(standing.obstacles) > _SHOWN:
        lines.append(f"  and {len(standing.obstacles) - _SHOWN} more; -o json lists all")
    if standing.warning:
        lines.append(f"  note: {standing.warning}")
    if standing.command:
        when = "once nobody is in the way: " if standing.obstacles else ""
        lines.append(f"next: {standing.then}; {when}{standing.command}")
    return lines


def _authority_words(each: dict[str, Any]) -> str:
    return f"{each['commonName']}, {each['pin']}, until {each['notAfter']}{', signs' if each['signs'] else ''}"


def _time(moment: dt.datetime | None) -> str:
    from kubevouch.machinery.text.times import Time

    return "" if moment is None else str(Time.of(moment))


def _authorities(rotation: Rotation) -> list[dict[str, Any]]:
    from kubevouch.pki import pins

    if not rotation.next:
        return []
    signs = rotation.bundle[0]
    return [
        {
            "name": name,
            "commonName": ca.subject.common_name,
            "pin": pins.pin_of(ca),
            "notAfter": _time(ca.not_after),
            "signs": ca == signs,
        }
        for name, ca in (("former", rotation.former_certificate), ("next", rotation.next_certificate))
    ]


def tree(rotation: Rotation | None, standing: Standing) -> dict[str, Any]:
    """The status for programs."""
    found: dict[str, Any] = {
        "phase": "None" if rotation is None else str(rotation.phase),
        "words": standing.words,
        "machines": {"total": standing.total, "ready": standing.ready},
        "obstacles": [{"name": each.name, "why": each.why} for each in standing.obstacles],
        "next": {"what": standing.then, "command": standing.command},
        "warning": standing.warning,
    }
    if rotation is not None:
        found |= {
            "since": _time(rotation.since),
            "began": _time(rotation.began),
            "paused": rotation.paused,
            "backwards": rotation.backwards,
            "renewal": {"begins": _time(rotation.renewal_begins), "windowSeconds": rotation.window_seconds},
            "acceptedLoss": list(rotation.given_up),
            "certificateAuthorities": _authorities(rotation),
        }
    return found


# ------------------------------------------------------------------ the cluster and the files


def _change(flags: dict[str, Any], work: Callable[[CARotation], Awaitable[None]]) -> None:
    """One at a time on this machine; says afterwards what to restart."""
    from kubevouch.phases.certificates import ca_rotation_files
    from kubevouch.phases.certificates.ca_rotation import CARotationError
    from kubevouch.util.files import FileInUseError, locked

    layout = take_layout(dict(flags))
    try:
        with locked(layout.pki / _LOCK):
            _with_rotation(flags, work)
    except FileInUseError as err:
        raise ui.CLIError("another kubevouch ca rotate is at work here", hint="wait until it has ended") from err
    except CARotationError as err:
        _tell_obstacles(err)
        raise
    for text in ca_rotation_files.restarts(layout):
        ui.warning(f"restart {text}")


def _tell_obstacles(err: CARotationError) -> None:
    obstacles: tuple[Obstacle, ...] = err.obstacles
    for each in obstacles[:_SHOWN]:
        ui.waiting(f"{each.name}: {each.why}")
    if len(obstacles) > _SHOWN:
        ui.waiting(f"and {len(obstacles) - _SHOWN} more; kubevouch ca rotate status -o json lists all")


def _with_rotation(flags: dict[str, Any], work: Callable[[CARotation], Awaitable[T]]) -> T:
    from kubevouch.phases.certificates.ca_rotation import CARotation
    from kubevouch.util.clock import SystemClock

    named: Path | None = flags.pop("kubeconfig")
    layout = take_layout(flags)
    chosen = named or _admin_file(layout)
    config = rest_config_of(chosen)

    async def connect() -> T:
        async with connected(config) as client:
            rotation = CARotation(client, layout, SystemClock(), lambda: _credential(rest_config_of(chosen)))
            return await work(rotation)

    return run_async(connect())


def _admin_file(layout: Layout) -> Path | None:
    """The kubeconfig among the files that change, before any other."""
    path = layout.kubeconfigs / ADMIN_FILE.name
    return path if path.exists() else None


def _credential(config: RESTConfig) -> Certificate | None:
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import x509_certificate

    source = config.tls.certificate
    try:
        text = source.read_bytes() if isinstance(source, Path) else source
        return x509_certificate.parse_pem(text) if text else None
    except (ParseError, OSError):
        return None
