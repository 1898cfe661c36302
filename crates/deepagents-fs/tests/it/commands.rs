//! Command rules: what a command does counts, however it is written.

use deepagents_fs::permissions::AccessMode::{Allow, Ask, Deny};
use deepagents_fs::permissions::{
    AccessMode, CommandReason, CommandRule, CommandRuleError, OnAsk, Operation, PermissionedBackend, Permissions, Rule,
};
use deepagents_fs::shell::{Command, Confinement, LocalShell, ShellError, WithShell};
use deepagents_fs::{Backend, StateBackend};

fn rules(rules: &[(AccessMode, &[&str])], otherwise: AccessMode) -> Permissions {
    let rules = rules.iter().map(|(mode, commands)| CommandRule::new(*mode, commands.iter().copied()));
    Permissions::default().with_commands(rules, otherwise).unwrap()
}

fn check(rules: &Permissions, cases: &[(&str, AccessMode)]) {
    for (command, mode) in cases {
        let decision = rules.decide_command(command);
        assert_eq!(decision.mode, *mode, "{command:?}: {}", decision.reason);
    }
}

#[test]
fn each_simple_command_must_be_allowed_and_none_denied() {
    let rules = rules(&[(Deny, &["git push"]), (Allow, &["git *", "cargo *", "ls", "cd *"])], Ask);
    check(
        &rules,
        &[
            ("git status", Allow),
            ("git log --oneline | cargo fmt && ls; git diff", Allow),
            ("git status # git push", Allow),
            ("cargo test 2>&1 >/dev/null", Allow),
            ("ls", Allow),
            ("ls -l", Ask),
            ("make", Ask),
            ("git status; make", Ask),
            ("git push", Deny),
            ("make; git push origin main", Deny),
            ("git log push", Allow),
            ("git commit -m 'git push'", Allow),
            ("cd sub && cargo test", Allow),
            ("x=1; git log $x", Allow),
            ("PATH=/tmp:$PATH git log", Ask),
            ("/tmp/git log", Ask),
            ("./git log", Ask),
            ("for f in a b; do git add $f; done", Allow),
            ("if git diff; then cargo test; else ls; fi", Allow),
            ("cat <<EOF\ntext\nEOF", Ask),
            ("git apply <<'EOF'\n$(make)\nEOF", Allow),
            ("cargo test > out.txt", Ask),
            ("cargo test > /dev/null < /dev/null", Allow),
        ],
    );
}

