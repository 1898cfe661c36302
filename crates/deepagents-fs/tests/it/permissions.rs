use std::sync::Arc;

use deepagents_fs::edit::{Edit, EditError};
use deepagents_fs::permissions::{AccessMode, OnAsk, Operation, PermissionedBackend, Permissions, Rule};
use deepagents_fs::search::{GrepQuery, Truncation};
use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
use deepagents_fs::{Backend, CompositeBackend, DeniedReason, FsError, LocalBackend, StateBackend};
use proptest::prelude::*;

use crate::suite::{Files, p, shown};

fn rules(rules: impl IntoIterator<Item = Rule>) -> Permissions {
    Permissions::new(rules).unwrap()
}

fn deny(paths: &[&str]) -> Permissions {
    rules([Rule::new(AccessMode::Deny, paths.iter().copied())])
}

fn may_read(permissions: &Permissions, path: &str) -> bool {
    permissions.decide(Operation::Read, &p(path)).mode == AccessMode::Allow
}

#[test]
fn rules_cover_what_people_expect() {
    for (pattern, path, covered) in [
        ("/secrets/**", "/secrets/key", true),
        ("/secrets/**", "/secrets/.env", true),
        ("/secrets/**", "/secrets/.ssh/id", true),
        ("/secrets/**", "/secrets", true),
        ("/secrets/**", "/secrets-not", false),
        ("/secrets", "/secrets/deep/key", true),
        ("/secrets/", "/secrets/key", true),
        ("/**", "/.env", true),
        ("/**", "/", true),
        ("/**/.env", "/a/b/.env", true),
        ("/**/*.pem", "/a/.hidden/x.pem", true),
        ("/*.log", "/x.log", true),
        ("/*.log", "/d/x.log", false),
        ("/{a,b}/**", "/b/c", true),
        ("/w/*", "/w/app/child", true),
        ("/w/[!.]*", "/w/.env", false),
    ] {
        assert_eq!(!may_read(&deny(&[pattern]), path), covered, "{pattern} on {path}");
    }
}

#[test]
fn the_first_matching_rule_decides() {
    let workspace = rules([Rule::new(AccessMode::Allow, ["/ws/**"]), Rule::new(AccessMode::Deny, ["/**"])]);
    assert!(may_read(&workspace, "/ws") && may_read(&workspace, "/ws/.git/config"));
    assert!(!may_read(&workspace, "/") && !may_read(&workspace, "/etc"));
    let reading = rules([Rule::new(AccessMode::Deny, ["/x"]).only([Operation::Write])]);
    assert!(may_read(&reading, "/x"));
    assert_eq!(reading.decide(Operation::Write, &p("/x")).pattern, Some("/x"));
    // An allow pattern covers only its match; a deny pattern also covers everything below.
    let one = rules([Rule::new(AccessMode::Allow, ["/d"]), Rule::new(AccessMode::Deny, ["/**"])]);
    assert!(may_read(&one, "/d") && !may_read(&one, "/d/below"));
}

#[test]
fn rules_are_parsed_from_json_and_validated() {
    let json = r#"[{"operations": ["read", "write"], "paths": ["/a/**"], "mode": "interrupt"},
                   {"operations": ["read"], "paths": ["/b"]}]"#;
    let parsed: Vec<Rule> = serde_json::from_str(json).unwrap();
    assert_eq!((parsed[0].mode, parsed[1].mode), (AccessMode::Ask, AccessMode::Allow));
    for bad in ["relative", "/a/../b", "", "/{1..5000}", "/{nothing,../x}"] {
        assert!(Permissions::new([Rule::new(AccessMode::Deny, [bad])]).is_err(), "{bad}");
    }
}

