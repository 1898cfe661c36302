//! What a person allows with "commands like this one": the program and, if it has subcommands, the subcommand.

use super::pattern::base_name;
use super::script::Simple;
use super::{mentions, options, runners, shells};

/// Programs that run what their arguments or input say in languages of their own, so that allowing one allows
/// everything. Those that run a command from their arguments, and those with a version in their name, are listed
/// elsewhere.
const OPEN_ENDED: &[&str] = &[
    "alacritty",
    "ansible",
    "ansible-playbook",
    "ant",
    "apt",
    "apt-get",
    "aws",
    "az",
    "bazel",
    "bazelisk",
    "bc",
    "bsdtar",
    "bun",
    "busctl",
    "cabal",
    "cc",
    "clang",
    "cmake",
    "composer",
    "cpan",
    "crontab",
    "crystal",
    "csi",
    "ctest",
    "curl",
    "dart",
    "dbus-send",
    "dc",
    "dd",
    "deno",
    "dotnet",
    "dpkg",
    "dumpcap",
    "ed",
    "elixir",
    "emacs",
    "emacsclient",
    "erl",
    "esbuild",
    "ex",
    "exiftool",
    "expect",
    "fd",
    "fdfind",
    "ffmpeg",
    "find",
    "flutter",
    "fsi",
    "fzf",
    "g++",
    "gcc",
    "gcloud",
    "gdbus",
    "gem",
    "ghc",
    "ghci",
    "git-shell",
    "gitk",
    "gmake",
    "gnome-terminal",
    "gnuplot",
    "go",
    "gpg",
    "gpg2",
    "gradle",
    "gradlew",
    "groovy",
    "grunt",
    "gs",
    "guile",
    "gulp",
    "helm",
    "hg",
    "hub",
    "iptables",
    "ipython",
    "ipython3",
    "irb",
    "java",
    "jjs",
    "journalctl",
    "jrunscript",
    "jshell",
    "julia",
    "jupyter",
    "just",
    "kitty",
    "konsole",
    "kotlin",
    "kotlinc",
    "latex",
    "latexmk",
    "ld",
    "lein",
    "less",
    "lldb",
    "logsave",
    "luajit",
    "lualatex",
    "m4",
    "mail",
    "mailx",
    "make",
    "meson",
    "mix",
    "more",
    "msbuild",
    "msfconsole",
    "mvn",
    "mvnw",
    "mysql",
    "nano",
    "nc",
    "ncat",
    "netcat",
    "nft",
    "nginx",
    "nim",
    "nimble",
    "ninja",
    "nix-build",
    "nmake",
    "nmap",
    "nodejs",
    "nox",
    "nvim",
    "ocaml",
    "octave",
    "open",
    "openssl",
    "osascript",
    "pdb",
    "pdflatex",
    "pic",
    "pico",
    "pipx",
    "powershell",
    "psql",
    "pydoc",
    "R",
    "r",
    "racket",
    "rails",
    "rake",
    "readelf",
    "rexx",
    "rollup",
    "rpm",
    "Rscript",
    "rscript",
    "rsync",
    "runghc",
    "rview",
    "rvim",
    "sbt",
    "scala",
    "scheme",
    "scons",
    "scp",
    "service",
    "sftp",
    "socat",
    "split",
    "sqlite3",
    "stack",
    "start",
    "svn",
    "swift",
    "systemctl",
    "tar",
    "task",
    "tclsh",
    "tcpdump",
    "tee",
    "telnet",
    "terraform",
    "tex",
    "tig",
    "tofu",
    "top",
    "tox",
    "ts-node",
    "tsx",
    "vagrant",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "vite",
    "waf",
    "watchexec",
    "webpack",
    "wget",
    "wireshark",
    "wish",
    "xdg-open",
    "xelatex",
    "xterm",
    "zig",
    "zip",
    "zypper",
];
/// Commands that change the meaning of later commands, or take a program as an option.
const NEVER: &[&str] = &[
    ".", "source", "eval", "exec", "builtin", "command", "trap", "man", "export", "readonly", "declare", "typeset",
    "local", "set", "unset", "read", "getopts",
];
/// Prefixes of options that make a program run something it otherwise does not.
const RUNNING: [(&str, &[&str]); 2] = [
    ("rg", &["--pre", "--hostname-bin"]),
    (
        "git",
        &["-O", "--open", "--ext-diff", "--textconv", "--exec", "--upload-pack", "--receive-pack", "--config", "-c"],
    ),
];
/// Program names that may have a version appended.
const VERSIONED: [&str; 8] = ["python", "perl", "ruby", "lua", "php", "node", "pypy", "pip"];

/// Returns the name for calls like this one, if allowing them is safe.
pub(super) fn of(simple: &Simple) -> Option<String> {
    let program = simple.words.first()?.known()?;
    let name = base_name(program);
    let args = simple.words.get(1..).unwrap_or_default();
    let is_versioned = |name: &&str| {
        let behind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        VERSIONED.contains(&behind)
    };
    let runs = RUNNING.iter().filter(|(of, _)| *of == name).flat_map(|(_, options)| options.iter());
    let is_told =
        args.iter().filter_map(|arg| arg.known()).any(|arg| runs.clone().any(|option| arg.starts_with(option)));
    let is_shell = [&shells::SHELLS[..], &shells::OTHERS, &shells::UNREADABLE].iter().any(|all| all.contains(&name));
    if is_told || is_shell || NEVER.contains(&name) {
        return None;
    }
    if options::are_known(name) {
        // Options before the subcommand may change its meaning, as `git -c` does.
        let sub =
            options::sub_command(name, args).filter(|sub| args.first().and_then(|arg| arg.known()) == Some(sub))?;
        let is_open = name == "git" && !simple.inert;
        return (!is_open && is_word(sub)).then(|| format!("{program} {sub}"));
    }
    // For some programs it is known that this call runs nothing.
    let is_harmless = simple.inert && mentions::may_be_inert(name);
    // A rule for all calls of a program that can run others would cover those, too.
    let is_runner = runners::before_command(name, args).is_some();
    let is_open = OPEN_ENDED.contains(&name) || is_versioned(&name) || is_runner || mentions::may_be_inert(name);
    ((is_harmless || !is_open) && is_word(program)).then(|| program.to_owned())
}

/// Returns whether a word reads the same to people and to the shell.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+".contains(c))
}