#[test]
fn a_denied_command_is_found_however_it_is_written() {
    let rules = rules(&[(Deny, &["git push", "rm -rf *"])], Allow);
    for command in [
        "git push",
        "git push --force origin main",
        "g\\it pu\"s\"h",
        "\\g\\i\\t push",
        "\"gi\"t 'push'",
        "g\"\"i''t push",
        "git \\\n  push",
        "g\\\nit push",
        "git pu\\\nsh",
        "git\tpush",
        "/usr/bin/git push",
        "./../../usr/bin/git push",
        "GIT push",
        "git -C sub push",
        "git -c user.name=x --git-dir .git push",
        "git --no-pager push",
        "A=1 B=2 git push",
        "! git push",
        "time git push",
        "echo a; git push",
        "echo a | git push",
        "echo a || git push",
        "echo a & git push",
        "(git push)",
        "{ git push; }",
        "if true; then git push; fi",
        "while git push; do :; done",
        "until git push; do :; done",
        "for i in 1; do git push; done",
        "case x in x) git push;; esac",
        "case $(git push) in x) ;; esac",
        "f() { git push; }; f",
        "echo $(git push)",
        "echo \"$(git push)\"",
        "echo `git push`",
        "x=$(git push)",
        "x=1 y=$(git push) ls",
        "ls > $(git push)",
        "cat <(git push)",
        "env git push",
        "env -i A=1 git push",
        "env -u A -- git push",
        "sudo git push",
        "sudo -u me -E A=1 git push",
        "doas git push",
        "nice -n 5 git push",
        "nice git push",
        "timeout 5 git push",
        "timeout -k 1 --signal=KILL 5s git push",
        "nohup git push &",
        "command git push",
        "builtin command git push",
        "exec git push",
        "exec -a x git push",
        "stdbuf -oL git push",
        "setsid -w git push",
        "ionice -c 3 git push",
        "xargs git push < x",
        "echo x | xargs -n1 git push",
        "env nice timeout 5 git push",
        "busybox env git push",
        "sh -c 'git push'",
        "bash -lc 'git push'",
        "bash -eo pipefail -c 'git push'",
        "sh -c \"sh -c 'git push'\"",
        "sudo sh -c 'git push'",
        "eval git push",
        "eval 'git push'",
        "sh <<'EOF'\ngit push\nEOF",
        "find . -exec git push \\;",
        "find . -name x -exec sh -c 'git push' ';' -print",
        "trap 'git push' EXIT",
        "watch 'git push'",
        "echo $(echo $(echo `git push`))",
        "ls # \\\ngit push",
        "flock . git push",
        "flock -n lock -c 'git push'",
        "flock lock -nc'git push'",
        "chrt -o 0 git push",
        "prlimit --nofile=100 git push",
        "setarch -R env nice git push",
        "linux64 git push",
        "unshare -r -- git push",
        "guix shell git -- git push",
        "caffeinate -i git push",
        "distrobox enter box -- git push",
        "setpriv --no-new-privs git push",
        "chroot / git push",
        "nsenter -t 1 -m git push",
        "runuser root -c 'git push'",
        "script --command='git push' -q /dev/null",
        "ssh-agent git push",
        "strace -f sh -c 'git push'",
        "/lib64/ld-linux-x86-64.so.2 /bin/sh -c 'git push'",
        "uv run git push",
        "npm exec -- git push",
        "git submodule foreach 'git push'",
        "git rebase --exec='git push' x",
        "GIT_SSH_COMMAND='git push' ls",
        "env 'BASH_FUNC_ls%%=() { git push; }' bash -c ls",
        "PS4='$(git push)' bash -xc ls",
        ". /dev/stdin <<'EOF'\ngit push\nEOF",
        "sh +e -c 'git push'",
        "bash +x -c 'git push'",
        "bash -coo pipefail noglob 'git push'",
        "bash --norc -c 'git push'",
        "zsh -c 'git push'",
        "csh -c 'git push'",
        "su -c 'git push' me",
        "xargs --max-lines git push",
        "xargs --max-lines=1 git push",
        "PS4='$(git push)'; set -x; :",
        "bash -c \"PS4='\\$(git push)'; set -x; :\"",
        "BASH_ENV='$(git push)'; export BASH_ENV; bash -c :",
        "export GIT_SSH_COMMAND='git push'; git fetch",
        "export PAGER='git push' x=1; git log",
        "ld.so /usr/bin/git push",
        "/lib64/ld64.so.2 /usr/bin/git push",
        "/lib/ld-musl-x86_64.so.1 /usr/bin/git push",
        "/usr/lib/git-core/git-push origin",
        "git send-pack x",
        "git -C x send-pack y",
        "git -c core.sshCommand='git push' fetch",
        "git -c alias.p='!git push' p",
        "git rebase -x 'git push' x",
        "git fetch --upload-pack='git push' x",
        "fd -x git push",
        "split --filter='git push' x",
        "sort --compress-program 'git push' x",
        "pipesz git push",
        "tar cf x --checkpoint=1 --checkpoint-action=exec='git push' y",
        "env -C sub git push",
        "find . \"$x\" -exec git push \\;",
        "rm -rf x",
        "rm -fr x",
        "rm -r -f x",
        "rm -R x -f",
        "rm x -rf",
        "rm --recursive --force x",
        "rm --rec --for x",
        "rm -vrf x",
    ] {
        let decision = rules.decide_command(command);
        assert_eq!(decision.mode, Deny, "{command:?}: {}", decision.reason);
    }
}

