//! Command rules and file rules for files that a command writes, opens or runs.

use deepagents_fs::permissions::AccessMode::{Allow, Ask, Deny};
use deepagents_fs::permissions::{AccessMode, CommandRule, Operation, Permissions, Rule};
use proptest::prelude::*;

fn denying(files: Permissions) -> Permissions {
    files.with_commands([CommandRule::new(Deny, ["touch", "git push"])], Allow).unwrap()
}

fn files() -> Permissions {
    let rules = [
        Rule::new(Deny, ["/secrets/**"]),
        Rule::new(Ask, ["/docs/**"]).only([Operation::Write]),
        Rule::new(Allow, ["/out/**"]),
    ];
    Permissions::new(rules).unwrap()
}

fn differing(rules: &Permissions, cases: &[(&str, AccessMode)]) -> Vec<String> {
    let decided = cases.iter().map(|(command, mode)| (command, mode, rules.decide_command(command)));
    decided
        .filter(|(_, mode, decision)| decision.mode != **mode)
        .map(|(command, mode, decision)| format!("{command:?}: {:?}, not {mode:?}: {}", decision.mode, decision.reason))
        .collect()
}

/// Commands that write what they then run, or what git then takes settings from.
const WRITTEN: &[&str] = &[
    "echo touch M | cat > s; sh ./s",
    "echo touch M | head -n1 | sort > s; bash s",
    "echo touch x | tee s | cat > t; ./t",
    "{ echo a; echo touch M | cat; } > s; sh s",
    "git for-each-ref --shell --count=1 --format='touch M;' > s && . ./s",
    "git rev-parse --sq-quote touch M > s; . ./s",
    "git rev-parse --sq-quote touch M | cat > s; . ./s",
    "git log --format='touch M' > s; sh s",
    "git tag --format 'touch M' > s; chmod +x s; ./s",
    "git -C sub show -s --format='git push' > s; zsh s",
    "git log -1 --format='touch M' > s; flock . sh s",
    "git log -1 --format='touch M' > s; find . -name s -exec sh s \\;",
    "date +'touch M' > s; sh s",
    "ls touch > s; sh s",
    "stat -c 'touch M' f > s; source ./s",
    "printf '\\164ouch M\\n' > s; sh s",
    "echo '\\0164ouch M' > s; sh s",
    "echo -e '\\x74ouch M' > s; sh s",
    "printf 'tou%s M\\n' ch > s; sh s",
    "printf '%s push\\n' git > s; sh s",
    "printf '%s' tou 'ch x' > s; sh s",
    "printf tou > s; printf 'ch x\\n' >> s; sh s",
    "{ printf tou; echo 'ch x'; } > s; . ./s",
    "echo -n tou > s; echo 'ch x' >> s; sh s",
    "echo dG91Y2ggeA== | base64 -d > s; sh s",
    "echo dG91Y2ggeA== | base64 -d | tee s; sh s",
    "base64 -d > s <<< dG91Y2ggeA==; sh s",
    "echo 'x hcuot' | rev > s; chmod +x s; ./s",
    "echo xouch y | tr x t > s; bash ./s",
    "echo 12touch y | cut -c3- > s; bash --norc ./s",
    "sed 's/.*/touch x/' f > s; sh s",
    "sed 's/a/tou/;s/$/ch x/' f > s; sh s",
    "awk 'BEGIN{print \"touch x\"}' f > s; sh s",
    "jq -nr '\"touch x\"' > s; sh s",
    "seq -f 'touch %g' 1 > s; sh s",
    "x=touch; echo \"$x M\" > s; sh s",
    "x=tou; echo \"${x}ch M\" > s; sh s",
    "F=s; echo dG91 | base64 -d > \"$F\"; sh s",
    "for F in s; do echo dG91 | base64 -d > $F; done; sh s",
    "echo dG91 | base64 -d > s; mv s t; sh t",
    "echo dG91 | base64 -d > s; ln s t; . ./t",
    "echo dG91 | base64 -d > ls; PATH=. ls",
    "echo dG91 | base64 -d > s; BASH_ENV=s bash -c :",
    "echo dG91 | base64 -d > s; bash --rcfile s -ic :",
    "echo dG91 | base64 -d > s; git -c core.pager='sh s' -p log",
    "git log --format='touch M' --output=s; sh s",
    "git log --format='touch M' --output s; sh s",
    "tree -o s touch; sh s",
    "git apply <<'E'\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+touch M\nE\nsh s",
    "printf '+touch M' | git apply; sh s",
    "exec 3>s; echo touch M >&3; sh s",
    "exec > s; echo touch M; sh s",
    "exec > s; echo dG91 | base64 -d; sh s",
    "cp \"$(command -v git)\" y; ./y push",
    "dd if=/usr/bin/git of=y; chmod +x y; ./y push",
    "cat /usr/bin/git > y; chmod +x y; ./y push",
    "cat /usr/bin/touch > y; chmod +x y; ./y x",
    "MANOPT='-P touch' man ls",
    "fd -Hx touch",
    "fd -xtouch y",
    "fd -Hx git push",
    "echo x | tee \"$HOME/.gitconfig\"; git y",
    "fd -t f -X touch",
    "npm explore x -- touch y",
    "npm --script-shell touch test",
    "git --shallow-file x push",
    "git subtree push --prefix=a origin b",
    "git init --bare n; printf '[alias]\\ny=push\\n' > n/config; git -C n y",
    "printf x > d/config; GIT_DIR=d git y",
    "cat <<'E' > s && bash s\nt\"\"ouch x\nE",
    "cat <<'E' > s && bash s\nt\\\nouch \"$x\"\nE",
    "cat <<'E' | tee s; . ./s\n'g'it -C x pu\"s\"h\nE",
    "printf '#!/bin/sh\\nt\"\"ouch x\\n' > s; sh s",
    "run-parts --regex '^touch$' --arg M /usr/bin",
    "git -c help.autocorrect=immediate pusj BARE HEAD:refs/heads/q",
    "git -c Help.AutoCorrect=1 pusj",
    "git config help.autocorrect 1; git pusj",
    "git for-each-repo --config=k push",
    "git for-each-repo --config k --keep-going push origin",
    "printf 'touch M' > h/pre-commit; chmod +x h/*; git -c core.hooksPath=h commit -m x",
    "HOME=. ; printf '[alias]\\ny=push\\n' > .gitconfig; git y",
    "HOME=. git y",
    "export HOME=$PWD; git y",
    "env HOME=. git y",
    "XDG_CONFIG_HOME=x sh -c 'git y'",
    "printf '[alias]\\ny=push\\n' > ~/.gitconfig; git y",
    "printf '[alias]\\ny=push\\n' > \"$HOME/.gitconfig\"; git y",
    "cp evil ~/.gitconfig; git y",
    "XDG_CONFIG_HOME=$PWD; export XDG_CONFIG_HOME; printf '[alias]\\ny=push\\n' > git/config; git y",
    "printf x > \"${XDG_CONFIG_HOME}/git/config\"; git y",
    "git init n; printf '[alias]\\ny=push\\n' | tee n/.git/config; git -C n y",
    "cd n/.git && printf '[alias]\\ny=push\\n' > config; git y",
    "printf 'x' > n/.git/hooks/post-checkout; git -C n checkout x",
    "printf '[core]\\nfsmonitor=x' > .gitconfig; HOME=. git status",
];

