//! The approval policy.

use deepagents_tui::{Mode, Policy, Rule};
use proptest::prelude::*;
use serde_json::{Value, json};

fn command(text: &str) -> Value {
    json!({"command": text})
}

#[test]
fn a_program_rule_covers_only_its_simple_calls() {
    let rule = Rule::for_call("execute", &command("git status -s"));
    assert_eq!(rule, Rule::Program("git status".to_owned()));
    for covered in ["git status", "  git status --short src"] {
        assert!(rule.covers("execute", &command(covered)), "{covered}");
    }
    let others = [
        "git status; rm x",
        "git status && rm x",
        "git status | sh",
        "git status > x",
        "git status $(rm x)",
        "git status `rm x`",
        "gitk",
        "git log",
        "git -c alias.x=!id status",
        "git\nrm x",
        "git\u{a0}rm",
        "git status\u{a0}x",
        "git\u{2003}status",
        "git\u{3000}status",
        "X=1 git status",
        "rm x",
        "git status &",
        "git\u{1b}status",
        "",
    ];
    for other in others {
        assert!(!rule.covers("execute", &command(other)), "{other:?}");
    }
    assert!(!rule.covers("write_file", &command("git status")));
}

#[test]
fn a_command_that_runs_other_programs_is_allowed_only_verbatim() {
    for runner in [
        "sh -c x",
        "sudo rm x",
        "setsid rm x",
        "busybox rm x",
        "tar cf x y --checkpoint-action=exec=z",
        "env rm x",
        "xargs rm",
        "python3 x.py",
        "/bin/bash x",
        "find . -delete",
        "a; b",
    ] {
        let rule = Rule::for_call("execute", &command(runner));
        assert_eq!(rule, Rule::Command(runner.to_owned()));
        assert!(rule.covers("execute", &command(runner)) && !rule.covers("execute", &command("sh -c y")));
    }
}

#[test]
fn unconfined_commands_are_asked_about_in_every_mode() {
    let policy = Policy::new(Mode::Auto);
    assert!(policy.asks("execute", &command("ls")) && !policy.asks("write_file", &json!({})));
    policy.set_confined(true);
    assert!(!policy.asks("execute", &command("ls")));
    policy.set_mode(Mode::Ask);
    assert!(policy.asks("execute", &command("ls")) && policy.asks("delete", &json!({})));
    policy.allow(Rule::for_call("delete", &json!({})));
    assert!(!policy.asks("delete", &json!({})) && policy.asks("edit_file", &json!({})));
}

proptest! {
    /// Whatever follows the program, a rule covers only a single plain command.
    #[test]
    fn no_rule_lets_a_second_command_through(program in "[a-z]{2,8}", rest in ".{0,40}") {
        let rule = Rule::Program(program.clone());
        let text = format!("{program} {rest}");
        if rule.covers("execute", &command(&text)) {
            prop_assert!(!text.contains([';', '&', '|', '<', '>', '$', '`', '\n', '\r', '(', ')', '\\']), "{}", text);
        }
    }
}
