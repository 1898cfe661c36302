//! Random commands: what rules allow must match what shells run.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use deepagents_fs::permissions::AccessMode::{Allow, Ask, Deny};
use deepagents_fs::permissions::{CommandReason, CommandRule, Permissions};
use proptest::prelude::*;

use crate::executables;

/// Shell fragments, with `no` for the forbidden program and `ok` for the allowed one.
const PIECES: [&str; 92] = [
    "no",
    "ok",
    "no",
    "ok",
    "n",
    "o",
    "k",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "&>",
    ">",
    ">>",
    "<",
    "<<<",
    "<<E\n",
    "\nE\n",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    " # ",
    "!",
    "! ",
    "$",
    "$x",
    "${x}",
    "x=no",
    "x=",
    "=",
    "$'",
    "$\"",
    "*",
    "?",
    "[",
    "]",
    "~",
    "{no,ok}",
    "{",
    "}",
    ",",
    "if ",
    "; then ",
    "; fi",
    "else ",
    "while ",
    "do ",
    "; done",
    "for i in ",
    "case x in x) ",
    ";; esac",
    "f() ",
    "f",
    "function f ",
    "[[ ",
    " ]]",
    "((",
    "))",
    "$((",
    "eval ",
    "sh -c ",
    "env ",
    "xargs ",
    "exec ",
    "command ",
    "-",
    "--",
    "-c ",
    "1",
    "2>&1",
    ">&2",
    "time ",
    "-p ",
    "time -o x ",
    "test ",
    "$#",
    "nice ",
    "timeout 5 ",
];

/// A directory with the two programs, which record that they ran, and some that run others.
fn programs(dir: &Path) {
    for name in ["no", "ok"] {
        let path = dir.join(name);
        executables::make(&path, format!("#!/bin/sh\necho {name} >> {}/log\n", dir.display()));
    }
    for name in ["env", "xargs", "nice", "timeout", "time", "sh"] {
        let found =
            ["/usr/bin", "/bin"].map(|place| Path::new(place).join(name)).into_iter().find(|path| path.exists());
        if let Some(found) = found {
            symlink(found, dir.join(name)).unwrap();
        }
    }
}

/// Whether the forbidden program ran. Nothing else is on the path, and the working directory is temporary.
fn ran(shell: &str, text: &str) -> bool {
    let (programs_dir, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    programs(programs_dir.path());
    let child = std::process::Command::new(shell)
        .args(["-c", text])
        .env_clear()
        .env("PATH", programs_dir.path())
        .current_dir(cwd.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    // By then, even an endless loop has run its commands.
    let deadline = std::time::Instant::now() + Duration::from_secs(2);
    while child.try_wait().unwrap().is_none() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let log = std::fs::read_to_string(programs_dir.path().join("log")).unwrap_or_default();
    log.lines().any(|line| line == "no")
}

fn shells() -> impl Iterator<Item = &'static str> {
    ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/busybox"]
        .into_iter()
        .filter(|shell| Path::new(shell).exists() && !shell.ends_with("busybox"))
}

fn listing() -> Permissions {
    let allow = CommandRule::new(Allow, ["ok *", "x", "f *", "test *", "i"]);
    Permissions::default().with_commands([allow], Ask).unwrap()
}

fn denying() -> Permissions {
    Permissions::default().with_commands([CommandRule::new(Deny, ["no"])], Allow).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn an_allowed_command_runs_nothing_that_is_not_allowed(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..9)) {
        let text = pieces.concat();
        let allowed = [("a list of what may run", listing()), ("a list of what may not", denying())]
            .map(|(name, rules)| (name, rules.decide_command(&text).mode == Allow));
        // A process is started only for text that could have run the program.
        if text.contains(['n', '*', '?', '[', '$']) {
            for (name, _) in allowed.iter().filter(|(_, allowed)| *allowed) {
                for shell in shells() {
                    prop_assert!(!ran(shell, &text), "{shell} ran it, allowed by {name}: {text:?}");
                }
            }
        }
    }

    #[test]
    fn deciding_about_any_text_does_not_panic(text in "\\PC{0,60}", pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40)) {
        let _ = listing().decide_command(&text);
        let _ = listing().decide_command(&pieces.concat());
        let _ = CommandRule::narrow_for(&text);
        let _ = Permissions::default().with_commands([CommandRule::new(Deny, [text])], Allow);
    }

    #[test]
    fn a_denied_command_is_never_allowed_however_it_is_disguised(
        dressing in prop::collection::vec((0_usize..14, 0_usize..8), 0..5),
        quoting in prop::collection::vec(0_usize..6, 6),
    ) {
        let rules = Permissions::default().with_commands([CommandRule::new(Deny, ["git push"])], Allow).unwrap();
        let mut quoting = quoting.into_iter();
        let mut text: String = "gitpush".chars().enumerate().map(|(at, c)| {
            let c = match quoting.next().unwrap_or(0) {
                1 => format!("\\{c}"),
                2 => format!("'{c}'"),
                3 => format!("\"{c}\""),
                4 => format!("''{c}"),
                5 => format!("\\\n{c}"),
                _ => c.to_string(),
            };
            if at == 3 { format!(" {c}") } else { c }
        }).collect();
        let mut simple = true;
        for (dress, count) in dressing {
            let many = "x ".repeat(count);
            let dressed = match dress {
                0 if simple => format!("env {text}"),
                1 if simple => format!("timeout {count} {text} {many}"),
                2 if simple => format!("sudo -n {text}"),
                3 if simple => format!("A{count}=1 {text}"),
                4 if simple => format!("xargs -n {count} {text}"),
                5 => format!("echo {many}; {text}"),
                6 => format!("( {text} )"),
                7 => format!("{{ {text}\n}}"),
                8 => format!("echo $( {text} )"),
                9 => format!("if true; then {text}\nfi"),
                10 => format!("{text} | cat {many}"),
                11 => format!("sh -c '{}'", text.replace('\'', "'\\''")),
                12 => format!("f() {{ {text}\n}}; f"),
                13 => format!("# comment\n{text} # {many}"),
                _ => continue,
            };
            simple &= dress < 5 && dress != 3;
            text = dressed;
        }
        prop_assert_ne!(rules.decide_command(&text).mode, Allow, "{:?}", text);
    }
}

