//! Replaced names do not come back.

use std::path::Path;

use crate::source::{root, sources, tokens};

const LIST: &str = include_str!("vocabulary.txt");

/// The entries of one kind, as words after the kind.
fn entries(kind: &str) -> Vec<Vec<&'static str>> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    words.filter(|words| words[0] == kind).map(|words| words[1..].to_vec()).collect()
}

/// Whether the list allows a name in a file.
fn allowed(name: &str, path: &Path) -> bool {
    entries("allow").iter().any(|entry| entry[0] == name && path.starts_with(entry[1]))
}

/// The replaced names in a source: the old name, the new one, and the line.
fn old_names(source: &str, path: &Path) -> Vec<(&'static str, &'static str, usize)> {
    let here = |entry: &Vec<&str>| entry.get(2).is_none_or(|limit| path.starts_with(limit));
    let entries = |kind| entries(kind).into_iter().filter(here).collect::<Vec<_>>();
    let (names, functions) = (entries("name"), entries("fn"));
    let tokens = tokens(source);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let near =
            |step: isize| at.checked_add_signed(step).and_then(|at| tokens.get(at)).map_or("", |token| token.text);
        let function = near(-1) == "fn" || matches!(near(-1), "." | "::") && matches!(near(1), "(" | "::");
        let old = names.iter().chain(functions.iter().filter(|_| function));
        found.extend(old.filter(|entry| entry[0] == token.text).map(|entry| (entry[0], entry[1], token.line)));
    }
    found
}

#[test]
fn every_entry_of_the_vocabulary_list_is_well_formed() {
    for line in LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["name" | "fn", old, new] => assert_ne!(old, new),
            ["name" | "fn", _, _, path] => assert!(root().join(path).exists(), "{line}: there is no {path}"),
            ["file", old, new] => assert!(old.contains('/') && !new.contains('/'), "{line}"),
            ["allow", _, path, _, ..] => assert!(root().join(path).exists(), "{line}: there is no {path}"),
            _ => panic!("{line}"),
        }
    }
    let code = "use x::Stop; fn word() {} // Stop\nlet word = a.word(); \"Stop\"; let stop = Stopper;";
    let found = old_names(code, Path::new("crates/deepagents-core/src/lib.rs"));
    assert_eq!(found, [("Stop", "FinishReason", 1), ("word", "as_str", 1), ("word", "as_str", 2)]);
    assert_eq!(old_names(code, Path::new("crates/deepagents-cli/src/main.rs")), [("Stop", "FinishReason", 1)]);
}

#[test]
fn no_replaced_name_is_used() {
    let mut wrong = Vec::new();
    for file in sources(&root().join("crates")) {
        let inside = file.strip_prefix(root()).unwrap().to_owned();
        // This module contains the list.
        if inside.ends_with("it/vocabulary.rs") {
            continue;
        }
        let shown = inside.display();
        for entry in entries("file") {
            let (package, name) = entry[0].split_once('/').unwrap();
            let named = inside.with_extension("").iter().any(|part| part == name);
            if named && inside.starts_with(Path::new("crates").join(package).join("src")) && !allowed(name, &inside) {
                wrong.push(format!("{shown}: a file or folder `{name}`, now `{}`", entry[1]));
            }
        }
        for (old, new, line) in old_names(&std::fs::read_to_string(&file).unwrap(), &inside) {
            if !allowed(old, &inside) {
                wrong.push(format!("{shown}:{line}: `{old}`, now `{new}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} replaced names are used:\n{}", wrong.len(), wrong.join("\n"));
}
