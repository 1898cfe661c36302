# What to run, by name. `just` lists it.

default:
    @just --list

# Unit, integration and documentation tests
test *args:
    cargo test --workspace {{args}}

# Formatting and lints
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Scenarios against what another implementation did on them
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

# The documentation: checked, and built as a book under docs/book where there is mdbook
book:
    bash .ci/book.sh

# Everything a change has to pass
ci:
    bash .ci/run