/// Programs with an option whose value they execute, and the length of its shortest abbreviation.
const RUN_BY_OPTIONS: [(&str, &str, usize); 8] = [
    ("git ls-remote", "--upload-pack", 5),
    ("git push", "--receive-pack", 6),
    ("git clone", "--config", 8),
    ("tar -xf t", "--to-command", 5),
    ("tar -cf t f", "--use-compress-program", 5),
    ("split f", "--filter", 3),
    ("sort f", "--compress-program", 5),
    ("rsync f h:", "--rsh", 5),
];

/// Programs that execute commands in another language, with the text around the command.
const OTHER_LANGUAGES: [(&str, &str); 12] = [
    ("python3 -c 'import os; os.system(\"", "\")'"),
    ("perl -e 'exec qw(", ")'"),
    ("ruby -e 'exec %w[", "].join(\" \")'"),
    ("make --eval='$(shell ", ")'"),
    ("make -f - <<'E'\nall:\n\t", "\nE"),
    ("vi -c '!", "'"),
    ("sqlite3 x '.shell ", "'"),
    ("sed '1e ", "' f"),
    ("gdb -ex 'shell ", "'"),
    ("echo '!", "' | ed"),
    ("printf '%s' '", "' > x; ./run x"),
    ("env A=1 ./run '--do=", "'"),
];

proptest! {
    #[test]
    fn a_denied_command_is_found_in_an_options_value(at in 0..RUN_BY_OPTIONS.len(), letters in 0_usize..24, joined: bool) {
        let rules = Permissions::default().with_commands([CommandRule::new(Deny, ["no"])], Allow).unwrap();
        let (program, option, least) = RUN_BY_OPTIONS[at];
        let option: String = option.chars().take(least + letters).collect();
        let name = if program == "git clone" { "a.b=" } else { "" };
        let text = format!("{program} {option}{}'{name}no x'", if joined { "=" } else { " " });
        prop_assert_eq!(rules.decide_command(&text).mode, Deny, "{:?}", text);
    }

    #[test]
    fn a_denied_command_inside_another_language_needs_approval(
        at in 0..OTHER_LANGUAGES.len(),
        words in prop::collection::vec(prop::sample::select(vec!["x", "-f", "a.b", "no", "12", "no-no", "yes"]), 0..6),
    ) {
        let rules = Permissions::default().with_commands([CommandRule::new(Deny, ["no"])], Allow).unwrap();
        let (before, behind) = OTHER_LANGUAGES[at];
        let text = format!("{before}{}{behind}", words.join(" "));
        let decision = rules.decide_command(&text);
        prop_assert!(!words.contains(&"no") || decision.mode != Allow, "{:?}", text);
        // Without the forbidden name, the command is allowed unless it is not understood.
        let read = !matches!(decision.reason, CommandReason::NotUnderstood(_));
        prop_assert!(words.contains(&"no") || decision.mode == Allow || !read, "{:?}: {}", text, decision.reason);
    }
}

#[test]
fn deeply_nested_commands_are_not_analysed_and_take_no_time() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("\"$(", ")\""),
        ("`", "`"),
        ("${a:-", "}"),
        ("if ", ";then y;fi"),
        ("{ ", ";}"),
        ("$((", "))"),
        ("<(", ")"),
        ("! ", ""),
        ("case x in x) ", ";;esac"),
        ("f() { ", ";}"),
        ("time ", ""),
        ("a && ", ""),
        ("a | ", ""),
        ("sh -c ", ""),
        ("env ", ""),
        ("[[ ( ", " ) ]]"),
    ] {
        for depth in [10, 45, 100, 990, 5_000] {
            let text = format!("{}no{}", open.repeat(depth), close.repeat(depth));
            assert_ne!(denying().decide_command(&text).mode, Allow, "{depth} of {open:?}");
        }
    }
}
