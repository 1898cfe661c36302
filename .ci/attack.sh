#!/usr/bin/env bash
# Runs the attack suite as another user, because other rights open other holes: as nobody if run by root, otherwise as root
# if sudo permits. Usage: attack.sh TEST-BINARY
set -euo pipefail
test=$(readlink -f "${1:?the test binary}")
cd "$(dirname "$0")/../crates/deepagents-fs"
modules=(attack:: attack_all:: bound:: guards:: network:: processes:: protected:: sandbox::)

if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || { echo "attack: skipped, there is no setpriv"; exit 0; }
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    name=nobody
else
    sudo -n true 2>/dev/null || { echo "attack: skipped as root, this user may not become it"; exit 0; }
    as=(sudo -n -E)
    name=root
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
chmod 1777 "$home"
# The other user may be unable to read the build directory, so it gets copies of the tests and the helper.
cp "$test" "$home/it"
helper=$(dirname "$test")/../deepagents-sandbox
# Not next to the tests, because one of them needs a missing helper.
mkdir "$home/helper"
cp "$helper" "$home/helper/deepagents-sandbox"
chmod 755 "$home/it" "$home/helper" "$home/helper/deepagents-sandbox"
require=
if "${as[@]}" unshare -Urmn sh -c 'mount -t tmpfs none /tmp' 2>/dev/null; then
    require=sandbox
else
    echo "attack: $name can make no namespaces here, so what needs a sandbox is skipped"
fi
echo "attack: as $name"
# `env` runs as the other user, because switching users drops variables.
"${as[@]}" env HOME="$home" TMPDIR="$home" DEEPAGENTS_TEST_REQUIRE="$require" DEEPAGENTS_TEST_HELPER="$home/helper/deepagents-sandbox" \
    "$home/it" "${modules[@]}"
