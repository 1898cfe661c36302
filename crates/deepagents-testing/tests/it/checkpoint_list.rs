//! The table that says which case of the journal suite covers which case of the checkpoint conformance list.

use std::collections::BTreeSet;

const TABLE: &str = include_str!("../../src/suites/journal/conformance.md");
const SUITES: &str = include_str!("../../src/suites/mod.rs");

#[test]
fn every_case_of_the_checkpoint_list_is_in_the_table_once_and_what_it_names_is_in_the_suite() {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    let mut cases = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [capability, there, here, ..] = cells[..] else { panic!("{row}") };
        assert!(here.contains('`') || here.starts_with('–'), "{row}");
        for case in there.split(", ") {
            assert!(cases.insert((capability, case)), "{capability}: {case} is there twice");
        }
    }
    assert_eq!(cases.len(), 89);
    let in_suite: BTreeSet<&str> = SUITES.split_whitespace().collect();
    let named = TABLE.split('`').skip(1).step_by(2).filter(|name| name.contains('_') && !name.contains('-'));
    for name in named {
        assert!(in_suite.contains(name), "there is no case `{name}` in the suite");
    }
}
