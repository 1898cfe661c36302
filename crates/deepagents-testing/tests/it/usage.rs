//! The usage messages of the programs.

use std::process::Command;

const PROGRAMS: [(&str, &str); 4] = [
    ("bench", env!("CARGO_BIN_EXE_bench")),
    ("cassettes", env!("CARGO_BIN_EXE_cassettes")),
    ("conformance", env!("CARGO_BIN_EXE_conformance")),
    ("crash", env!("CARGO_BIN_EXE_crash")),
];

#[test]
fn every_program_prints_its_usage_on_request_and_on_misuse() {
    for (name, program) in PROGRAMS {
        let help = Command::new(program).arg("--help").output().unwrap();
        let out = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success() && out.starts_with("usage:") && out.contains(name), "{name}: {out}");
        assert!(help.stderr.is_empty(), "{name}");
        let wrong = Command::new(program).env("RUST_BACKTRACE", "1").output().unwrap();
        let error = String::from_utf8(wrong.stderr).unwrap();
        assert!(!wrong.status.success() && error.starts_with(&format!("{name}: usage: ")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn cassettes_fail_when_there_is_nothing_to_check() {
    let empty = tempfile::tempdir().unwrap();
    for dir in [empty.path().to_owned(), empty.path().join("missing")] {
        let output = Command::new(env!("CARGO_BIN_EXE_cassettes")).arg(&dir).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains("nothing was checked"), "{error}");
    }
}
