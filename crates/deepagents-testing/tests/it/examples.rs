//! The types that users of the library meet first have an example in their docs.

use std::collections::BTreeSet;

use crate::source::{root, sources, tokens};

/// The types declared by a crate, each with whether its docs have an example.
fn types(package: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for file in sources(&root().join("crates").join(package).join("src")) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut example = false;
        for line in text.lines() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if line.starts_with("///") {
                example |= line.contains("```");
            } else if matches!((words.next(), words.next()), (Some("pub"), Some("struct" | "enum" | "trait"))) {
                found.extend(words.next().map(|name| (name.to_owned(), example)));
                example = false;
            } else if !line.starts_with(['#', ' ', ')', ']']) {
                example = false;
            }
        }
    }
    found
}

/// The types of a crate that implement a trait.
fn implementors(package: &str, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources(&root().join("crates").join(package).join("src")) {
        let text = std::fs::read_to_string(file).unwrap();
        let tokens: Vec<&str> = tokens(&text).iter().map(|token| token.text).collect();
        let implemented = tokens.windows(4).filter(|words| words[..3] == ["impl", name, "for"]);
        found.extend(implemented.map(|words| words[3].to_owned()));
    }
    found
}

/// The names exported at the library's root.
fn at_the_top() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("crates/deepagents/src/lib.rs")).unwrap();
    let tokens = tokens(&text);
    let uses = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| token.text == "pub" && tokens.get(at + 1).is_some_and(|next| next.text == "use"));
    let names = uses.flat_map(|(at, _)| tokens[at..].iter().take_while(|token| token.text != ";"));
    names.map(|token| token.text).filter(|name| name.starts_with(char::is_uppercase)).map(str::to_owned).collect()
}

#[track_caller]
fn assert_shown(wanted: &BTreeSet<String>, packages: &[&str]) {
    let types: Vec<(String, bool)> = packages.iter().flat_map(|package| types(package)).collect();
    let without: Vec<&String> = wanted
        .iter()
        .filter(|name| types.iter().any(|(known, _)| known == *name))
        .filter(|name| !types.contains(&((*name).clone(), true)))
        .collect();
    assert!(wanted.len() > 3, "nothing is looked at: {wanted:?}");
    assert!(without.is_empty(), "there is no example at {without:?}");
}

#[test]
fn every_top_level_type_of_the_library_has_an_example() {
    assert_shown(&at_the_top(), &["deepagents", "deepagents-core"]);
}

#[test]
fn every_middleware_has_an_example() {
    assert_shown(&implementors("deepagents", "Middleware"), &["deepagents"]);
}

#[test]
fn every_backend_has_an_example() {
    assert_shown(&implementors("deepagents-fs", "Backend"), &["deepagents-fs"]);
}
