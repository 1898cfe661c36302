//! Files that git settings make git run or read need approval.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use deepagents_fs::permissions::AccessMode::{Allow, Ask};
use deepagents_fs::{Backend, LocalBackend};
use proptest::prelude::*;

use crate::suite::p;

/// A workspace that is a repository with these settings.
fn repository(settings: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git/config"), settings).unwrap();
    dir
}

/// A program that anyone may run.
fn program(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Settings that make git run or read a file, which is the last part of each row.
const RUNNING: &[(&str, &str)] = &[
    ("[remote \"o\"]\n uploadpack = ./up", "up"),
    ("[remote \"o\"]\n receivepack = tools/rp", "tools/rp"),
    ("[remote \"o\"]\n url = ext::./transport %S", "transport"),
    ("[remote \"o\"]\n pushurl = ext::sh transport.sh", "transport.sh"),
    ("[url \"ext::./transport %S \"]\n insteadOf = x:", "transport"),
    ("[submodule \"z\"]\n update = !./su", "su"),
    ("[submodule \"z\"]\n update = \"!sh su\"", "su"),
    ("[lfs \"customtransfer.x\"]\n path = ./transfer", "transfer"),
    ("[lfs \"customtransfer.x\"]\n args = tools/transfer.py", "tools/transfer.py"),
    ("[lfs \"extension.x\"]\n clean = ./clean %f", "clean"),
    ("[core]\n attributesFile = .at", ".at"),
    ("[init]\n templateDir = template", "template/hooks/post-checkout"),
    ("[core]\n sshCommand = sh ssh.sh", "ssh.sh"),
    ("[core]\n sshCommand = sh ssh", "ssh"),
    ("[core]\n sshCommand = python3 ssh.py", "ssh.py"),
    ("[core]\n sshCommand = python3 -m ssh", "ssh.py"),
    ("[core]\n sshCommand = python3.12 -u -m tools.ssh", "tools/ssh.py"),
    ("[core]\n sshCommand = env -u X lua5.4 ssh", "ssh"),
    ("[core]\n sshCommand = ./ssh.sh -v", "ssh.sh"),
    ("[core]\n fsmonitor = sh fs.sh", "fs.sh"),
    ("[core]\n pager = sh pg.sh", "pg.sh"),
    ("[core]\n editor = tools/edit --wait", "tools/edit"),
    ("[core]\n askPass = ./ask", "ask"),
    ("[core]\n gitProxy = ./proxy for example.com", "proxy"),
    ("[core]\n alternateRefsCommand = ./refs", "refs"),
    ("[core]\n worktree = ../sub\n pager = ./pg", "sub/pg"),
    ("[alias]\n x = !sh al.sh", "al.sh"),
    ("[alias]\n x = \"!cd tools && ./run\"", "tools/run"),
    ("[alias]\n x = !git -C tools status && sh tools/run", "tools/run"),
    ("[alias]\n x = \"!f() { node x.js \\\"$@\\\"; }; f\"", "x.js"),
    ("[alias \"x\"]\n command = !./al", "al"),
    ("[diff]\n external = sh de.sh", "de.sh"),
    ("[diff \"x\"]\n command = ./de", "de"),
    ("[diff \"x\"]\n textconv = ./conv", "conv"),
    ("[difftool \"x\"]\n cmd = ./tool \\\"$LOCAL\\\"", "tool"),
    ("[difftool \"x\"]\n path = ./tool", "tool"),
    ("[mergetool \"x\"]\n cmd = node tool.js", "tool.js"),
    ("[mergetool \"x\"]\n path = tools/tool", "tools/tool"),
    ("[merge \"x\"]\n driver = ./merge %O %A %B", "merge"),
    ("[filter \"x\"]\n clean = python3 cl.py", "cl.py"),
    ("[filter \"x\"]\n smudge = ./sm %f", "sm"),
    ("[filter \"x\"]\n process = ./pr", "pr"),
    ("[credential]\n helper = !sh cr.sh", "cr.sh"),
    ("[credential \"https://x.example\"]\n helper = \"!./cr\"", "cr"),
    ("[gpg]\n program = ./gpg", "gpg"),
    ("[gpg \"ssh\"]\n program = ./sign", "sign"),
    ("[gpg \"ssh\"]\n defaultKeyCommand = sh key", "key"),
    ("[interactive]\n diffFilter = ./filter", "filter"),
    ("[sequence]\n editor = ./edit", "edit"),
    ("[uploadpack]\n packObjectsHook = ./pack", "pack"),
    ("[trailer \"x\"]\n command = ./trailer", "trailer"),
    ("[trailer \"x\"]\n cmd = sh trailer", "trailer"),
    ("[sendemail]\n sendmailCmd = ./mail", "mail"),
    ("[sendemail \"x\"]\n toCmd = ./to", "to"),
    ("[sendemail]\n smtpServer = ./mail", "mail"),
    ("[browser \"x\"]\n cmd = ./browse", "browse"),
    ("[man \"x\"]\n path = ./man", "man"),
    ("[instaweb]\n httpd = ./web", "web"),
    ("[pager]\n log = ./pg", "pg"),
    ("[tar \"x\"]\n command = ./pack", "pack"),
    ("[guitool \"x\"]\n cmd = ./gui", "gui"),
    ("[imap]\n tunnel = ./tunnel", "tunnel"),
    ("[hook \"x\"]\n command = ./hook", "hook"),
    // However it is written.
    ("[ALIAS]X=!./al", "al"),
    ("[alias] x = \"!true ]\" # ]\n y = !./al", "al"),
    ("[alias] x = !./al ; ]", "al"),
    ("[alias \"a]b\"] x = !./al ]", "al"),
    ("[alias.x]\n command = !./al", "al"),
    ("# a remark that ends with \\\n[alias]\n x = !./al", "al"),
    ("[alias]\n y = true ; a remark \\\n x = !./al", "al"),
    ("[alias]\n x = !true\\n./al", "al"),
    ("[alias]\n x = !true\\t&&\\t./al", "al"),
    ("[alias]\n x = !./\\\nal", "al"),
    ("[alias]\r\n\tx = !./al\r\n", "al"),
    ("\u{feff}[alias]\n x = !./al", "al"),
    ("[alias]\n x = !\".\"/a\"\"l", "al"),
];

#[tokio::test]
async fn what_any_git_setting_runs_needs_approval_whether_it_exists_or_not() {
    let mut missed = Vec::new();
    for (settings, file) in RUNNING {
        for exists in [false, true] {
            let dir = repository(settings);
            for name in ["sub", "tools"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            if exists {
                program(&dir.path().join(file));
            }
            let files = LocalBackend::open(dir.path()).unwrap();
            let other = files.change_access(&p("/other")).await;
            assert_eq!(other, Allow, "{settings}");
            if files.change_access(&p(&format!("/{file}"))).await != Ask {
                missed.push((settings, file, exists));
            }
        }
    }
    // What changes into a directory may mean any file in it, so only what exists counts.
    missed.retain(|(settings, _, exists)| *exists || !settings.contains("cd tools"));
    assert!(missed.is_empty(), "{missed:#?}");
}

#[tokio::test]
async fn git_settings_that_run_nothing_protect_no_files() {
    for (settings, file) in [
        ("[remote \"o\"]\n url = ./up", "up"),
        ("[remote \"o\"]\n url = ../x/text::up", "up"),
        ("[branch \"x\"]\n description = sh up", "up"),
        ("[submodule \"z\"]\n path = tools/z", "tools/z"),
        ("[submodule \"z\"]\n update = checkout", "checkout"),
        ("[user]\n name = sh up", "up"),
        ("[alias]\n st = status", "status"),
        ("[alias]\n here = diff . up", "up"),
        ("[alias]\n sh = \"!sh -c 'echo up'\"", "up"),
        ("[core]\n editor = vim", "vim"),
        ("[lfs]\n url = https://x.example/up", "up"),
        ("[alias]\n # x = !./al\n ; y = !./al", "al"),
        ("[alias]\n y = true # !./al", "al"),
    ] {
        let files_dir = repository(settings);
        let files = LocalBackend::open(files_dir.path()).unwrap();
        assert_eq!(files.change_access(&p(&format!("/{file}"))).await, Allow, "{settings}");
    }
}

/// Pieces of git configuration.
const PIECES: [&str; 40] = [
    "[alias]",
    "[alias \"x\"]",
    "[alias.x]",
    "[Core]",
    "[alias \"a]b\\\"c\"]",
    "\n",
    "\n",
    "\n",
    "\r\n",
    " ",
    "\t",
    "x",
    "y1",
    "a-b",
    " = ",
    "=",
    "= \"",
    "\"",
    "\"",
    "\\\"",
    "\\\\",
    "\\n",
    "\\t",
    "\\b",
    "\\\n",
    "#",
    ";",
    " # ",
    "]",
    "[",
    "!",
    "./p0",
    "./p1",
    "./p2",
    "./p3",
    "./p4",
    "sh ",
    "x = !./p5\n",
    "y = \"!./p6\"\n",
    "\u{feff}",
];

/// Settings put together from pieces. Git accepts few texts of any pieces, so most have values alone.
fn settings() -> impl Strategy<Value = String> {
    let any =
        proptest::collection::vec(proptest::sample::select(&PIECES[..]), 1..24).prop_map(|pieces| pieces.concat());
    let is_value = |piece: &&str| {
        !piece.contains(['[', ']', '=', '\u{feff}', '\r']) && (!piece.ends_with('\n') || *piece == "\\\n")
    };
    let values: Vec<&str> = PIECES.into_iter().filter(is_value).collect();
    let value = proptest::collection::vec(proptest::sample::select(values), 1..7).prop_map(|pieces| pieces.concat());
    let aliases = proptest::collection::vec(value, 1..4)
        .prop_map(|values| values.iter().map(|value| format!("[alias]\n x = {value}\n")).collect());
    prop_oneof![1 => any, 3 => aliases]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What git reads in a settings file is read here too.
    #[test]
    fn settings_are_read_as_git_reads_them(text in settings()) {
        let dir = repository(&text);
        let list = Command::new("git")
            .args(["config", "--file"])
            .arg(dir.path().join(".git/config"))
            .args(["--list", "-z"])
            .current_dir("/")
            .output();
        let Ok(list) = list else {
            deepagents_testing::skip::skip("git", "it is not installed");
            return Ok(());
        };
        // Git does not run with settings that it cannot read.
        if !list.status.success() {
            return Ok(());
        }
        let listed = String::from_utf8_lossy(&list.stdout).into_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let files = LocalBackend::open(dir.path()).unwrap();
        for setting in listed.split('\0') {
            let value = setting.split_once('\n').map_or("", |(_, value)| value);
            let words = value.split(|c: char| c.is_whitespace() || "\"'!;=|&()<>`".contains(c));
            for word in words.filter(|word| word.starts_with("./p") && word.len() == 4) {
                let access = runtime.block_on(files.change_access(&p(word.trim_start_matches('.'))));
                prop_assert_eq!(access, Ask, "{:?} in {:?}", word, text);
            }
        }
    }
}
