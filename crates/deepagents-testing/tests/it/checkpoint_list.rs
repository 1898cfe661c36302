//! The journal suite: the table of checkpoint conformance is correct, and all cases are run.

use std::collections::BTreeSet;

const LIST: &str = include_str!("checkpoint_list.txt");
const TABLE: &str = include_str!("../../src/suites/journal/conformance.md");
const SUITES: &str = include_str!("../../src/suites/mod.rs");
const SOURCES: [(&str, &str); 9] = [
    ("log", include_str!("../../src/suites/journal/log.rs")),
    ("lease", include_str!("../../src/suites/journal/lease.rs")),
    ("snapshots", include_str!("../../src/suites/journal/snapshots.rs")),
    ("threads", include_str!("../../src/suites/journal/threads.rs")),
    ("copies", include_str!("../../src/suites/journal/copies.rs")),
    ("history", include_str!("../../src/suites/journal/history.rs")),
    ("children", include_str!("../../src/suites/journal/children.rs")),
    ("claimable", include_str!("../../src/suites/journal/claimable.rs")),
    ("sub_agents", include_str!("../../src/suites/journal/sub_agents.rs")),
];

/// The modules and cases that the macro turns into tests.
fn run_by_the_macro() -> BTreeSet<(&'static str, &'static str)> {
    let list =
        SUITES.split_once("$crate::journal_suite! { @ $make;").unwrap().1.split_once("(@ $make:expr;").unwrap().0;
    let mut cases = BTreeSet::new();
    for module in list.split('}').filter_map(|module| module.split_once('{')) {
        for case in module.1.split_whitespace() {
            assert!(cases.insert((module.0.trim(), case)), "{case} is there twice");
        }
    }
    cases
}

#[test]
fn every_case_of_the_journal_suite_is_run() {
    let mut written = BTreeSet::new();
    for (module, source) in SOURCES {
        for function in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            written.insert((module, function.split(['(', '<']).next().unwrap()));
        }
    }
    assert_eq!(written, run_by_the_macro());
}

#[test]
fn the_table_covers_each_checkpoint_case_once_and_names_only_cases_that_run() {
    let list = LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "));
    let list: BTreeSet<(&str, &str)> =
        list.flat_map(|(capability, cases)| cases.split(' ').map(move |case| (capability, case))).collect();
    assert_eq!(list.len(), 89);
    let run: BTreeSet<&str> = run_by_the_macro().into_iter().map(|(_, case)| case).collect();
    let named = |text: &'static str| text.split('`').skip(1).step_by(2).filter(|name| !name.starts_with("deepagents"));
    let mut cases = BTreeSet::new();
    for row in TABLE.lines().filter_map(|line| line.strip_prefix("| ")).skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [capability, there, here, ..] = cells[..] else { panic!("{row}") };
        // A dash must be followed by the reason.
        assert!(named(here).next().is_some() || here.strip_prefix("– ").is_some_and(|why| why.len() > 10), "{row}");
        for case in there.split(", ") {
            assert!(cases.insert((capability, case)), "{capability}: {case} is there twice");
        }
    }
    assert_eq!(cases, list);
    for name in named(TABLE) {
        assert!(run.contains(name), "there is no case `{name}` in the suite");
    }
}
