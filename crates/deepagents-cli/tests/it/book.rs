//! Compares the commands and options in the book with `--help`.

use std::collections::BTreeSet;
use std::fs;

use crate::program::{deepagents, finish};

fn chapter(name: &str) -> String {
    fs::read_to_string(format!("{}/../../docs/src/{name}.md", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The short help of a command.
fn help(command: &[&str]) -> String {
    let shown = finish(deepagents().args(command).arg("-h"));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    shown.out
}

/// The names of the commands in a help text.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    // Options that act as commands are listed under the same heading.
    names.filter(|name| name != "help" && !name.starts_with('-')).collect()
}

/// The options in a text. `--` after a letter does not start an option.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// The options of a command and its subcommands.
fn options_of(command: &[&str]) -> BTreeSet<String> {
    let help = help(command);
    let lines = help.lines().filter(|line| line.starts_with(' ') && line.trim_start().starts_with('-'));
    let mut all: BTreeSet<String> = lines
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
        .flat_map(options)
        .filter(|name| !matches!(name.as_str(), "--help" | "--version"))
        .collect();
    for name in commands(&help) {
        all.extend(options_of(&[command, &[name.as_str()]].concat()));
    }
    all
}

/// The first columns of the tables in a text.
fn first_columns(text: &str) -> String {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|line| line.split('|').nth(1)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tables_of_commands_and_run_options_are_complete() {
    let page = chapter("program");
    for name in commands(&help(&[])) {
        assert!(page.contains(&format!("\n| `{name}` |")), "`{name}` is in no row");
    }
    let (before, _) = page.split_once("\n## ").unwrap();
    assert_eq!(options(&first_columns(before)), options_of(&["run"]));
}

#[test]
fn tables_of_other_commands_list_exactly_their_own_options() {
    let page = chapter("options");
    let of_run = options_of(&["run"]);
    let sections = page.split("\n## ").skip(1);
    let sections: Vec<(&str, &str)> = sections.map(|section| section.split_once('\n').unwrap()).collect();
    let section = |name: &str| sections.iter().find(|(title, _)| *title == name).map(|(_, text)| *text);
    for name in commands(&help(&[])).iter().filter(|name| *name != "run") {
        let all = options_of(&[name]);
        let title = if name == "attach" { "The screens" } else { name };
        let Some(text) = section(title) else {
            assert!(all.is_empty(), "`{name}` has no section: {all:?}");
            continue;
        };
        let named = options(&first_columns(text));
        assert!(named.is_subset(&all), "{name}: {:?}", named.difference(&all));
        let is_known = |option: &String| named.contains(option) || of_run.contains(option);
        let missing: Vec<_> = all.iter().filter(|option| !is_known(option)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}