#[test]
fn a_possibly_denied_command_needs_approval() {
    let rules = rules(&[(Deny, &["git push", "rm -rf *", "terraform apply"])], Allow);
    for command in [
        "$x push",
        "${x} push",
        "git $x",
        "git pu$x",
        "git \"$x\"",
        "git {push,origin}",
        "{git,push}",
        "git pus?",
        "$(echo git) push",
        "`echo git` push",
        "~/git push",
        "$'git' push",
        "$'\\x67it' push",
        "$\"git\" push",
        "eval \"$x\"",
        "sh -c \"$x\"",
        "echo git push | sh",
        "sh < script",
        "bash -s",
        "x='git push'; $x",
        "alias p='git push'\np",
        "git -c alias.p=push p",
        "env -S 'git push'",
        "xargs -I{} {} push",
        "rm $x",
        "rm *",
        "rm -$x y",
        "terraform -chdir x apply",
        "[[ a || b ]]",
        "((x))",
        "a &> git push",
        "echo ${x:-$(git push)}",
        "echo $((x))",
        "unset 'a[$(git push)]'",
        "test -v 'a[$(git push)]'",
        "printf -v 'a[$(git push)]' x",
        "let 'a[$(git push)]'",
        "a[$(git push)]=1",
        "cat <<EOF\n$(git push)\nEOF",
        "echo ${x@P}",
        "git push 'unclosed",
        "echo {a,$(git push)}",
        "echo x{a,{b,`git push`}}",
        "echo $\"$(git push)\"",
        "echo \"`echo \\`git push\\``\"",
        "echo `echo \\`git push\\``",
        "x=`echo \\$(git push)`",
        "cat <<'A\nB'\nA\nB\ngit push",
        "cat <<$'EOF'\nEOF\ngit push",
        "cat <<EOF\nEOF \ncat <<'X'\nEOF\ngit push\nX",
        "echo $(cat <<EOF\nEOF)\ngit push\nEOF\n)",
        "echo $'\\c'';git push;''",
        "bash /dev/fd/0 <<< 'git push'",
        "bash /proc/self/fd/0 < x",
        ". /dev/stdin < x",
        &format!("{}git push", "PS4='x' flock . ".repeat(100)),
        "flock . $x",
        "flock . -c \"$x\"",
        "at now <<EOF\ngit push\nEOF",
        "coproc git push",
        "time -f x git push",
        "sh <<'A' 3<<'B'\ngit push\nA\ntrue\nB",
        "sh <<'A' <x\ntrue\nA",
        "sh 3<<'A' <&3\ngit push\nA",
        "sh //dev/stdin <<'A'\ngit push\nA",
        "sh /dev/../dev//fd/0 <<'A'\ngit push\nA",
        ". /../dev/stdin <<'A'\ngit push\nA",
        ". ../../dev/stdin <<'A'\ngit push\nA",
        "cd /dev/fd; . ./3 3<<'A'\ngit push\nA",
        "bash --rcfile /dev/fd/3 -ic true 3<<'A'\ngit push\nA",
        "bash -rcfile /dev/fd/3 -ic true 3<<'A'\ngit push\nA",
        "bash --init-file /dev/fd/3 -ic true 3<<'A'\ngit push\nA",
        "BASH_ENV=/dev/fd/3 bash -c : 3<<'A'\ngit push\nA",
        "BASH_ENV=$x bash -c :",
        "export BASH_ENV=/dev/fd/3; bash -c : 3<<'A'\ngit push\nA",
        "PAGER=$x git log",
        "jobs -x git push",
        "jobs -lx git push",
        "compgen -C 'git push' x",
        "wait -p 'a[$(git push)]'",
        "find $x",
        "find . \"$x\" git push \\;",
        "bash --unknown x -c 'git push'",
        "zsh <<'A'\ngit push\nA",
        "fish -c 'and git push'",
        "echo git push | su",
        "bash ./dev/test.sh <<'A'\ngit push\nA",
    ] {
        let mode = rules.decide_command(command).mode;
        assert_ne!(mode, Allow, "{command:?}");
    }
    check(&rules, &[("rm x", Allow), ("rm -v x", Allow), ("git status", Allow), ("rm -- -rf", Allow)]);
    // Commands that only look dangerous are allowed.
    for command in [
        "flock . git status",
        "uv add git push",
        "echo {a,b}",
        "git commit -m \"`date` x\"",
        "git commit -m 'say \\`git push\\`'",
        "cat <<'EOF'\ntext \n  EOF x\nEOF",
        "perf stat -e cycles make",
        "MESSAGE='git push' ls",
        "bash dev/build.sh",
        "find \"$x\" -name y",
        "bash -euxo pipefail -c 'git status'",
        "zsh script.zsh",
        "git commit -c HEAD -m 'git push'",
        "git-lfs fetch",
        "wait $!",
        "export PATH=\"$PATH:/x\"",
        "PAGER=cat git log",
    ] {
        let decision = rules.decide_command(command);
        assert_eq!(decision.mode, Allow, "{command:?}: {}", decision.reason);
    }
}

