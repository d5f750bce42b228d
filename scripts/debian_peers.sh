#!/bin/sh
# Unpacks what tests need of Debian's packages into .peers/debian, or does nothing when it is there. Nothing is
# installed, so that nobody has to be root, unless apt has no package lists yet.
set -eu
cd "$(dirname "$0")/.."

# systemd-analyze with the libraries that small images lack; openssl, whose own library Python has brought already.
packages="libfaketime openssl systemd libsystemd-shared libkmod2 libip4tc2 libseccomp2 libsofthsm2 softhsm2 pebble golang-cfssl"
# A TPM in software with what its tools need, and the tools that everybody else uses of a TPM.
packages="$packages swtpm swtpm-libs swtpm-tools libtpms0 libjson-glib-1.0-0 libglib2.0-0 tpm2-tools tpm2-openssl libefivar1"
packages="$packages libtss2-esys-3.0.2-0 libtss2-fapi1 libtss2-mu0 libtss2-rc0 libtss2-sys1 libtss2-tctildr0 libjson-c5"
packages="$packages libtss2-tcti-cmd0 libtss2-tcti-device0 libtss2-tcti-mssim0 libtss2-tcti-swtpm0 libcurl3-gnutls"
packages="$packages libnghttp2-14 librtmp1 libssh2-1 libpsl5 libldap-2.5-0 libsasl2-2 libbrotli1 libgssapi-krb5-2"
packages="$packages libkrb5-3 libk5crypto3 libkrb5support0 libkeyutils1"
into=.peers/debian
mkdir -p .peers
exec 9<scripts/debian_peers.sh
if command -v flock >/dev/null; then flock 9; fi
if [ "$(cat "$into/made-from" 2>/dev/null)" = "$packages" ]; then exit; fi

if ! command -v apt-get >/dev/null; then
    echo "error: apt-get is missing; unpack $packages of Debian or Ubuntu into $into" >&2
    exit 1
fi
rm -rf "$into"
mkdir -p "$into/archives"
download() { (cd "$into/archives" && apt-get download -qq $packages 2>&1); }
echo "fetching $packages" >&2
# shellcheck disable=SC2086  # one word per package
if ! said=$(download) && { [ "$(id -u)" -ne 0 ] || ! apt-get update -qq >/dev/null 2>&1 || ! said=$(download); }; then
    echo "error: apt-get could not download $packages: $(echo "$said" | grep '^E:' | tail -n 1)" >&2
    echo "hint: sudo apt-get update" >&2
    exit 1
fi
for archive in "$into"/archives/*.deb; do dpkg-deb --extract "$archive" "$into"; done
rm -r "$into/archives"
echo "$packages" >"$into/made-from"
