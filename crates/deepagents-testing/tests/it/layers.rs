//! The layers inside `deepagents-core`: a module may depend only on lower groups.

use std::collections::BTreeSet;

use crate::source::{module, paths, root, sources};

/// Groups of top-level modules, from the bottom up. A module may use its own group and those before it.
const GROUPS: [&[&str]; 9] = [
    &["message", "env", "ids", "status", "panics", "json", "forward", "escape"],
    &["state", "store", "schema", "model", "structured"],
    &["machine"],
    &["interrupt"],
    &["journal"],
    &["event", "error"],
    &["tool", "context", "middleware"],
    &["run"],
    &["agent"],
];

/// Known violations, as `from -> to`. A fixed one must be removed.
const KNOWN: [&str; 0] = [];

fn group(module: &str) -> Option<usize> {
    GROUPS.iter().position(|group| group.contains(&module))
}

/// Dependencies on higher groups, as `from -> to`, each with its location.
fn upward() -> Vec<(String, String)> {
    let folder = root().join("crates/deepagents-core/src");
    let modules: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "lib")
        .collect();
    for module in &modules {
        assert!(
            group(module).is_some(),
            "the module `{module}` of deepagents-core has no group; give it one in GROUPS"
        );
    }
    let mut arrows = Vec::new();
    for file in sources(&folder) {
        let inside = file.strip_prefix(&folder).unwrap();
        let own = module(inside);
        let Some(from) = own.first() else { continue };
        for (path, line) in paths(&std::fs::read_to_string(&file).unwrap(), &own) {
            // Re-exports at the crate root and macros are not modules.
            let Some(to) = path.first().filter(|name| modules.contains(name)) else { continue };
            if group(to) > group(from) {
                arrows.push((
                    format!("{from} -> {to}"),
                    format!("crates/deepagents-core/src/{}:{line}", inside.display()),
                ));
            }
        }
    }
    arrows
}

#[test]
fn core_modules_use_only_lower_layers() {
    let arrows = upward();
    let found: BTreeSet<&str> = arrows.iter().map(|(arrow, _)| arrow.as_str()).collect();
    for known in KNOWN {
        assert!(found.contains(known), "{known} is gone: take it off the list of known arrows");
    }
    let wrong = arrows.iter().filter(|(arrow, _)| !KNOWN.contains(&arrow.as_str()));
    let lines: Vec<String> = wrong.map(|(arrow, place)| format!("{place}: {arrow}")).collect();
    assert!(lines.is_empty(), "{} arrows point up:\n{}", lines.len(), lines.join("\n"));
}