#[test]
fn a_denied_command_is_found_in_options_however_they_are_spelled() {
    let rules = rules(&[(Deny, &["touch", "git push"])], Allow);
    for command in [
        "ssh -o ProxyCommand='touch x' h",
        "ssh -oProxyCommand='touch x' h",
        "ssh -vo 'ProxyCommand = exec touch x' h",
        "scp -oProxyCommand='touch x' a h:",
        "sftp -D 'touch x' h",
        "git clone -u 'touch x;' . y",
        "git clone -qu 'touch x;' . y",
        "git clone --config core.sshCommand='touch x;' ssh://a/b y",
        "git clone -qc core.sshCommand='touch x;' ssh://a/b y",
        "git ls-remote --upload-p='touch x;' .",
        "git fetch --upload 'touch x;' .",
        "git push --receive='touch x;' . HEAD",
        "git grep -O'touch x;' y HEAD -- f",
        "git grep -nO'touch x;' y",
        "git rebase --ex='touch x' HEAD",
        "git difftool -yx'touch x' HEAD",
        "git rebase -x 'A=1 git push' y",
        "tar -cI 'touch x' -f a f",
        "tar cIf 'touch x' a f",
        "tar --use-compress-prog='touch x' -cf a f",
        "tar -xf t --to-c='touch x'",
        "tar cf a f --checkpoint=1 --checkpoint-act=exec='touch x'",
        "split --filt='touch x' f",
        "split --filter='touch --reference=f x' f",
        "rsync -ae 'touch x' f h:b",
        "sort --compress-prog=touch f",
        "zip -T -TT 'touch x' z f",
        "eatmydata touch x",
        "sg root -c 'touch x'",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!touch x' git x",
        "for PS4 in '`touch x`'; do set -x; :; done",
        "find . -maxdepth 0 -exec flock + touch x \\;",
        "find . -exec git -C + push \\;",
        "find . -exec true {} + -exec touch x \\;",
    ] {
        let decision = rules.decide_command(command);
        assert_eq!(decision.mode, Deny, "{command:?}: {}", decision.reason);
    }
}

