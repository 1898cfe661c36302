use deepagents_fs::{PathError, VPath};
use proptest::prelude::*;

fn parsed(text: &str) -> String {
    VPath::parse(text).unwrap().as_str().to_owned()
}

#[test]
fn paths_are_made_absolute_and_normalised() {
    for (given, want) in [
        ("foo/bar", "/foo/bar"),
        ("/foo/bar", "/foo/bar"),
        ("/./foo//bar", "/foo/bar"),
        ("a\\b", "/a/b"),
        ("/a/", "/a"),
        ("//a", "/a"),
        ("///a", "/a"),
        ("", "/"),
        (".", "/"),
        ("./", "/"),
        ("/.", "/"),
        ("/", "/"),
        ("/a/%2e%2e/b", "/a/%2e%2e/b"),
        ("./~x", "/~x"),
        ("/~x", "/~x"),
        ("/C:/x", "/C:/x"),
        ("1:x", "/1:x"),
    ] {
        assert_eq!(parsed(given), want, "{given:?}");
    }
}

#[test]
fn odd_but_legal_names_are_kept() {
    for name in ["foo..bar", "...", "[...slug]", "..a", "a..", "with space ", "line\nbreak", "🦀.rs", ".env", "a:b/c"]
    {
        let path = format!("/dir/{name}");
        assert_eq!(parsed(&path), path);
    }
}

#[test]
fn traversal_home_drives_and_nul_are_refused_with_specific_errors() {
    for text in ["..", "../x", "/../etc", "x/../y", "a\\..\\b", "/a/.."] {
        assert_eq!(VPath::parse(text), Err(PathError::Traversal(text.to_owned())));
    }
    assert_eq!(VPath::parse("/../etc").unwrap_err().to_string(), "path traversal is not allowed: /../etc");
    assert_eq!(VPath::parse("../a\nb").unwrap_err().to_string(), r#"path traversal is not allowed: "../a\nb""#);
    assert!(matches!(VPath::parse("~/x"), Err(PathError::Home(_))));
    assert!(matches!(VPath::parse("~"), Err(PathError::Home(_))));
    assert!(matches!(VPath::parse("C:\\x"), Err(PathError::Drive(_))));
    assert!(matches!(VPath::parse("c:"), Err(PathError::Drive(_))));
    assert!(matches!(VPath::parse("/a\0b"), Err(PathError::Nul(_))));
}

#[test]
fn endless_paths_are_refused_but_stored_ones_can_be_read() {
    let (most, many) = ("a/".repeat(1024), "a/".repeat(1025));
    assert_eq!(VPath::parse(&most).unwrap().components().count(), 1024);
    let error = VPath::parse(&many).unwrap_err();
    assert_eq!(error, PathError::TooLong { bytes: 2049, names: 1025 });
    assert_eq!(error.to_string(), "a path can have at most 16384 bytes and 1024 names, this one has 2049 and 1025");
    let longest = VPath::parse(&"a".repeat(16 << 10)).unwrap();
    assert_eq!(VPath::parse(longest.as_str()), Ok(longest.clone()));
    assert!(matches!(VPath::parse(&"a".repeat((16 << 10) + 1)), Err(PathError::TooLong { .. })));
    let stored: VPath = serde_json::from_value(format!("/{}", many.trim_end_matches('/')).into()).unwrap();
    assert_eq!(stored.components().count(), 1025);
}

#[test]
fn path_relations_are_by_component() {
    let path = VPath::parse("/a/b/c.tar.GZ").unwrap();
    let a = VPath::parse("/a").unwrap();
    assert_eq!(path.name(), Some("c.tar.GZ"));
    assert_eq!(path.extension().as_deref(), Some("gz"));
    assert_eq!(path.parent(), Some(VPath::parse("/a/b").unwrap()));
    assert_eq!(a.parent(), Some(VPath::root()));
    assert_eq!(VPath::root().parent(), None);
    assert_eq!(path.ancestors().map(|p| p.to_string()).collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
    assert!(path.starts_with(&a) && a.starts_with(&a) && path.starts_with(&VPath::root()));
    assert!(!VPath::parse("/ab").unwrap().starts_with(&a));
    assert_eq!(path.strip_prefix(&a).unwrap().as_str(), "/b/c.tar.GZ");
    assert_eq!(a.strip_prefix(&a).unwrap(), VPath::root());
    assert_eq!(a.join("x/y").unwrap().as_str(), "/a/x/y");
    assert!(a.join("../x").is_err());
    assert_eq!(VPath::parse("/.env").unwrap().extension(), None);
}

proptest! {
    #[test]
    fn path_parsing_never_panics_and_is_idempotent(text in "(?s).{0,40}|[a.~:/\\\\\0]{0,12}") {
        if let Ok(path) = VPath::parse(&text) {
            prop_assert_eq!(&VPath::parse(path.as_str()).unwrap(), &path);
            prop_assert!(path.as_str().starts_with('/'));
            prop_assert!(path.components().all(|c| !c.is_empty() && c != "." && c != ".."));
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<VPath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn a_path_is_its_parent_joined_with_its_name(text in "(/[a-z.\\[\\]~:]{1,4}){1,5}") {
        if let Ok(path) = VPath::parse(&text) && let (Some(parent), Some(name)) = (path.parent(), path.name()) {
            prop_assert_eq!(VPath::parse(&format!("{parent}/{name}")).unwrap(), path.clone());
            prop_assert_eq!(path.strip_prefix(&parent).unwrap().under(&parent), path);
        }
    }
}

#[test]
fn a_listed_path_is_a_single_line_whatever_its_name() {
    let p = |text: &str| VPath::parse(text).unwrap();
    assert_eq!(p("/src/main é.rs").quoted().to_string(), "/src/main é.rs");
    for (path, shown) in [
        ("/a\n/etc/passwd", r#""/a\n/etc/passwd""#),
        ("/a\rb", r#""/a\rb""#),
        ("/a\u{1b}[2Kb", r#""/a\u{1b}[2Kb""#),
        ("/a\u{2028}b", r#""/a\u{2028}b""#),
        ("/a\u{202e}b", r#""/a\u{202e}b""#),
        ("/a\u{200f}b", r#""/a\u{200f}b""#),
        ("/a\u{61c}b", r#""/a\u{61c}b""#),
    ] {
        assert_eq!(p(path).quoted().to_string(), shown);
        let error = deepagents_fs::FsError::NotFound(p(path)).to_string();
        assert_eq!(error, format!("{shown} does not exist"));
    }
}
