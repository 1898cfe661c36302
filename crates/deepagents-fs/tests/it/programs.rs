//! Files that decide what commands run.

use std::fs;
use std::path::Path;

use deepagents_fs::permissions::{inputs_of, loaded_by, programs_of};

/// Creates files with these contents.
fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// What is protected because of a command: the programs that it names, and what decides what these run.
fn found(text: &str, root: &Path) -> Vec<String> {
    let root = root.canonicalize().unwrap();
    let mut all = programs_of(text, &root, &root, None);
    all.extend(inputs_of(text, &root, &root, None));
    all.extend(loaded_by(&all, &root));
    all.iter().map(|path| path.as_str().to_owned()).collect()
}

/// Commands, and a file or directory that decides what they run.
const DECIDING: &[(&str, &str)] = &[
    ("cargo fmt", "/.cargo/config.toml"),
    ("cargo fmt", "/.cargo/config"),
    ("cargo fmt", "/rust-toolchain.toml"),
    ("cd sub && cargo fmt", "/sub/.cargo/config.toml"),
    ("cd sub && cargo fmt", "/rust-toolchain"),
    ("timeout 60 cargo-clippy -q", "/rust-toolchain"),
    ("rustfmt $FILE", "/rust-toolchain.toml"),
    ("npm run lint", "/package.json"),
    ("npm run lint", "/.npmrc"),
    ("npm --prefix . run lint", "/package.json"),
    ("npm run lint", "/scripts/lint.sh"),
    ("pnpm run all", "/scripts/lint.sh"),
    ("pnpm run all", "/Makefile"),
    ("yarn lint", "/.yarnrc.yml"),
    ("npx prettier --write .", "/.prettierrc.js"),
    ("npx eslint .", "/eslint.config.mjs"),
    ("make lint", "/Makefile"),
    ("make lint", "/GNUmakefile"),
    ("make -C sub lint", "/sub/Makefile"),
    ("make -f build.mk lint", "/build.mk"),
    ("just lint", "/justfile"),
    ("pre-commit run --all-files", "/.pre-commit-config.yaml"),
    ("python3 -m nox", "/noxfile.py"),
    ("sh < scripts/lint.sh", "/scripts/lint.sh"),
    ("cat scripts/lint.sh | sh", "/scripts/lint.sh"),
    ("cat scripts/lint.sh | bash -s -- x", "/scripts/lint.sh"),
    ("eval \"$(cat scripts/lint.sh)\"", "/scripts/lint.sh"),
    ("for f in scripts/*.sh; do sh \"$f\"; done", "/scripts"),
    ("find scripts -name '*.sh' -exec sh {} \\;", "/scripts"),
    ("ls scripts/*.sh | xargs -n1 sh", "/scripts"),
    ("cat scripts/absent.sh | sh", "/scripts/absent.sh"),
    ("python3 scripts/main.py", "/scripts/helper.py"),
    ("python3 scripts/main.py", "/scripts/deep/__init__.py"),
    ("python3 scripts/main.py", "/scripts/json.py"),
    ("python3 -m pkg.lint", "/pkg/lint.py"),
    ("python3 -c \"import lint\"", "/lint.py"),
    ("python3 -c \"from checks.all import run; run()\"", "/checks/all.py"),
    ("node tools/main.js", "/tools/helper.js"),
    ("node tools/main.js", "/tools/deep/index.js"),
];

#[test]
fn what_decides_what_a_command_runs_is_found_whether_it_exists_or_not() {
    let dir = workspace(&[
        ("package.json", r#"{"scripts": {"lint": "sh scripts/lint.sh", "all": "npm run lint && make"}}"#),
        ("scripts/lint.sh", "true"),
        ("scripts/main.py", "import os, json\nfrom helper import x\nfrom . import deep\n"),
        ("scripts/helper.py", ""),
        ("scripts/deep/__init__.py", ""),
        ("tools/main.js", "const a = require('./helper');\nimport b from \"./deep\";\n"),
        ("tools/helper.js", ""),
        ("tools/deep/index.js", ""),
        ("sub/x", ""),
        ("build.mk", ""),
    ]);
    let missed = |(text, path): &&(&str, &str)| !found(text, dir.path()).iter().any(|found| found == path);
    let missed: Vec<_> = DECIDING.iter().filter(missed).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn what_a_command_works_on_is_not_taken_for_what_decides_about_it() {
    let dir = workspace(&[("src/main.rs", ""), ("data.json", ""), ("scripts/a.sh", ""), ("src/index.ts", "")]);
    for text in [
        "date +%F >> log.txt",
        "jq . data.json",
        "~/bin/guard src/main.rs",
        "notify-send done",
        "cat data.json | grep x",
        "sh -c 'cat data.json'",
        "sed -i s/a/b/ src/main.rs",
        "git diff --stat",
        "echo make cargo npm",
        "ruff check src",
    ] {
        assert_eq!(found(text, dir.path()), Vec::<String>::new(), "{text}");
    }
    let npx = found("npx prettier --write src/index.ts", dir.path());
    assert!(!npx.iter().any(|path| path.starts_with("/src")), "{npx:?}");
}