#[test]
fn commands_that_could_hide_a_denied_one_need_approval() {
    let rules = rules(&[(Deny, &["touch", "git push"])], Allow);
    for command in [
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.pp GIT_CONFIG_VALUE_0=push git pp",
        "GIT_CONFIG_PARAMETERS=\"'alias.x=!touch x'\" git x",
        "GIT_CONFIG_PARAMETERS=\"'alias.pp=push'\" git pp",
        "GIT_CONFIG_GLOBAL=./gc git pp",
        "export GIT_CONFIG_GLOBAL=./gc; git pp",
        "X='touch x;' git --config-env=core.fsmonitor=X status",
        "X=push git --config-env alias.pp=X pp",
        "git -c include.path=./gc pp",
        "git -c includeIf.onbranch:x.path=./gc pp",
        "git config alias.pp push; git pp",
        "git config -f gc alias.p '!touch x'",
        "git -c protocol.ext.allow=always ls-remote 'ext::touch x'",
        "TAR_OPTIONS=--to-command=./x tar xf t",
        "read -r PS4 <<'E'\n`touch x`\nE\nset -x; :",
        "read -ra PS4 <<'E'\n`touch x`\nE\nset -x; :",
        "getopts a: BASH_ENV",
        "declare -n x=PS4; x='`id`'; set -x; :",
        "ssh -o 'ProxyCommand touch x' h",
        "ssh -F /dev/stdin h <<<'ProxyCommand touch x'",
        "ln -s /dev/stdin in; sh in <<'E'\ntouch x\nE",
        "mkfifo ff; (echo touch x >ff &); sh ff",
        "{ echo touch x; } > s; sh s",
        "cat > s <<'E'\ntouch x\nE\nsh s",
        "ln -s /usr/bin/touch y; ./y x",
        "cp /usr/bin/git y; ./y push",
        "make -f /dev/stdin <<'E'\nall:\n\ttouch x\nE",
        "printf 'all:\\n\\ttouch x\\n' | make -f -",
        "echo '!touch x' | ed",
        "ed <<'E'\n!touch x\nE",
        "vi -es -c '!touch x' -c q",
        "sqlite3 :memory: '.shell touch x'",
        "sed -n '1e touch x' f",
        "sed 's/a/touch x/e' f",
        "sed '/[/]/e touch x' f",
        "awk 'BEGIN{system(\"touch x\")}'",
        "gdb -batch -ex 'shell touch x'",
        "gdb -batch -ex '!touch x'",
        "perl -e 'exec qw(touch x)'",
        "python3 -c 'import os; os.system(\"git push\")'",
        "python3 -c \"import os; os.system('touch $x')\"",
        "python3 - <<'E'\nimport subprocess\nsubprocess.run(['git', 'push'])\nE",
        "python3 \"$(echo 'touch x')\"",
        "{ python3; } <<'E'\ntouch x\nE",
        "X='touch x' ./run.sh",
        "export X='touch x'; ./run.sh",
        "echo() { python3 \"$1\"; }; echo 'touch x'",
        "git() { python3 \"$2\"; }; git log 'touch x'",
        "timeout() { python3 \"$2\"; }; timeout 1 'touch x'",
        "crontab - <<'E'\n* * * * * touch x\nE",
    ] {
        let decision = rules.decide_command(command);
        assert_ne!(decision.mode, Allow, "{command:?}");
    }
    // Text that is only displayed or stored is not a command.
    for command in [
        "git commit -m 'touch up'",
        "git commit -m \"$(cat <<'E'\nSay touch and git push\nE\n)\"",
        "gh pr create --title 'touch up' --body 'git push'",
        "git log --grep touch | head",
        "git grep -n touch | wc -l",
        "git branch touch",
        "grep -r touch src",
        "rg touch src | head -3",
        "echo touch",
        "echo touch >> notes.txt",
        "cat >> notes.txt <<'E'\ntouch\nE",
        "cat <<'E' > notes.txt && git add notes.txt\ngit push\nE",
        "find . -name touch -type f",
        "find . -name '*.rs' -exec grep touch {} +",
        "find . -exec grep -l touch {} \\;",
        "sed -i 's/touch/create/g; /git push/d' notes.txt",
        "sed -n '/touch/,$p' f | head",
        "awk '/touch/ {print $1}' f",
        "cat touch.rs src/touch/mod.rs",
        "which touch; type touch; command -v touch; man git",
        "cargo test touch",
        "docker rm touch",
        "./touch-screen --touch",
        "git clone ssh://git@github.com/push",
        "msg='touch up'; git commit -m \"$msg\"",
        "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git status",
        "git -c core.pager=cat log",
        "tar czf a.tgz src",
        "ssh -o StrictHostKeyChecking=no h uptime",
        "for f in touch; do cat $f; done",
        "while read -r line; do echo $line; done < f",
    ] {
        let decision = rules.decide_command(command);
        assert_eq!(decision.mode, Allow, "{command:?}: {}", decision.reason);
    }
    let reason = rules.decide_command("make x=touch").reason.to_string();
    assert_eq!(reason, "what the rule `touch` is about stands in what `make x=touch` is given, and may be run by it");
}

#[test]
fn a_hidden_commands_rule_weighs_by_its_position_among_the_rules() {
    let listed = rules(&[(Allow, &["./run *"]), (Deny, &["touch", "make"]), (Allow, &["just *"])], Deny);
    check(
        &listed,
        &[("./run touch", Allow), ("just touch", Ask), ("just x", Allow), ("make touch", Deny), ("ninja touch", Deny)],
    );
    // Rules that only allow need not care about hidden commands.
    let allowing = rules(&[(Allow, &["git *"])], Ask);
    check(&allowing, &[("git -c include.path=x status", Allow), ("git config alias.x '!touch y'", Allow)]);
}