#[test]
fn deleting_a_tree_considers_everything_that_may_lie_below() {
    for (pattern, target, denied) in [
        ("/project/*", "/project/app/child", true),
        ("/project/*/secrets", "/project/app", true),
        ("/project/secrets/**", "/project", true),
        ("/workshop/**", "/project", false),
        ("/**/secrets", "/anything", true),
        ("/project/*.log", "/other", false),
        ("/project/a/b/c", "/project/a", true),
        ("/project/a/b/c", "/project/x", false),
    ] {
        let mode = deny(&[pattern]).decide_tree(Operation::Write, &p(target)).mode;
        assert_eq!(mode == AccessMode::Deny, denied, "{pattern} on {target}");
    }
    // An earlier allow rule does not help, because files are not checked one by one.
    let both = rules([Rule::new(AccessMode::Allow, ["/project/**"]), Rule::new(AccessMode::Deny, ["/project/keep"])]);
    assert_eq!(both.decide_tree(Operation::Write, &p("/project")).mode, AccessMode::Deny);
    let ask = rules([Rule::new(AccessMode::Ask, ["/project/keep"])]);
    assert_eq!(ask.decide_tree(Operation::Write, &p("/project")).mode, AccessMode::Ask);
    assert_eq!(ask.decide_tree(Operation::Read, &p("/project")).mode, AccessMode::Ask);
    assert_eq!(deny(&["/project/keep"]).decide_tree(Operation::Read, &p("/project")).mode, AccessMode::Allow);
}

/// Five files on disk, two of them secret, with links to the secrets.
fn guarded(permissions: Permissions) -> (Files, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a/secret")).unwrap();
    for path in ["a/secret/.env", "a/secret/key", "a/open", "b", "log.txt"] {
        std::fs::write(dir.path().join(path), "hit\n").unwrap();
    }
    std::os::unix::fs::symlink("a/secret/key", dir.path().join("keylink")).unwrap();
    std::os::unix::fs::symlink("a/secret", dir.path().join("dirlink")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("alink")).unwrap();
    let inner = Arc::new(LocalBackend::open(dir.path()).unwrap());
    (Files::new(Arc::new(PermissionedBackend::new(inner, permissions, OnAsk::Refuse))), dir)
}

#[tokio::test]
async fn a_denial_says_whether_a_link_or_a_protected_content_is_the_reason() {
    let (mut files, _dir) = guarded(deny(&["/a/secret/**"]));
    let text = files.delete("/a").await.unwrap_err().to_string();
    assert_eq!(text, "permission denied for write on /a: the rule `/a/secret/**` protects what it may contain");
    let text = files.write("/keylink", "x").await.unwrap_err().to_string();
    assert_eq!(text, "permission denied for write on /keylink: a link on it leads to a place that a rule protects");
    let text = files.read("/a/secret/key").await.unwrap_err().to_string();
    assert_eq!(text, "permission denied for read on /a/secret/key");
}

#[tokio::test]
async fn a_denied_path_is_denied_to_every_operation() {
    let (mut files, _dir) = guarded(deny(&["/a/secret/**"]));
    for path in ["/a/secret/.env", "/a/secret/key", "/keylink", "/dirlink/key", "/alink/secret/key", "/dirlink/none"] {
        let reason = if path.starts_with("/a/") { DeniedReason::Path } else { DeniedReason::Target };
        let rule = || "/a/secret/**".to_owned();
        let denied = |operation| FsError::Denied { path: p(path), operation, rule: rule(), reason };
        assert_eq!(files.read(path).await.unwrap_err(), denied("read"), "{path}");
        assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), denied("read"), "{path}");
        assert_eq!(files.backend.stat(&files.state, &p(path)).await.unwrap_err(), denied("read"), "{path}");
        assert_eq!(files.backend.resolve(&files.state, &p(path)).await.unwrap_err(), denied("read"), "{path}");
        assert_eq!(files.write(path, "x").await.unwrap_err(), denied("write"), "{path}");
        let edited = files.edit(path, &[Edit::new("hit", "x")]).await.unwrap_err();
        assert_eq!(edited, EditError::Fs(denied("write")), "{path}");
    }
    for path in ["/a/secret", "/dirlink", "/alink/secret"] {
        assert!(matches!(files.list(path).await, Err(FsError::Denied { .. })), "{path}");
        let search = files.grep(&GrepQuery::new("hit", p(path))).await;
        assert!(matches!(search, Err(FsError::Denied { .. })), "{path}");
    }
    for path in ["/a", "/a/secret", "/a/secret/key", "/dirlink/key", "/alink/secret"] {
        assert!(matches!(files.delete(path).await, Err(FsError::Denied { .. })), "{path}");
    }
    assert_eq!(files.read("/alink/open").await.unwrap(), b"hit\n");
    files.delete("/keylink").await.unwrap();
    files.delete("/alink").await.unwrap();
    files.write("/a/open", "x").await.unwrap();
    assert_eq!(
        files.read("/a/secret/key").await.unwrap_err().to_string(),
        "permission denied for read on /a/secret/key"
    );
}

