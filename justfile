# `just` lists the recipes.

default:
    @just --list

# Unit, integration and documentation tests
test *args:
    cargo test --workspace {{args}}

# Formatting and lints
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The conformance scenarios, compared with the reference's results
conformance shared=env("SHARED", "../shared"):
    cargo run -q -p deepagents-testing --bin conformance -- {{shared}}/conformance/scenarios target/traces --mockllm {{shared}}/conformance/mockllm.py
    python3 {{shared}}/conformance/compare.py {{shared}}/conformance/scenarios {{shared}}/conformance/expected target/traces

# The program against a real model server
smoke:
    cargo build --release -p deepagents-cli
    SMOKE_WAIT=1800 bash .ci/smoke.sh

# Speed and memory; `just bench --reference` also measures the Python reference
bench *args:
    bash .ci/bench.sh {{args}}

# Checks the documentation, and builds the book in docs/book if mdbook is installed
book:
    bash .ci/book.sh

# Every check that a change must pass
ci:
    bash .ci/run
