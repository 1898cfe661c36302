//! The program that kills agents.

use std::process::{Command, Output};

fn crash(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crash")).args(args).output().unwrap()
}

#[test]
fn a_killed_and_resumed_agent_loses_nothing_and_repeats_nothing() {
    let output = crash(&["--kills", "12", "--scenario", "main"]);
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}{error}");
    assert!(out.lines().last().is_some_and(|line| line.contains(" 0 failures in ")), "{out}");
}

#[test]
fn a_seed_determines_one_trial_of_a_scenario() {
    let output = crash(&["--seed", "7", "--scenario", "main"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && out.lines().last().is_some_and(|line| line.starts_with("1 trials, ")), "{out}");
}

#[test]
fn an_unknown_scenario_is_rejected_with_the_available_ones() {
    let output = crash(&["--kills", "1", "--scenario", "mian"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("no scenario `mian`") && error.contains("approval"), "{error}");
}
