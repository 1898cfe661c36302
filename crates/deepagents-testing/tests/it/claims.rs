//! Every security claim is covered by tests.

use crate::source::root;

#[test]
fn every_claim_names_existing_tests_that_show_it() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (_, promised) = text.split_once("## What is promised").unwrap();
    let (promised, _) = promised.split_once("## What is not").unwrap();
    let promises: Vec<&str> = promised.split("\n- **").skip(1).collect();
    assert!(promises.len() > 8, "{}", promises.len());
    for promise in promises {
        let (claim, shown) = promise.split_once("<!-- shown by ").unwrap_or_else(|| panic!("no test shows: {promise}"));
        for name in shown.trim_end().trim_end_matches("-->").split_whitespace() {
            let (file, test) = name.split_once("::").unwrap_or_else(|| panic!("{name} is no test of a file: {claim}"));
            let source = std::fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
            assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
        }
    }
}
