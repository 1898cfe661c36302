//! The demo.

use std::fs;

use crate::program::{deepagents, finish};

#[test]
fn the_demo_needs_no_key_and_leaves_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("flat");
    let demo = finish(deepagents().args(["demo", "--fast", "--dir"]).arg(&place));
    assert_eq!((demo.code, demo.err.as_str()), (Some(0), ""), "{demo:?}");
    for shown in ["fixed script", "Todos 0/4", "Todos 4/4", "✓ read_file /expenses.csv", "✓ write_file /report.md"]
    {
        assert!(demo.out.contains(shown), "{shown} is missing:\n{}", demo.out);
    }
    assert!(demo.out.contains("✗ read_file ../bank/march.csv"), "{}", demo.out);
    assert_eq!(demo.out.matches('✗').count(), 1, "{}", demo.out);
    assert!(!demo.out.contains('\x1b'), "no colours where stdout is no terminal");
    let report = fs::read_to_string(place.join("report.md")).unwrap();
    assert!(report.contains("Tom pays Mia 57.46"));
    assert!(fs::read_to_string(place.join("notes.md")).unwrap().contains("- [x] settle March"));
    assert!(demo.out.contains(&format!("cat {}/report.md", place.display())));
}

#[test]
fn the_demo_makes_a_directory_of_its_own_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let demo = finish(deepagents().args(["demo", "--fast"]).env("TMPDIR", dir.path()));
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let made: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 1);
    assert!(made[0].join("report.md").is_file());
}

#[test]
fn the_demo_never_mixes_its_files_with_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "mine").unwrap();
    let demo = finish(deepagents().args(["demo", "--dir"]).arg(dir.path()));
    assert!(demo.one_message().contains("is not empty"), "{demo:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
