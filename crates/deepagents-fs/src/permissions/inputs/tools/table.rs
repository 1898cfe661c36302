//! The tools that are known, and their files.

use super::{Commands, Tool};

const NONE: Tool = Tool { names: &[], files: &[], commands: Commands::None };
const PYTHON: &[&str] = &["pyproject.toml", "setup.cfg", "tox.ini"];

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        names: &["cargo", "rustc", "rustfmt", "rustdoc", "rustup", "rust-analyzer"],
        files: &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"],
        commands: Commands::Values,
    },
    // JavaScript
    Tool {
        names: &[
            "npm",
            "npx",
            "pnpm",
            "pnpx",
            "yarn",
            "bun",
            "bunx",
            "corepack",
            "husky",
            "run-s",
            "run-p",
            "npm-run-all",
        ],
        files: &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarn/releases",
            ".yarn/plugins",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
            ".pnp.cjs",
            "bunfig.toml",
        ],
        commands: Commands::Scripts { file: "package.json", key: "scripts" },
    },
    Tool {
        names: &["deno"],
        files: &["deno.json", "deno.jsonc", "package.json"],
        commands: Commands::Scripts { file: "deno.json", key: "tasks" },
    },
    Tool { names: &["deno"], files: &[], commands: Commands::Scripts { file: "package.json", key: "scripts" } },
    Tool {
        names: &["lint-staged"],
        files: &[
            "package.json",
            ".lintstagedrc",
            ".lintstagedrc.json",
            ".lintstagedrc.yaml",
            ".lintstagedrc.yml",
            ".lintstagedrc.js",
            ".lintstagedrc.cjs",
            ".lintstagedrc.mjs",
            "lint-staged.config.js",
            "lint-staged.config.cjs",
            "lint-staged.config.mjs",
        ],
        ..NONE
    },
    Tool {
        names: &["prettier"],
        files: &[
            "package.json",
            ".prettierrc",
            ".prettierrc.json",
            ".prettierrc.json5",
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
    Tool {
        names: &["stylelint"],
        files: &[
            "package.json",
            "stylelint.config.js",
            "stylelint.config.cjs",
            "stylelint.config.mjs",
            ".stylelintrc",
            ".stylelintrc.js",
            ".stylelintrc.cjs",
            ".stylelintrc.mjs",
            ".stylelintrc.json",
            ".stylelintrc.yml",
            ".stylelintrc.yaml",
        ],
        ..NONE
    },
    // Python
    Tool {
        names: &["tox"],
        files: &["tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"],
        commands: Commands::Values,
    },
    Tool { names: &["nox"], files: &["noxfile.py"], ..NONE },
    Tool { names: &["invoke", "inv"], files: &["tasks.py", "tasks", "invoke.yaml", "invoke.py"], ..NONE },
    Tool { names: &["doit"], files: &["dodo.py", "pyproject.toml"], ..NONE },
    Tool {
        names: &["poe"],
        files: &["pyproject.toml", "poe_tasks.toml", "poe_tasks.yaml"],
        commands: Commands::Values,
    },
    Tool {
        names: &["uv", "poetry", "pdm", "hatch", "pipenv", "rye"],
        files: &["pyproject.toml", "uv.toml", "poetry.toml", "pdm.toml", "hatch.toml", "Pipfile"],
        ..NONE
    },
    Tool { names: &["mypy", "dmypy"], files: &["mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"], ..NONE },
    Tool { names: &["pylint"], files: &["pylintrc", ".pylintrc", "pylintrc.toml", ".pylintrc.toml"], ..NONE },
    Tool { names: &["pylint"], files: PYTHON, ..NONE },
    Tool { names: &["flake8"], files: &[".flake8", "setup.cfg", "tox.ini"], ..NONE },
    // Ruby, PHP and Elixir
    Tool { names: &["rake"], files: &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb", "rakelib"], ..NONE },
    Tool { names: &["bundle", "bundler"], files: &["Gemfile", "gems.rb", ".bundle/config"], ..NONE },
    Tool { names: &["rubocop"], files: &[".rubocop.yml", ".rubocop"], ..NONE },
    Tool {
        names: &["composer"],
        files: &["composer.json"],
        commands: Commands::Scripts { file: "composer.json", key: "scripts" },
    },
    Tool { names: &["php-cs-fixer"], files: &[".php-cs-fixer.php", ".php-cs-fixer.dist.php"], ..NONE },
    Tool { names: &["phpstan"], files: &["phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"], ..NONE },
    Tool { names: &["mix"], files: &["mix.exs", ".formatter.exs"], ..NONE },
    // Tasks
    Tool {
        names: &["make", "gmake", "bmake"],
        files: &["GNUmakefile", "makefile", "Makefile", "BSDmakefile"],
        commands: Commands::Recipes,
    },
    Tool { names: &["just"], files: &["justfile", "Justfile", ".justfile"], commands: Commands::Recipes },
    Tool {
        names: &["task", "go-task"],
        files: &[
            "Taskfile.yml",
            "Taskfile.yaml",
            "taskfile.yml",
            "taskfile.yaml",
            "Taskfile.dist.yml",
            "Taskfile.dist.yaml",
        ],
        commands: Commands::Values,
    },
    Tool { names: &["ninja"], files: &["build.ninja"], commands: Commands::Values },
    Tool { names: &["scons"], files: &["SConstruct", "Sconstruct", "sconstruct", "site_scons"], ..NONE },
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
            "buildSrc",
        ],
        ..NONE
    },
    Tool {
        names: &["mvn", "mvnw"],
        files: &["pom.xml", ".mvn/extensions.xml", ".mvn/jvm.config", ".mvn/maven.config", ".mvn/wrapper"],
        ..NONE
    },
    Tool { names: &["ant"], files: &["build.xml"], ..NONE },
    Tool { names: &["bazel", "bazelisk"], files: &[".bazelrc", ".bazeliskrc", "tools/bazel", "MODULE.bazel"], ..NONE },
    // Hooks and environments
    Tool {
        names: &["pre-commit", "prek"],
        files: &[".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml"],
        commands: Commands::Values,
    },
    Tool {
        names: &["lefthook"],
        files: &[
            "lefthook.yml",
            ".lefthook.yml",
            "lefthook.yaml",
            "lefthook.toml",
            "lefthook-local.yml",
            ".lefthook-local.yml",
            "lefthook-local.yaml",
            "lefthook-local.toml",
            ".lefthook",
            ".lefthook-local",
        ],
        commands: Commands::Values,
    },
    Tool {
        names: &["mise"],
        files: &[
            "mise.toml",
            ".mise.toml",
            "mise.local.toml",
            ".mise.local.toml",
            "mise/config.toml",
            ".mise/config.toml",
            ".config/mise.toml",
            ".config/mise",
            ".tool-versions",
            "mise-tasks",
            ".mise-tasks",
            "mise/tasks",
            ".mise/tasks",
        ],
        commands: Commands::Values,
    },
    Tool { names: &["direnv"], files: &[".envrc", ".env"], commands: Commands::Values },
    Tool {
        names: &["nix", "nix-shell", "nix-build", "nix-instantiate"],
        files: &["flake.nix", "flake.lock", "shell.nix", "default.nix"],
        ..NONE
    },
    Tool {
        names: &["docker", "docker-compose", "podman", "podman-compose"],
        files: &[
            "compose.yaml",
            "compose.yml",
            "docker-compose.yaml",
            "docker-compose.yml",
            "docker-compose.override.yml",
        ],
        ..NONE
    },
];
