#!/usr/bin/env bash
# Checks the Dockerfile, and builds and tries the image if Docker is available.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=docs/examples/Dockerfile

python3 - "$recipe" <<'PY'
import re
import sys

text = open(sys.argv[1]).read()
lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
steps = [line.split(None, 1) for line in lines if line.strip()]
stages = [i for i, (word, _) in enumerate(steps) if word == "FROM"]
last = dict((word, rest) for word, rest in steps[stages[-1]:])
known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
wrong = [f"{word} is not looked over" for word, _ in steps if word not in known]
names = [rest.split()[-1] for word, rest in steps if word == "FROM" and " AS " in rest]
for word, rest in steps:
    if word == "FROM" and rest != "scratch" and not re.match(r"\S+:\d+(\.\d+)+\S*", rest):
        wrong.append(f"FROM {rest}: name a version")
    source = re.search(r"--from=(\S+)", rest)
    if source and source[1] not in names:
        wrong.append(f"{word}: there is no stage {source[1]}")
if last["FROM"] != "scratch":
    wrong.append("the last stage begins with something")
if "RUN" in last:
    wrong.append("the last stage has no shell to run something with")
if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", last.get("USER", "")):
    wrong.append("USER is a number that is not root's: there are no names in the image")
for word in ("ENTRYPOINT", "CMD"):
    if not last.get(word, "").startswith("["):
        wrong.append(f"{word} is a list: there is no shell")
if wrong:
    sys.exit("\n".join(wrong))
print("image: the recipe is as it should be")
PY

if ! docker info >/dev/null 2>&1; then
    echo "image: skipped, there is no Docker to build it with"
    exit
fi
docker build -q -f "$recipe" -t deepagents:ci . >/dev/null
docker run --rm --read-only deepagents:ci --help >/dev/null
docker run --rm --entrypoint /deepagents deepagents:ci --version
echo "image: $(docker image inspect --format '{{.Size}}' deepagents:ci) bytes"