#[tokio::test]
async fn denied_files_are_neither_listed_nor_found_nor_counted_against_limits() {
    let (files, _dir) = guarded(deny(&["/a/secret/**"]));
    assert_eq!(files.list("/").await.unwrap(), ["/a/", "/alink/", "/b", "/log.txt"]);
    assert_eq!(files.list("/a").await.unwrap(), ["/a/open"]);
    assert_eq!(files.list("/alink").await.unwrap(), ["/alink/open"]);
    assert_eq!(files.found("/", "**/*").await, ["/a/open", "/b", "/log.txt"]);
    assert_eq!(files.found("/alink", "**").await, ["/alink/open"]);
    assert_eq!(files.found("/", "**/.env").await, Vec::<String>::new());
    let capped = GrepQuery { max_count: Some(3), ..GrepQuery::new("hit", p("/")) };
    let out = files.grep(&capped).await.unwrap();
    assert_eq!((shown(&out).len(), out.truncation, out.binary), (3, None, 0));
    let out = files.grep(&GrepQuery { max_count: Some(2), ..capped }).await.unwrap();
    assert_eq!((out.matches, out.truncation), (2, Some(Truncation::Limit)));
}

#[tokio::test]
async fn a_writable_but_unreadable_file_can_be_edited_and_is_not_quoted() {
    let (mut files, _dir) = guarded(rules([Rule::new(AccessMode::Deny, ["/a/secret/**"]).only([Operation::Read])]));
    for old in ["hits", "  hit"] {
        let miss = files.edit("/a/secret/key", &[Edit::new(old, "x")]).await.unwrap_err();
        assert_eq!(miss, EditError::NotFound { path: p("/a/secret/key"), index: 0, nearest: Vec::new() });
    }
    let shown = files.edit("/b", &[Edit::new("hits", "x")]).await.unwrap_err();
    assert!(matches!(shown, EditError::NotFound { nearest, .. } if !nearest.is_empty()));
    files.edit("/a/secret/key", &[Edit::new("hit", "x")]).await.unwrap();
    assert!(matches!(files.read("/a/secret/key").await, Err(FsError::Denied { .. })));
    let mut read_only = guarded(rules([Rule::new(AccessMode::Deny, ["/b"]).only([Operation::Write])])).0;
    assert!(matches!(read_only.edit("/b", &[Edit::new("hit", "x")]).await, Err(EditError::Fs(FsError::Denied { .. }))));
}

#[tokio::test]
async fn a_workspace_search_finds_readable_files_even_if_the_root_is_unreadable() {
    let (files, _dir) =
        guarded(rules([Rule::new(AccessMode::Allow, ["/a/open", "/b"]), Rule::new(AccessMode::Deny, ["/**"])]));
    assert_eq!(shown(&files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap()), ["/a/open:1:hit", "/b:1:hit"]);
    assert!(matches!(files.grep(&GrepQuery::new("hit", p("/a"))).await, Err(FsError::Denied { .. })));
    assert!(matches!(files.list("/").await, Err(FsError::Denied { .. })));
}