#[test]
fn variables_set_by_other_means_need_a_rule_too() {
    let rules = rules(&[(Allow, &["git *", "cargo *", "read *", "getopts *", "echo *"])], Deny);
    check(
        &rules,
        &[
            ("for HOME in /ws/home; do git status; done", Deny),
            ("for PATH in ./evil; do cargo test; done", Deny),
            ("for PATH do cargo test; done", Deny),
            ("for PATH in; do cargo test; done", Allow),
            ("for path in a b; do cargo test; done", Allow),
            ("read PATH; cargo test", Deny),
            ("read -rp 'Name' -a PATH; cargo test", Deny),
            ("read -rp PATH x; cargo test", Allow),
            ("read -d PATH x y; cargo test", Allow),
            ("getopts ab PATH; cargo test", Deny),
            ("getopts ab x; cargo test", Allow),
        ],
    );
}

#[test]
fn many_here_documents_are_decided_quickly() {
    let rules = rules(&[(Deny, &["touch"])], Allow);
    let many: String = (0..3_000).map(|at| format!("cat <<E{at}\nx\nE{at}\n")).collect();
    check(&rules, &[(&many, Allow), (&format!("{many}touch x"), Deny)]);
    // Some shells take the last line for the delimiter, whether the other delimiter is longer or shorter.
    for ends in ["cat <<E\nx\nE\ncat <<E1\ny\nE1\ncat <<EF\nE )\nEF", "cat <<EE\nE)\nEE\ncat <<E\nx\nE"] {
        assert_eq!(rules.decide_command(ends).mode, Ask, "{ends:?}");
    }
}

#[test]
fn wrappers_are_transparent_unless_they_grant_rights() {
    let rules = rules(&[(Allow, &["cargo *", "RUST_LOG=* cargo *", "sudo apt-get *", "apt-get *"])], Ask);
    check(
        &rules,
        &[
            ("timeout 5 nice cargo test", Allow),
            ("sh -c 'cargo test'", Allow),
            ("env cargo test", Allow),
            ("RUST_LOG=debug cargo test", Allow),
            ("env RUST_LOG=debug cargo test", Allow),
            ("env LD_PRELOAD=x cargo test", Ask),
            ("sudo cargo test", Ask),
            ("sudo apt-get update", Allow),
            ("sh -c 'make'", Ask),
            ("timeout 5 make", Ask),
            ("xargs cargo test", Allow),
            ("/usr/bin/env cargo test", Allow),
            ("bash -lc 'cargo test'", Allow),
            ("bash --norc -euo pipefail -c 'cargo test'", Allow),
            ("/tmp/env cargo test", Ask),
            ("./timeout 5 cargo test", Ask),
            ("ENV cargo test", Ask),
            ("/tmp/bash -c 'cargo test'", Ask),
            ("env 'BASH_FUNC_cargo%%=() { make; }' bash -c 'cargo test'", Ask),
            ("BASH_ENV=./x bash -c 'cargo test'", Ask),
            ("env BASH_ENV=./x bash -c 'cargo test'", Ask),
            ("ENV=./x sh -ic 'cargo test'", Ask),
            ("HOME=. bash -ic 'cargo test'", Ask),
            ("PATH=. sh -c 'cargo test'", Ask),
            ("LD_PRELOAD=./x sh -c 'cargo test'", Ask),
            ("PATH=. watch cargo test", Ask),
            ("RUST_LOG=debug bash -c 'cargo test'", Ask),
            ("bash --rcfile ./x -ic 'cargo test'", Ask),
            ("bash -rcfile ./x -ic 'cargo test'", Ask),
            ("bash --init-file=x -c 'cargo test'", Ask),
            ("command time -o x cargo test", Ask),
            ("command time --out=x cargo test", Ask),
            ("command time -qox cargo test", Ask),
            ("env -C sub cargo test", Ask),
            ("env --chdir=sub cargo test", Ask),
        ],
    );
}

