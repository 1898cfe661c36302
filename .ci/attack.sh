#!/usr/bin/env bash
# The attack suite as the user that this run is not: as nobody for root, as root for others where they may. Rights differ,
# and so do the holes. usage: attack.sh TEST-BINARY
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
# Where homes are closed, the other user cannot read what was built; it gets a copy, and of the helper as well.
cp "$test" "$home/it"
helper=$(dirname "$test")/../deepagents-sandbox
# Not beside the tests: one of them looks what is done without.
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
# `env` within: who becomes another keeps no variables.
"${as[@]}" env HOME="$home" TMPDIR="$home" DEEPAGENTS_TEST_REQUIRE="$require" DEEPAGENTS_TEST_HELPER="$home/helper/deepagents-sandbox" \
    "$home/it" "${modules[@]}"
