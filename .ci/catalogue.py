#!/usr/bin/env python3
"""Generates the model catalogue, crates/deepagents-models/src/catalogue/models.tsv, and prints the changes.

The data come from the wheel of `litellm` (MIT): `python3 .ci/catalogue.py [FILE]` fetches the latest wheel with pip, or
reads the given JSON file. Prices are those of a model's maker, because hosts of open weights differ.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

TARGET = pathlib.Path(__file__).parent.parent / "crates/deepagents-models/src/catalogue/models.tsv"
SOURCE = "litellm/model_prices_and_context_window_backup.json"
# Makers before hosts: the first that lists a name provides its data. Other providers are ignored.
PROVIDERS = [
    "openai", "anthropic", "gemini", "xai", "deepseek", "mistral", "moonshot", "zai", "dashscope", "perplexity",
    "cohere_chat", "bedrock_converse", "groq", "cerebras", "together_ai", "fireworks_ai", "nvidia_nim",
]
# Hosts of other makers' models: their sizes are used, their prices are not.
HOSTS = {"together_ai", "fireworks_ai", "nvidia_nim"}
FLAGS = {
    "i": "supports_vision", "p": "supports_pdf_input", "a": "supports_audio_input", "v": "supports_video_input",
    "s": "supports_response_schema", "r": "supports_reasoning",
}
KINDS = ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost"]
VERSION = re.compile(r"-v\d+(?::\d+)?$|-\d:\d$")
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
VENDOR = re.compile(r"^(?:[a-z]+(?:-[a-z]+)?\.)?(?:anthropic|amazon|meta|mistral|deepseek|qwen|openai|moonshotai?|zai|nvidia|minimax)\.")


def source():
    if len(sys.argv) > 1:
        return json.loads(pathlib.Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", directory, "litellm"], check=True)
        wheel = next(pathlib.Path(directory).glob("*.whl"))
        return json.loads(zipfile.ZipFile(wheel).read(SOURCE))


def prices(entry, suffix=""):
    """US dollars per million tokens: input, output, cache reads, cache writes."""
    given = [entry.get(kind + suffix) for kind in KINDS]
    if not given[0] or given[1] is None:
        return ""
    return "/".join(f"{value * 1e6:.6g}" if value else "" for value in given).rstrip("/")


def tier(entry):
    sizes = [re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key) for key in entry]
    sizes = sorted(int(size[1]) for size in sizes if size)
    if not sizes:
        return ""
    told = prices(entry, f"_above_{sizes[0]}k_tokens")
    return f"{sizes[0] * 1000}:{told}" if told else ""


def row(entry):
    provider = entry["litellm_provider"]
    flags = "".join(flag for flag, key in FLAGS.items() if entry.get(key))
    # Claude's older models support schemas only as tools.
    if provider == "anthropic" and not entry.get("supports_native_structured_output"):
        flags = flags.replace("s", "")
    host = provider in HOSTS
    number = lambda key: str(int(float(entry.get(key) or 0)) or "")
    window = number("max_input_tokens")
    # For some OpenAI models the source includes the output; those with a single price all have the same input limit.
    if provider == "openai" and window == "400000" and not tier(entry):
        window = "272000"
    return [
        window, number("max_output_tokens"), flags, "" if host else prices(entry),
        "" if host else tier(entry), entry.get("deprecation_date", ""),
    ]


def rows(data):
    found = {}
    for provider in PROVIDERS:
        for key, entry in data.items():
            if entry.get("litellm_provider") != provider or entry.get("mode") not in ("chat", "responses"):
                continue
            name = key.split("/")[-1]
            if provider == "bedrock_converse":
                name = VERSION.sub("", VENDOR.sub("", name))
            made = row(entry)
            if name.startswith("ft:") or not made[0] or name in found:
                continue
            found[name] = made
    for name in list(found):
        # A name without a date is an alias of some version, whose end date is unknown.
        undated = found.setdefault(DATED.sub("", name), found[name][:-1] + [""])
        # The source forgets that some aliases reason; "r" is the last of the flags.
        if "r" in found[name][2] and "r" not in undated[2]:
            undated[2] += "r"
    # A dated name is redundant if a prefix of it has the same data.
    same = lambda text: text.replace(".", "-")
    kept = {}
    for name in sorted(found, key=len):
        starts = [other for other in kept if same(name).startswith(same(other)) and not name[len(other):][:1].isalnum()]
        best = max(starts, key=len, default=None)
        if best is None or kept[best] != found[name]:
            kept[name] = found[name]
    return kept


def main():
    made = rows(source())
    lines = {name: "\t".join([name, *cells]).rstrip("\t") for name, cells in made.items()}
    before = {}
    if TARGET.exists():
        before = {line.split("\t")[0]: line for line in TARGET.read_text().splitlines() if not line.startswith("#")}
    # Keeps models that the source no longer lists, because people still use them.
    for name, line in before.items():
        lines.setdefault(name, line)
    for name in sorted(lines):
        if before.get(name) != lines.get(name):
            for sign, line in (("-", before.get(name)), ("+", lines.get(name))):
                if line is not None:
                    print(sign, line)
    head = "# name, tokens of a prompt, of an answer, abilities, prices, prices above a size, end; made by .ci/catalogue.py\n"
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(head + "".join(lines[name] + "\n" for name in sorted(lines)))


main()