#[tokio::test]
async fn a_shell_is_available_if_commands_cannot_reach_what_the_rules_cover() {
    let dir = tempfile::tempdir().unwrap();
    let disk = || Arc::new(LocalBackend::open(dir.path()).unwrap());
    let shell = || LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
    let state = || Arc::new(StateBackend::new());
    let routes = |backend: Arc<dyn Backend>| {
        CompositeBackend::new(backend)
            .route(p("/kept"), state())
            .route(p("/kept/disk"), disk())
            .route(p("/disk"), disk())
    };
    let (on_disk, in_state) = (|| routes(Arc::new(WithShell::new(disk(), shell()))), WithShell::new(state(), shell()));
    for (pattern, reached) in [
        ("/kept/notes/**", false),
        ("/kept/{a,b}*", true),
        ("/kept/**", true),
        ("/kept/disk/x", true),
        ("/disk/**", true),
        ("/src/**", true),
        ("/*/x", true),
        ("/{kept/notes,src}/x", true),
    ] {
        let guarded = PermissionedBackend::new(Arc::new(on_disk()), deny(&[pattern]), OnAsk::Refuse);
        assert_eq!(guarded.shell().is_none(), reached, "{pattern}");
    }
    assert!(PermissionedBackend::new(Arc::new(in_state), deny(&["/**"]), OnAsk::Refuse).shell().is_some());
}

#[tokio::test]
async fn deleting_a_file_needs_its_own_rule_and_deleting_a_tree_needs_all() {
    let (mut files, _dir) = guarded(deny(&["/**/*.txt"]));
    assert!(matches!(files.delete("/log.txt").await, Err(FsError::Denied { .. })));
    assert!(matches!(files.delete("/a").await, Err(FsError::Denied { .. })));
    files.delete("/b").await.unwrap();
    files.delete("/a/open").await.unwrap();
    files.delete("/dirlink").await.unwrap();
}

#[tokio::test]
async fn calls_that_need_approval_are_refused_when_nobody_can_be_asked() {
    let ask = || rules([Rule::new(AccessMode::Ask, ["/b"]).only([Operation::Write])]);
    let (mut files, dir) = guarded(ask());
    assert!(matches!(files.write("/b", "x").await, Err(FsError::Denied { .. })));
    assert_eq!(files.read("/b").await.unwrap(), b"hit\n");
    let inner = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let mut files = Files::new(Arc::new(PermissionedBackend::new(inner, ask(), OnAsk::Allow)));
    files.write("/b", "x").await.unwrap();
}

#[tokio::test]
async fn a_link_to_a_parent_directory_hides_no_tree_from_the_rules() {
    let made = |mode, on_ask| {
        let (_, dir) = guarded(rules([]));
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("docs/self")).unwrap();
        std::os::unix::fs::symlink("../a", dir.path().join("docs/a")).unwrap();
        let inner = Arc::new(LocalBackend::open(dir.path()).unwrap());
        let permissions = rules([Rule::new(mode, ["/a/secret/**"])]);
        (Files::new(Arc::new(PermissionedBackend::new(inner, permissions, on_ask))), dir)
    };
    // Nobody was asked about `/docs/self`, a link through which all of it can be read.
    let (mut files, dir) = made(AccessMode::Ask, OnAsk::Allow);
    for path in ["/docs/self", "/docs/a", "/docs/self/a", "/docs/self/docs/a"] {
        let (rule, reason) = (|| "/a/secret/**".to_owned(), DeniedReason::Target);
        let denied = |operation| FsError::Denied { path: p(path), operation, rule: rule(), reason };
        assert_eq!(files.list(path).await.unwrap_err(), denied("read"), "{path}");
        assert_eq!(files.grep(&GrepQuery::new("hit", p(path))).await.unwrap_err(), denied("read"), "{path}");
        let names = deepagents_fs::search::GlobQuery::new("**", p(path)).unwrap();
        assert_eq!(files.glob(&names).await.unwrap_err(), denied("read"), "{path}");
    }
    for path in ["/docs/self/a", "/docs/self/a/secret", "/docs/self/docs/a/secret"] {
        assert!(matches!(files.delete(path).await, Err(FsError::Denied { .. })), "{path}");
    }
    assert!(dir.path().join("a/secret/key").exists());
    // For the real path the person was asked; elsewhere there is nothing to ask about.
    assert_eq!(files.list("/a").await.unwrap(), ["/a/open", "/a/secret/"]);
    files.delete("/docs/self/b").await.unwrap();

    let (mut files, dir) = made(AccessMode::Deny, OnAsk::Refuse);
    for path in ["/docs/self", "/docs/a", "/docs/self/a"] {
        let found = shown(&files.grep(&GrepQuery::new("hit", p(path))).await.unwrap());
        assert!(found.iter().all(|line| !line.contains("secret")) && !found.is_empty(), "{found:?}");
        assert!(files.found(path, "**").await.iter().all(|file| !file.contains("secret")));
    }
    for path in ["/docs/self/a", "/docs/self/docs/a/secret"] {
        assert!(matches!(files.delete(path).await, Err(FsError::Denied { .. })), "{path}");
    }
    assert!(dir.path().join("a/secret/key").exists());
}

