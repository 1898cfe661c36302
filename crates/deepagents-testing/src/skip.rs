//! Tests that need what a machine may lack.
//!
//! A test that cannot be run says so and passes. What it prints goes to the real standard error, past the harness, which
//! keeps the output of passing tests to itself. Where the machine is known to have what it takes, the variable
//! `DEEPAGENTS_TEST_REQUIRE` names it, and a test without it fails: `DEEPAGENTS_TEST_REQUIRE=sandbox,postgres cargo test`.

use std::io::Write;

/// The variable with what must be there, separated by commas; `all` stands for everything.
pub const REQUIRE: &str = "DEEPAGENTS_TEST_REQUIRE";

const SKIPPED: &str = "skipped ";

/// Says that the test is skipped for want of `what`, a word such as `sandbox`, and why.
///
/// # Panics
///
/// If [`REQUIRE`] names it: then its absence is a failure of the test.
#[track_caller]
#[allow(clippy::panic, reason = "fails the test that calls it")]
pub fn skip(what: &str, why: impl std::fmt::Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    // The harness names a thread after its test, unless there is one thread for all.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    if let Some(line) = skip_line(&required, test, what, &why.to_string()) {
        // A write to the handle is not captured, unlike `eprintln!`.
        let _ = writeln!(std::io::stderr(), "{line}");
    } else {
        panic!("{REQUIRE} says that there is `{what}`: {why}");
    }
}

/// Says what a process has said with [`skip`] that a test started, itself once more for instance.
pub fn pass_on(output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with(SKIPPED)) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// What to say, in one line; none where what is missing is required.
fn skip_line(required: &str, test: &str, what: &str, why: &str) -> Option<String> {
    let needed = required.split(',').map(str::trim).any(|name| name == what || name == "all");
    (!needed).then(|| format!("{SKIPPED}{test}: no {what}: {}", why.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::skip_line;

    #[test]
    fn what_is_missing_is_said_in_one_line_unless_it_is_required() {
        let said = Some("skipped a: no sandbox: not Linux".to_owned());
        assert_eq!(skip_line("", "a", "sandbox", "not\n  Linux"), said);
        assert_eq!(skip_line("postgres,sand", "a", "sandbox", "not Linux"), said);
        for required in ["sandbox", "postgres, sandbox", "all"] {
            assert_eq!(skip_line(required, "a", "sandbox", "not Linux"), None, "{required}");
        }
    }
}
