//! Tests that need something a machine may lack.
//!
//! A test that cannot run reports this and passes. The report goes to the real standard error, because the test harness
//! captures the output of passing tests. On a machine that should have what is needed, the variable
//! `DEEPAGENTS_TEST_REQUIRE` names it, and a test that lacks it fails: `DEEPAGENTS_TEST_REQUIRE=sandbox,postgres cargo
//! test`.

use std::io::Write;

/// The environment variable that lists what must be available, separated by commas. `all` stands for everything.
pub const REQUIRE: &str = "DEEPAGENTS_TEST_REQUIRE";

const SKIPPED: &str = "skipped ";

/// Reports that the test is skipped because it lacks `what`, a word such as `sandbox`, and why.
///
/// # Panics
///
/// Panics if [`REQUIRE`] names it, so that the test fails.
#[track_caller]
#[allow(clippy::panic, reason = "fails the test that calls it")]
pub fn skip(what: &str, why: impl std::fmt::Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    // The harness names a thread after its test, unless all tests share one thread.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    if let Some(line) = skip_line(&required, test, what, &why.to_string()) {
        // Unlike `eprintln!`, a write to the handle is not captured.
        let _ = writeln!(std::io::stderr(), "{line}");
    } else {
        panic!("{REQUIRE} says that there is `{what}`: {why}");
    }
}

/// Forwards the reports that [`skip`] made in a child process, for example when a test runs itself again.
pub fn pass_on(output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with(SKIPPED)) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Returns the report as one line, or `None` if what is missing is required.
fn skip_line(required: &str, test: &str, what: &str, why: &str) -> Option<String> {
    let needed = required.split(',').map(str::trim).any(|name| name == what || name == "all");
    (!needed).then(|| format!("{SKIPPED}{test}: no {what}: {}", why.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::skip_line;

    #[test]
    fn an_unmet_requirement_is_reported_in_one_line_unless_mandatory() {
        let said = Some("skipped a: no sandbox: not Linux".to_owned());
        assert_eq!(skip_line("", "a", "sandbox", "not\n  Linux"), said);
        assert_eq!(skip_line("postgres,sand", "a", "sandbox", "not Linux"), said);
        for required in ["sandbox", "postgres, sandbox", "all"] {
            assert_eq!(skip_line(required, "a", "sandbox", "not Linux"), None, "{required}");
        }
    }
}