#[test]
fn a_file_rule_that_can_never_match_is_an_error() {
    let refused = |rule: Rule| Permissions::new([rule]).unwrap_err().to_string();
    for pattern in
        ["/{.,../x}", "/a\\/b", "/x/[\\\\]y", "/{a,\\.\\.}", "/[.]", "/a/[.][.]/b", "/*\\\\x", "/~/x", "/{a,~}"]
    {
        assert!(Permissions::new([Rule::new(AccessMode::Deny, [pattern])]).is_err(), "{pattern}");
    }
    // An alternative for a directory covers everything below it, even next to an alternative that does not exist.
    let secrets = deny(&["/{nothing,secrets/}"]);
    assert!(!may_read(&secrets, "/secrets/key") && !may_read(&secrets, "/secrets") && !may_read(&secrets, "/nothing"));
    assert!(may_read(&secrets, "/other"));
    assert!(refused(Rule::new(AccessMode::Deny, Vec::<String>::new())).contains("names no paths"));
    let home = refused(Rule::new(AccessMode::Deny, ["/~/secrets/**"]));
    assert!(home.contains("`~` does not stand for a home directory"), "{home}");
    let idle = refused(Rule::new(AccessMode::Deny, ["/x"]).only([]));
    assert!(idle.contains("/x") && idle.contains("names no operations"), "{idle}");
    for fine in ["/", "/*", "/[!/]x", "/.[!.]*", "/a//b/", "/{a,b/**}", "/[[:alpha:]]", "/.?", "/~x", "/[~]/x"] {
        assert!(Permissions::new([Rule::new(AccessMode::Deny, [fine])]).is_ok(), "{fine}");
    }
}

#[tokio::test]
async fn the_root_cannot_be_deleted_behind_rules() {
    let mut files =
        Files::new(Arc::new(PermissionedBackend::new(Arc::new(StateBackend::new()), deny(&["/x"]), OnAsk::Refuse)));
    files.write("/y", "").await.unwrap();
    assert_eq!(files.delete("/").await.unwrap_err(), FsError::Fixed(p("/")));
}

proptest! {
    #[test]
    fn a_denied_tree_denies_everything_in_it(
        base in "(/[a-z.]{1,3}[a-z]){1,3}", below in "(/[a-z.*]{1,3}[a-z]){0,3}",
    ) {
        let permissions = deny(&[&format!("{base}/**")]);
        let path = p(&format!("{base}{below}"));
        prop_assert_eq!(permissions.decide(Operation::Read, &path).mode, AccessMode::Deny);
        for above in path.ancestors() {
            prop_assert_eq!(permissions.decide_tree(Operation::Write, &above).mode, AccessMode::Deny);
        }
    }
}
