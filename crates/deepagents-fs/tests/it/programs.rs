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

/// Files with tasks, and what these run.
const TASKS: &[(&str, &str)] = &[
    (
        "Makefile",
        "include build/rules.mk\n-include local.mk\nLIST := $(shell ./tools/list.sh)\n.PHONY: lint serve\nlint: check\n\t@./tools/lint.sh \\\n\t  src\n\
         check: ; -python3 tools/check.py\nserve:\n\tnode src/server.js\nall: lint\n",
    ),
    ("build/rules.mk", "deep:\n\tsh tools/deep.sh\n"),
    (
        "justfile",
        "import 'more.just'\nmod ci\nlint *ARGS: prepare\n  ./tools/lint.sh\nprepare:\n  sh tools/prepare.sh\n",
    ),
    ("more.just", "more:\n    bash tools/more.sh\n"),
    (
        "Taskfile.yml",
        "includes:\n  docs: docs/Taskfile.yml\ntasks:\n  lint:\n    cmds:\n      - ./tools/lint.sh\n  serve:\n    cmd: node src/server.js\n",
    ),
    ("docs/Taskfile.yml", "tasks:\n  build:\n    cmd: python3 tools/check.py\n"),
    (".pre-commit-config.yaml", "repos:\n- repo: local\n  hooks:\n    - id: a\n      entry: sh tools/deep.sh\n"),
    ("lefthook.yml", "pre-commit:\n  commands:\n    lint:\n      run: ./tools/lint.sh\n"),
    ("tox.ini", "[testenv:lint]\ncommands =\n    python tools/check.py\n"),
    ("mise.toml", "[tasks.lint]\nrun = \"./tools/lint.sh\"\n"),
    (".envrc", "source_env deep/.envrc\n. tools/more.sh\n"),
    (".cargo/config.toml", "[build]\nrustc-wrapper = \"tools/lint.sh\"\n"),
    (
        "package.json",
        r#"{"scripts": {"lint:js": "sh tools/lint.sh", "test": "sh tools/deep.sh", "other": "make serve", "prepare": "node tools/prepare.js"}}"#,
    ),
    ("composer.json", r#"{"scripts": {"lint": ["sh tools/lint.sh", "sh tools/deep.sh"]}}"#),
    ("deno.json", r#"{"tasks": {"lint": "sh tools/lint.sh"}}"#),
    ("eslint.config.mjs", "import rule from './tools/rule.mjs';\n"),
    ("tools/check.py", "import helper\n"),
];
const PROGRAMS: &[&str] = &[
    "tools/list.sh",
    "tools/lint.sh",
    "tools/deep.sh",
    "tools/prepare.sh",
    "tools/more.sh",
    "tools/prepare.js",
    "tools/rule.mjs",
    "tools/helper.py",
    "src/server.js",
];

fn with_tasks() -> tempfile::TempDir {
    let programs: Vec<_> = PROGRAMS.iter().map(|name| (*name, "#!/bin/sh\n")).collect();
    workspace(&[TASKS, &programs].concat())
}

fn inputs(text: &str, dir: &tempfile::TempDir) -> Vec<String> {
    let root = dir.path().canonicalize().unwrap();
    inputs_of(text, &root, &root, None).iter().map(|path| path.as_str().to_owned()).collect()
}

#[test]
fn what_the_tasks_of_a_file_run_is_found_together_with_the_files_that_it_includes() {
    let dir = with_tasks();
    let cases: &[(&str, &[&str])] = &[
        (
            "make lint",
            &[
                "/build/rules.mk",
                "/local.mk",
                "/tools/list.sh",
                "/tools/lint.sh",
                "/tools/check.py",
                "/tools/helper.py",
            ],
        ),
        ("make", &["/tools/deep.sh", "/src/server.js"]),
        ("make check && npm run other", &["/tools/check.py", "/src/server.js"]),
        ("task lint docs:build", &["/tools/lint.sh", "/tools/check.py"]),
        ("make -f absent.mk", &["/absent.mk"]),
        ("make -fbuild/rules.mk", &["/tools/deep.sh"]),
        ("just lint", &["/more.just", "/ci.just", "/ci/mod.just", "/tools/lint.sh", "/tools/prepare.sh"]),
        ("just more", &["/tools/more.sh"]),
        ("task lint", &["/tools/lint.sh", "/docs/Taskfile.yml"]),
        ("task docs:build", &["/tools/check.py"]),
        ("pre-commit run", &["/tools/deep.sh"]),
        ("lefthook run pre-commit", &["/tools/lint.sh", "/lefthook-local.yml"]),
        ("tox -e lint", &["/tools/check.py", "/tools/helper.py"]),
        ("mise run lint", &["/tools/lint.sh", "/mise.local.toml"]),
        ("direnv exec . date", &["/deep/.envrc", "/tools/more.sh"]),
        ("cargo fmt", &["/tools/lint.sh"]),
        ("run-s 'lint:*'", &["/tools/lint.sh"]),
        ("npm t", &["/tools/deep.sh"]),
        ("npm ci", &["/tools/prepare.js"]),
        ("yarn", &["/tools/prepare.js", "/.yarn/releases"]),
        ("composer run lint", &["/composer.json", "/tools/lint.sh", "/tools/deep.sh"]),
        ("deno task lint", &["/tools/lint.sh"]),
        ("npx eslint@9 .", &["/tools/rule.mjs"]),
        ("pnpm eslint .", &["/tools/rule.mjs"]),
        ("python3 -m pre_commit run", &["/tools/deep.sh"]),
        ("mypy src", &["/mypy.ini", "/pyproject.toml"]),
        ("python3 -m pylint src", &["/.pylintrc", "/setup.cfg"]),
        ("flake8", &["/.flake8", "/tox.ini"]),
        ("python3 -c 'import tools.check'", &["/tools/check.py", "/tools/helper.py"]),
    ];
    for (text, wanted) in cases {
        let found = inputs(text, &dir);
        let missed: Vec<_> = wanted.iter().filter(|path| !found.iter().any(|found| found == *path)).collect();
        assert!(missed.is_empty(), "{text}: {missed:?} {found:?}");
    }
}

#[test]
fn what_other_tasks_run_than_the_named_ones_is_left_to_the_project() {
    let dir = with_tasks();
    for (text, left) in [
        ("make lint", "/src/server.js"),
        ("just lint", "/tools/more.sh"),
        ("make lint", "/tools/deep.sh"),
        ("task lint", "/tools/check.py"),
        ("task lint", "/src/server.js"),
        ("npm run lint:js", "/tools/prepare.js"),
        ("npm run lint:js", "/tools/deep.sh"),
    ] {
        let found = inputs(text, &dir);
        assert!(!found.iter().any(|path| path == left), "{text}: {found:?}");
    }
}