#[test]
fn files_opened_by_the_shell_are_checked_by_the_file_rules() {
    let files = Permissions::new([
        Rule::new(Deny, ["/secrets/**"]),
        Rule::new(Ask, ["/docs/**"]).only([Operation::Write]),
        Rule::new(Allow, ["/out/**"]),
    ]);
    let files = files.unwrap();
    let listed = files.clone().with_commands([CommandRule::new(Allow, ["echo *", "cat *", "cd *"])], Deny).unwrap();
    check(
        &listed,
        &[
            ("echo x > out/y", Allow),
            ("echo x > secrets/y", Deny),
            ("cat < secrets/y", Deny),
            ("cat < other", Allow),
            ("echo x > docs/y", Deny),
            ("cat < docs/y", Allow),
            ("echo x > other", Deny),
            ("echo x > $y", Deny),
            ("cd out; echo x > out/y", Allow),
            ("command cd src; echo x > out/y", Deny),
            ("command -p cd src && echo x > out/y", Deny),
            ("builtin cd \"$x\"; echo x > out/y", Deny),
            ("echo x >> ./out/../out/y", Deny),
            ("{ echo x; } > secrets/y", Deny),
            ("> secrets/y", Deny),
            ("echo x 2> secrets/y", Deny),
        ],
    );
    // Without command rules, only paths named in the command count; the sandbox enforces the rest.
    check(&files, &[("make > out/y", Allow), ("make > secrets/y", Deny), ("make > docs/y", Deny), ("$x", Allow)]);
}

#[test]
fn a_command_rule_that_can_never_match_is_rejected() {
    let refused = |rule: CommandRule| Permissions::default().with_commands([rule], Allow).unwrap_err().to_string();
    for pattern in ["", "  ", "a; b", "a | b", "a > b", "$x", "$(a)", "a\nb", "'a", "a\\", "X=1", "a && b"] {
        let error = refused(CommandRule::new(Deny, [pattern]));
        assert!(error.contains(&format!("`{pattern}`")), "{error}");
    }
    let none = Permissions::default().with_commands([CommandRule { commands: Vec::new(), mode: Deny }], Allow);
    assert_eq!(none.unwrap_err(), CommandRuleError::NoCommands);
}

