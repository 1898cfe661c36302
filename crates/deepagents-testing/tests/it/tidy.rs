//! Borders between crates and modules, read off the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Crates from the bottom up; an arrow may only point to an earlier layer.
const LAYERS: [&[&str]; 5] = [
    &["deepagents-core"],
    &["deepagents-fs", "deepagents-models", "deepagents-persist"],
    &["deepagents"],
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
            // Development dependencies may point anywhere.
            if dependency["kind"] == "dev" {
                continue;
            }
            if let Some(theirs) = layer(other) {
                assert!(theirs < mine, "{name} depends on {other}, which is not below it");
            }
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_middleware_uses_no_sibling() {
    let folder = root().join("crates/deepagents/src/middleware");
    let names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "mod")
        .collect();
    assert!(names.len() > 3);
    let mut files = Vec::new();
    sources(&folder, &mut files);
    for file in files {
        let own = file.strip_prefix(&folder).unwrap().components().next().unwrap();
        let own = own.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        for sibling in names.iter().filter(|name| **name != own && own != "mod") {
            let wanted = format!("middleware::{sibling}");
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(!code.clone().any(|line| line.contains(&wanted)), "{} uses {wanted}", file.display());
        }
    }
}

#[test]
fn no_file_has_grown_past_what_a_reader_holds() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for file in files {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines; split it along its meaning", file.display());
    }
}
