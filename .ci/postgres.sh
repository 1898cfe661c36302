#!/usr/bin/env bash
# Runs a separate Postgres for tests, as an unprivileged user on a free port:
#   postgres.sh start FOLDER    starts it and prints the URL
#   postgres.sh stop FOLDER     stops it
#   postgres.sh kill FOLDER     kills it
#   postgres.sh again FOLDER    restarts it
#
# As root, missing programs are installed from Debian packages. Otherwise the script names them and fails.
set -euo pipefail
action=${1:?start, stop, kill or again}
folder=${2:?a folder}

find_tools() {
    for bin in /usr/lib/postgresql/*/bin "$(dirname "$(command -v initdb 2>/dev/null || echo /nowhere/initdb)")"; do
        if [ -x "$bin/initdb" ] && [ -x "$bin/pg_ctl" ]; then tools=$bin; return 0; fi
    done
    return 1
}
if ! find_tools; then
    [ "$(id -u)" = 0 ] || { echo "postgres.sh: there is no initdb; install the package postgresql" >&2; exit 1; }
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q postgresql; } >&2
    find_tools
fi

# Postgres refuses to run as root.
user=$(id -un)
[ "$(id -u)" != 0 ] || user=postgres
as_user() { if [ "$(id -un)" = "$user" ]; then "$@"; else setpriv --reuid="$user" --regid="$user" --init-groups "$@"; fi; }

case $action in
start)
    mkdir -p "$folder"
    [ "$(id -u)" != 0 ] || chown "$user" "$folder"
    as_user "$tools/initdb" -D "$folder/data" -U tests -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$folder/initdb.log"
    python3 - >"$folder/port" <<'PORT'
import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])
PORT
    ;;
again) ;;
stop)
    as_user "$tools/pg_ctl" -D "$folder/data" -m fast -w stop >&2
    exit
    ;;
kill)
    # The child processes notice and exit; a new server waits for them.
    kill -KILL "$(head -n 1 "$folder/data/postmaster.pid")"
    exit
    ;;
esac
port=$(cat "$folder/port")
options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200"
# After a kill, the server syncs all files, tens of thousands after all tests. With syncfs (Postgres 14) it syncs them at once.
[ "$("$tools/postgres" -V | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -lt 14 ] || options="$options -c recovery_init_sync_method=syncfs"
is_there() { "$tools/pg_isready" -q -h 127.0.0.1 -p "$port"; }
for _ in $(seq 50); do
    # A server that exceeded the timeout may be ready by now.
    if as_user "$tools/pg_ctl" -D "$folder/data" -w -t 90 -l "$folder/server.log" -o "$options" start >&2 || is_there; then
        echo "postgres://tests@127.0.0.1:$port/postgres"
        exit
    fi
    sleep 0.1
done
cat "$folder/server.log" >&2
exit 1