#[test]
fn a_command_rule_can_be_read_from_json() {
    let rule: CommandRule = serde_json::from_str(r#"{"commands": ["git push *"], "mode": "deny"}"#).unwrap();
    assert_eq!(rule, CommandRule::new(Deny, ["git push *"]));
    assert!(serde_json::from_str::<CommandRule>(r#"{"commands": ["x"], "path": "/x"}"#).is_err());
}

#[test]
fn the_narrow_rule_of_a_command_covers_only_that_command() {
    for (command, pattern) in [
        ("cargo test", "cargo test"),
        ("git  commit -m 'it'\\''s \"x\"'", "git commit -m 'it'\\''s \"x\"'"),
        ("ls '*'", "ls '*'"),
        ("./run.sh 2>&1", "./run.sh"),
        ("echo '' a\\ b", "echo '' 'a b'"),
        ("npx jest --ci", "npx jest --ci"),
    ] {
        let rule = CommandRule::narrow_for(command).unwrap();
        assert_eq!(rule.commands, [pattern]);
        let rules = Permissions::default().with_commands([rule], Ask).unwrap();
        check(&rules, &[(command, Allow)]);
        check(&rules, &[(&format!("{command} more"), Ask), ("make", Ask)]);
    }
    let others = [
        "a; b",
        "a && b",
        "a | b",
        "a &\nb",
        "(a)",
        "$x",
        "a $x",
        "a *",
        "a $(b)",
        "sudo a",
        "sh -c a",
        "X=1 a",
        "a > x",
        "",
        "eval a",
        "f() { a; }",
        "! a",
        "x=1",
        "a {b,c}",
        "a ~",
    ];
    for command in others {
        assert_eq!(CommandRule::narrow_for(command), None, "{command}");
    }
}

#[test]
fn a_decision_names_the_deciding_rule() {
    let rules = rules(&[(Deny, &["git push"]), (Allow, &["git *"])], Ask);
    let reason = |command| rules.decide_command(command).reason.to_string();
    insta::assert_snapshot!(
        [
            "git log; git -C x push \"a b\"",
            "make all",
            "git $x",
            "$x y",
            "git log > out",
            "eval x",
            "git log",
        ].map(reason).join("\n"),
        @"
    the rule `git push` is about `git -C x push 'a b'`
    no rule is about `make all`
    the rule `git push` may be about `git …`, part of which is computed or ambiguous
    no rule is about `… y`
    the shell writes to `out`, and no rule is about that
    no rule is about `x`
    it is allowed by `git *`
    "
    );
    assert!(matches!(rules.decide_command("x").reason, CommandReason::NoRule { .. }));
}

#[tokio::test]
async fn a_shell_behind_rules_runs_only_what_they_allow() {
    let dir = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
    let under = |on_ask| {
        let inner = WithShell::new(StateBackend::new(), shell.clone());
        let rules = rules(&[(Deny, &["touch"]), (Allow, &["echo *"])], Ask);
        PermissionedBackend::new(std::sync::Arc::new(inner), rules, on_ask)
    };
    let run = async |backend: &PermissionedBackend, text: &str| {
        backend.shell().unwrap().run(Command::new(text), Default::default(), None).await
    };
    let alone = under(OnAsk::Refuse);
    assert_eq!(run(&alone, "echo hello").await.unwrap().output, "hello\n");
    let refused = run(&alone, "echo a; touch x").await.unwrap_err();
    assert_eq!(refused.to_string(), "the command is refused: the rule `touch` is about `touch x`");
    assert!(matches!(run(&alone, "true").await.unwrap_err(), ShellError::Denied { asks: true, .. }));
    let asked = under(OnAsk::Allow);
    assert!(run(&asked, "true").await.unwrap().exit.success());
    assert!(matches!(run(&asked, "touch x").await.unwrap_err(), ShellError::Denied { asks: false, .. }));
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn the_general_rule_of_a_command_is_its_program_unless_that_allows_too_much() {
    for (command, common) in [
        ("touch a.txt", "touch"),
        ("ls", "ls"),
        ("  rm -rf 'build dir'", "rm"),
        ("git status -s", "git status"),
        ("git commit -m 'a; b'", "git commit"),
        ("cargo test -p core -- --nocapture", "cargo test"),
        ("npm test", "npm test"),
        ("pytest -x tests", "pytest"),
        ("./build.sh --fast", "./build.sh"),
        ("grep -rn 'rm -rf' .", "grep"),
    ] {
        assert_eq!(CommandRule::program_of(command).as_deref(), Some(common), "{command}");
    }
    let open = [
        "busybox rm a",
        "setsid ls",
        "stdbuf -o0 ls",
        "builtin eval x",
        "command ls",
        "env ls",
        "X=1 ls",
        "sudo ls",
        "sed 1e",
        "sed -i 1ewhoami a",
        "awk 'BEGIN{system(\"id\")}'",
        "tar cf a.tar --checkpoint-action=exec=id .",
        "git -c alias.x='!id' x",
        "git x",
        "git --exec-path=. status",
        "git rebase -x id main",
        "git bisect run id",
        "git submodule foreach id",
        "git push",
        "git config alias.x '!id'",
        "vim -c '!id'",
        "csh a",
        "php -r x",
        "flock a id",
        "trap id EXIT",
        "chroot . id",
        "npx -c id",
        "npm exec id",
        "cargo --config a run",
        "docker run a id",
        "ssh -V",
        "ld64.so.1 --list",
        "strace --help",
        "script",
        "python3.12 a.py",
        "node a.js",
        "find . -delete",
        "fd -x id",
        "xargs id",
        "timeout 5 id",
        "bash a",
        "zsh a",
        "ssh a",
        "make",
        "man -P id a",
        "sort --compress-program=id a",
        "ls > a",
        "ls | sh",
        "ls; id",
        "ls $(id)",
        "ls $HOME",
        "ls &",
        "ls\nid",
        "\u{a0}ls",
        "export PATH=.",
        "rg --pre id a",
        "git grep -Oid a",
        "git log --ext-diff",
        "ls\u{a0}-l",
        "$x",
        "",
        "'l s'",
        "eval id",
        ". ./a",
        "source a",
        "exec id",
        "watch id",
        "parallel id",
        "gdb a",
        "script a",
        "kubectl exec a id",
        "uv run a",
        "uv pip install x",
        "poetry install",
        "yarn test",
        "su a",
        "time ls",
    ];
    let wrong: Vec<_> = open.iter().filter(|open| CommandRule::program_of(open).is_some()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