#[test]
fn what_a_command_writes_and_then_runs_cannot_hide_a_denied_command() {
    let rules = denying(Permissions::default());
    let passed: Vec<_> = WRITTEN.iter().filter(|command| rules.decide_command(command).mode == Allow).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

/// Commands as developers write them, none of which does what the rules are about.
const ORDINARY: &[&str] = &[
    "cargo test 2>&1 | tail -50",
    "cargo build --release > out.log 2>&1",
    "cargo test -p a > out.log 2>&1; grep -c FAILED out.log",
    "cargo clippy --all-targets -- -D warnings 2>&1 | grep -E '^(error|warning)' | sort | uniq -c | head",
    "cd crates/x && cargo test > ../../out.log",
    "cd crates/x; cargo test > out.log 2>&1; tail out.log",
    "npm test | grep -i fail | head",
    "npm ci && npm run build > build.log",
    "(cd web && npm run build) > build.log 2>&1",
    "cd web || exit 1; npm test > test.log",
    "pytest -x tests | tee out.log",
    "cd sub && pytest -x > out.log; cat out.log",
    "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt > pip.log",
    "python3 - <<'E'\nprint(1)\nE",
    "cat > x.py <<'E'\nprint('a\\x41')\nE\npython3 x.py",
    "cat > run.sh <<'E'\n#!/bin/sh\nset -eu\ncd \"$1\" && cargo test \"$@\"\nE\nchmod +x run.sh; ./run.sh",
    "cat > run.sh <<E\ncd $PWD\nmake all\nE\nsh run.sh",
    "printf '#!/bin/sh\\nexec cargo test\\n' > t.sh; sh t.sh",
    "echo '#!/bin/sh' > t.sh; echo 'exec cargo test \"$@\"' >> t.sh; chmod +x t.sh; ./t.sh",
    "printf '%s\\n' a b > list; sh run.sh list",
    "printf '%s' \"$TEXT\" > out.txt; bash run.sh",
    "echo 'export A=1' > env.sh; . ./env.sh; cargo test",
    "make -j8 > /tmp/make.log 2>&1 && tail -3 /tmp/make.log",
    "mkdir -p build && cd build && cmake .. > cmake.log && make",
    "./configure --prefix=/usr > configure.log && make",
    "sed 's/a/b/' in.txt > out.txt && cargo test",
    "sed 's/@X@/1/' a.in > a.h; bash build.sh",
    "mv a b; sed 's/x/y/' c > d; bash build.sh",
    "cp a.txt b.txt; date > stamp; bash build.sh",
    "for f in *.in; do sed 's/a/b/' \"$f\" > \"${f%.in}\"; done; ./configure",
    "for f in src/*.rs; do wc -l \"$f\"; done > counts.txt",
    "jq '.a' x.json > y.json && mv y.json x.json && node run.js",
    "curl -s https://x.example/a | jq .a > y.json",
    "grep -r foo . > hits.txt; wc -l hits.txt; bash scripts/check.sh",
    "grep -rn TODO src | awk -F: '{print $1}' | sort -u > files.txt; ./run files.txt",
    "find . -name '*.rs' | xargs grep -l foo > list.txt",
    "git diff > /tmp/p.diff; git apply /tmp/p.diff",
    "git diff HEAD~1 > \"$OUT\"; cat \"$OUT\"",
    "git show HEAD:a.txt > a.old; diff a.txt a.old",
    "git show HEAD:build.sh > b.sh && sh b.sh",
    "git log --oneline -5 > l; cat l",
    "git log --format='%h %s' | head",
    "git commit -m 'x' && git log -1 > l",
    "git -c user.name=a -c user.email=b commit -m 'touch up'",
    "git -c core.hooksPath=/dev/null commit -m x",
    "git config user.name a && git status",
    "git config core.hooksPath .githooks && git status",
    "echo 'npx lint-staged' > .husky/pre-commit && git add .husky",
    "sed -i 's/a/b/' x && sed 's/a/b/' in > out.txt && git add out.txt && git commit -m x",
    "git stash && cargo test; git stash pop",
    "cp config.example config && git add config",
    "echo x > config; git add config",
    "cd app; echo x > config; git add config",
    "echo target >> .gitignore && git add .gitignore",
    "echo local >> .git/info/exclude && git status",
    "HOME=/tmp/h npm test; git status",
    "export PATH=\"$HOME/bin:$PATH\"; git status",
    "GIT_EDITOR=true git rebase --continue",
    "git subtree pull --prefix=a origin b",
    "git log --output=l -3; cat l",
    "gcc -o app main.c && ./app > out.txt",
    "exec 2>&1; cargo test; git status",
    "cp src/a.rs src/b.rs && cargo test",
    "npm --silent run build",
    "fd -e rs -x wc -l",
    "cat a b > c; ./run c",
    "docker build -t x . > build.log 2>&1 || tail build.log",
    "go test ./... 2>&1 | tee test.log | tail",
    "time make test > /dev/null",
    "echo done > out/done",
    "cat < out/x | head",
    "while read -r line; do echo \"$line\"; done < list.txt",
];

#[test]
fn ordinary_commands_are_allowed() {
    let bound = Permissions::new([Rule::new(Deny, ["/.env"])]).unwrap();
    for (rules, has_files) in [(denying(Permissions::default()), false), (denying(bound), true)] {
        let decided = ORDINARY.iter().map(|command| (command, rules.decide_command(command)));
        // With a rule for files, a file whose name is computed may be the one that the rule is about.
        let may_be_it = |command: &str| has_files && (command.contains("> \"$") || command.contains("< \"$"));
        let refused: Vec<_> = decided
            .filter(|(command, decision)| decision.mode != Allow && !may_be_it(command))
            .map(|(command, decision)| format!("{command:?}: {}", decision.reason))
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }
}

#[test]
fn files_that_the_shell_opens_are_judged_wherever_the_script_is() {
    let cases: &[(&str, AccessMode)] = &[
        ("cd src && echo x > ../secrets/a", Deny),
        ("cd src && cd .. && echo x > secrets/a", Deny),
        ("cd src && make && cargo test && echo x > ../secrets/a", Deny),
        ("cd secrets && echo x > a", Deny),
        ("cd secrets/deep && cat < ../a", Deny),
        ("cd -P -- secrets && echo x > a", Deny),
        ("cd ./src/../secrets && echo x > a", Deny),
        ("(cd secrets && echo x > a)", Deny),
        ("{ cd secrets && make; } > a", Allow),
        ("(cd secrets && make) > a; echo x > b", Allow),
        ("cd docs && echo x > a", Deny),
        ("cd docs && cat < a", Allow),
        ("cd src && echo x > secrets/a", Allow),
        ("cd out && echo x > a", Allow),
        ("F=secrets/a; echo x > $F", Deny),
        ("F=secrets/a\necho x > \"${F}\"", Deny),
        ("D=secrets && echo x > \"$D/a\"", Deny),
        ("D=out; echo x > $D/a", Allow),
        ("F=secrets/a; F=out/a; echo x > $F", Allow),
        ("sh -c 'cd secrets && echo x > a'", Deny),
        ("cd a | echo x > secrets/f", Deny),
        ("if true; then cd secrets && echo x > a; fi", Deny),
        ("f() { echo x > secrets/a; }; f", Deny),
        ("F=secrets/a; echo x > '$F'", Allow),
        ("F=secrets/a; printf x > \"$F\"", Deny),
        ("F=secrets/a; timeout 5 make; echo x > \"$F\"", Deny),
    ];
    for rules in [files(), denying(files())] {
        assert_eq!(differing(&rules, cases), Vec::<String>::new());
    }
    // What is unknown needs approval.
    let asked = [
        "echo x > /abs/workspace/secrets/a",
        "cat < /abs/workspace/secrets/a",
        "cd /abs/workspace && echo x > secrets/a",
        "echo x > ../workspace/secrets/a",
        "cd src; echo x > ../secrets/a",
        "cd src || exit; echo x > ../secrets/a",
        "cd secrets || cd ..; cd a; echo x > f",
        "cd a && cd b || echo x > ../secrets/f",
        "if cd secrets; false; then cd a; fi; echo x > f",
        "cd \"$D\" && echo x > a",
        "cd && echo x > a",
        "cd - && echo x > a",
        "cd a b; echo x > a",
        "pushd secrets; echo x > a",
        "CDPATH=secrets; cd x && echo x > a",
        "echo x > $F",
        "cat < \"$F\"",
        "echo x > ~/a",
        "echo x > $(echo secrets)/a",
        "echo x > se*ts/a",
        "for F in secrets/a; do echo x > $F; done",
        "read -r F < list; echo x > $F",
        "F=out/a; read -r F < list; echo x > $F",
        "F=out/a; false && F=secrets/a; echo x > $F",
        "f() { F=secrets/a; }; F=out/a; f; echo x > $F",
        "F=out/a; export F=secrets/a; echo x > $F",
        "F=out/a; . ./set; echo x > $F",
        "F=out/a; { F=secrets/a; }; echo x > $F",
        "F=out/a; unset F; echo x > $F",
        "while true; do cd secrets; echo x > a; done",
        "for d in 1 2; do echo x > a; cd secrets; done",
        "f() { echo x > a; }; cd secrets; f",
        "f() { cd secrets; }; f; echo x > a",
        "command cd secrets; echo x > a",
    ];
    let cases: Vec<_> = asked.iter().map(|command| (*command, Ask)).collect();
    assert_eq!(differing(&denying(files()), &cases), Vec::<String>::new());
    // Nothing that the rules are about ends like these.
    let free = ["make > /tmp/make.log", "cat < /etc/hosts", "cd /tmp && echo x > a", "cd ../x && make > log"];
    let cases: Vec<_> = free.iter().map(|command| (*command, Allow)).collect();
    assert_eq!(differing(&denying(files()), &cases), Vec::<String>::new());
    let reason = denying(files()).decide_command("echo x > $F").reason.to_string();
    assert_eq!(reason, "the rule `/secrets/**` may be about `…`, which the shell opens");
    // Without rules for commands, nobody is asked about one.
    let cases: Vec<_> = asked.iter().map(|command| (*command, Allow)).collect();
    assert_eq!(differing(&files(), &cases), Vec::<String>::new());
}

/// Parts of scripts that change the directory and write files.
const STEPS: [&str; 15] = [
    "cd a",
    "cd secrets",
    "cd ..",
    "cd ./a/../secrets",
    "cd \"$D\"",
    "cd missing",
    "echo x > f",
    "echo x > ../f",
    "F=f",
    "F=../secrets/f",
    "F=a/f",
    "echo x > $F",
    "echo x > secrets/f",
    "D=secrets",
    "unset F",
];
const BETWEEN: [&str; 6] = [" && ", " || ", "; ", "\n", " | ", " & wait; "];
const AROUND: [(&str, &str); 8] = [
    ("", ""),
    ("(", ")"),
    ("{ ", "; }"),
    ("f() { ", "; }; f"),
    ("for i in 1 2; do ", "; done"),
    ("if ", "; then echo x > f; fi"),
    ("echo $(", ")"),
    ("case x in x) ", ";; esac"),
];

/// Returns whether a script writes a file below `secrets`, when a shell runs it.
fn writes_a_secret(text: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    // Deep enough that no script leaves the directory.
    let root = dir.path().join("1/2/3/4/5/6/7/8/9");
    for name in ["a/a", "a/secrets", "secrets/a", "secrets/secrets"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let quiet = std::process::Stdio::null;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", text]).env_remove("F").env("D", ".").env_remove("CDPATH").current_dir(&root);
    shell.stdin(quiet()).stdout(quiet()).stderr(quiet()).status().unwrap();
    ["", "a", "secrets", "a/a"].iter().any(|name| root.join("secrets").join(name).join("f").exists())
}

fn script() -> impl Strategy<Value = String> {
    let step = prop::sample::select(&STEPS[..]).prop_map(str::to_owned);
    let some = prop::collection::vec((step, prop::sample::select(&BETWEEN[..])), 1..5);
    let joined = |parts: Vec<(String, &str)>| {
        let text: String = parts.iter().map(|(step, between)| format!("{step}{between}")).collect();
        parts.last().and_then(|(_, last)| text.strip_suffix(last)).unwrap_or_default().to_owned()
    };
    let block = (some.prop_map(joined), prop::sample::select(&AROUND[..]));
    let block = block.prop_map(|(text, (open, close))| format!("{open}{text}{close}"));
    let blocks = prop::collection::vec((block, prop::sample::select(&BETWEEN[..])), 1..4);
    blocks.prop_map(joined)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_way_through_directories_and_variables_leads_past_a_file_rule(text in script()) {
        let rules = denying(Permissions::new([Rule::new(Deny, ["/secrets/**"])]).unwrap());
        let mode = rules.decide_command(&text).mode;
        prop_assert!(mode != Allow || !writes_a_secret(&text), "{:?}", text);
    }
}

/// Parts of scripts that write files, name them otherwise and run them; `no` is the forbidden program.
const WRITES: [&str; 34] = [
    "echo no > s",
    "echo no | cat > s",
    "echo no | sort | tee s",
    "cat > s <<E\nno\nE",
    "printf 'no\\n' > s",
    "printf n > s",
    "printf 'n%s\\n' o > s",
    "echo o >> s",
    "echo -n n > s",
    "echo ono | cut -c2- > s",
    "echo on | rev > s",
    "echo ni | tr i o > s",
    "echo nix | sed s/ix/o/ > s",
    "printf '\\156o\\n' > s",
    "echo $x > s",
    "echo $x$y > s",
    "x=no",
    "x=n; y=o",
    "{ printf n; echo o; } > s",
    "exec 3> s; echo no >&3",
    "f=s; echo no > $f",
    "echo ok > s",
    "cat s > t",
    "cp s t",
    "mv s t",
    "ln s t",
    "chmod +x s",
    "sh s",
    "sh ./t",
    ". ./s",
    "./s",
    "env sh s",
    "cd .",
    "true",
];

/// Returns whether a shell that runs a script starts the forbidden program.
fn runs_the_forbidden(text: &str) -> bool {
    let (programs, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = programs.path().join("log");
    crate::executables::make(&programs.path().join("no"), format!("#!/bin/sh\necho no >> {}\n", log.display()));
    let quiet = std::process::Stdio::null;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", text]).env_clear().env("PATH", format!("{}:/usr/bin:/bin", programs.path().display()));
    shell.current_dir(work.path()).stdin(quiet()).stdout(quiet()).stderr(quiet()).status().unwrap();
    log.exists()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_file_that_a_script_writes_and_runs_hides_a_denied_command(
        parts in prop::collection::vec(prop::sample::select(&WRITES[..]), 1..7),
        run in prop::sample::select(vec!["sh s", "sh t", ". ./s", "chmod +x s; ./s", "true"]),
    ) {
        let text = format!("{}\n{run}", parts.join("\n"));
        let rules = Permissions::default().with_commands([CommandRule::new(Deny, ["no"])], Allow).unwrap();
        prop_assert!(rules.decide_command(&text).mode != Allow || !runs_the_forbidden(&text), "{:?}", text);
    }
}

#[test]
fn an_option_of_any_program_with_subcommands_hides_no_subcommand() {
    let rules = ["git push", "npm publish", "kubectl delete", "docker push", "podman push", "cargo publish", "gh pr"];
    let rules = Permissions::default().with_commands([CommandRule::new(Deny, rules)], Allow).unwrap();
    for command in [
        "git --shallow-file x push",
        "npm --tag x publish",
        "npm --silent publish",
        "kubectl --as x delete pod y",
        "kubectl --insecure-skip-tls-verify delete pod y",
        "docker --debug push x",
        "docker --tlskey k push x",
        "podman --runtime r push x",
        "cargo -Z x --config a=b publish",
        "gh -R a/b pr merge",
    ] {
        assert_eq!(rules.decide_command(command).mode, Deny, "{command}");
    }
    let free = ["npm --silent run build", "kubectl --as x get pods", "docker --debug ps", "git --no-pager log push"];
    let cases: Vec<_> = free.iter().map(|command| (*command, Allow)).collect();
    assert_eq!(differing(&rules, &cases), Vec::<String>::new());
}
