//! Boundaries between crates and modules, checked on the source tree.

use std::process::Command;

use serde_json::Value;

use crate::source::{module, paths, root, sources};

/// Crates from the bottom up. A crate may depend only on earlier layers.
const LAYERS: [&[&str]; 6] = [
    &["deepagents-core"],
    &[
        "deepagents-fs",
        "deepagents-mcp",
        "deepagents-models",
        "deepagents-otel",
        "deepagents-persist",
        "deepagents-remote",
    ],
    &["deepagents"],
    &["deepagents-acp", "deepagents-server", "deepagents-tui"],
    &["deepagents-cli"],
    &["deepagents-testing"],
];

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[test]
fn dependencies_between_crates_point_one_way() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let mine = layer(name).unwrap_or_else(|| panic!("{name} has no layer; give it one"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            // Development dependencies are unrestricted.
            if dependency["kind"] == "dev" {
                continue;
            }
            if let Some(theirs) = layer(other) {
                assert!(theirs < mine, "{name} depends on {other}, which is not below it");
            }
        }
    }
}

#[test]
fn middlewares_do_not_depend_on_each_other() {
    let folder = root().join("crates/deepagents/src/middleware");
    let crate_folder = root().join("crates/deepagents/src");
    for file in sources(&folder) {
        let own = module(file.strip_prefix(&crate_folder).unwrap());
        // `middleware/mod.rs` itself is not a middleware.
        let Some(mine) = own.get(1) else { continue };
        for (path, line) in paths(&std::fs::read_to_string(&file).unwrap(), &own) {
            // A direct path into `middleware` is a sibling module or one of its re-exports.
            let [top, other, ..] = &path[..] else { continue };
            let fine = top != "middleware" || other == mine;
            assert!(fine, "{}:{line} uses {}", file.display(), path.join("::"));
        }
    }
}

#[test]
fn no_source_file_exceeds_800_lines() {
    for file in sources(&root().join("crates")) {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines; split it along its meaning", file.display());
    }
}

/// The crates that users of a package compile, without its default features.
fn compiled_without_defaults(package: &str) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "--no-default-features", "--edges", "normal", "--prefix", "none"]);
    let output = tree.args(["--package", package]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_library_and_suites_compile_without_models_databases_or_http_clients() {
    for package in ["deepagents-testing", "deepagents"] {
        let crates = compiled_without_defaults(package);
        assert!(crates.iter().any(|name| name == "deepagents-core"), "{crates:?}");
        for unwanted in
            ["reqwest", "rusqlite", "tokio-postgres", "deepagents-models", "deepagents-otel", "deepagents-persist"]
        {
            assert!(!crates.iter().any(|name| name == unwanted), "{package} compiles {unwanted}");
        }
    }
}
