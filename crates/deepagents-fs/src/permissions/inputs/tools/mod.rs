//! Tools that run what files of a directory say.

use crate::permissions::words::{Word, last_part};

/// A tool, or several that read the same files.
pub(super) struct Tool {
    names: &'static [&'static str],
    /// Files in the working directory or above it.
    pub(super) files: &'static [&'static str],
    /// Whether it runs the scripts of a `package.json`.
    pub(super) has_scripts: bool,
}

const NONE: Tool = Tool { names: &[], files: &[], has_scripts: false };

const TOOLS: [Tool; 19] = [
    Tool {
        names: &["cargo", "rustc", "rustfmt", "rustdoc", "rustup", "rust-analyzer"],
        files: &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"],
        ..NONE
    },
    Tool {
        names: &["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "corepack", "lint-staged", "husky"],
        files: &["package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnp.cjs", "bunfig.toml"],
        has_scripts: true,
    },
    Tool { names: &["make", "gmake", "bmake"], files: &["GNUmakefile", "makefile", "Makefile", "BSDmakefile"], ..NONE },
    Tool { names: &["just"], files: &["justfile", "Justfile", ".justfile"], ..NONE },
    Tool {
        names: &["task", "go-task"],
        files: &["Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml", "Taskfile.dist.yml"],
        ..NONE
    },
    Tool { names: &["rake"], files: &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"], ..NONE },
    Tool { names: &["ninja"], files: &["build.ninja"], ..NONE },
    Tool { names: &["scons"], files: &["SConstruct", "Sconstruct", "sconstruct"], ..NONE },
    Tool {
        names: &["gradle", "gradlew"],
        files: &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradle/wrapper/gradle-wrapper.properties",
            "gradle/wrapper/gradle-wrapper.jar",
        ],
        ..NONE
    },
    Tool {
        names: &["mvn", "mvnw"],
        files: &["pom.xml", ".mvn/extensions.xml", ".mvn/jvm.config", ".mvn/maven.config"],
        ..NONE
    },
    Tool { names: &["tox"], files: &["tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"], ..NONE },
    Tool { names: &["nox"], files: &["noxfile.py"], ..NONE },
    Tool { names: &["pre-commit", "prek"], files: &[".pre-commit-config.yaml", ".pre-commit-config.yml"], ..NONE },
    Tool { names: &["lefthook"], files: &["lefthook.yml", ".lefthook.yml", "lefthook.yaml", "lefthook.toml"], ..NONE },
    Tool {
        names: &["prettier"],
        files: &[
            "package.json",
            ".prettierrc",
            ".prettierrc.json",
            ".prettierrc.yml",
            ".prettierrc.yaml",
            ".prettierrc.toml",
            ".prettierrc.js",
            ".prettierrc.cjs",
            ".prettierrc.mjs",
            ".prettierrc.ts",
            "prettier.config.js",
            "prettier.config.cjs",
            "prettier.config.mjs",
            "prettier.config.ts",
        ],
        ..NONE
    },
    Tool {
        names: &["eslint"],
        files: &[
            "package.json",
            "eslint.config.js",
            "eslint.config.cjs",
            "eslint.config.mjs",
            "eslint.config.ts",
            ".eslintrc",
            ".eslintrc.js",
            ".eslintrc.cjs",
            ".eslintrc.json",
            ".eslintrc.yml",
            ".eslintrc.yaml",
        ],
        ..NONE
    },
    Tool { names: &["bundle", "bundler"], files: &["Gemfile", ".bundle/config"], ..NONE },
    Tool { names: &["mise", "direnv"], files: &["mise.toml", ".mise.toml", ".tool-versions", ".envrc"], ..NONE },
    Tool { names: &["deno"], files: &["deno.json", "deno.jsonc", "package.json"], has_scripts: true },
];

/// Returns the tool that a word runs.
pub(super) fn of(word: &Word<'_>) -> Option<&'static Tool> {
    let name = last_part(word.text);
    let is_run = word.is_program() || word.before == "-m";
    let own = if name.starts_with("cargo-") { "cargo" } else { name };
    TOOLS.iter().find(|tool| is_run && tool.names.contains(&own))
}

/// Returns whether a word names a program that runs Python.
pub(super) fn is_python(word: &str) -> bool {
    let name = last_part(word);
    ["python", "pypy"].iter().any(|python| name.starts_with(python))
}
