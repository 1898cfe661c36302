//! Names that are easily mistaken for something else.

use super::Files;

const ODD: [&str; 18] = [
    "foo..bar",
    "...",
    "..a",
    "[...slug]",
    "a b ",
    " ",
    "new\nline",
    "tab\t",
    "🦀",
    ".env",
    "~x",
    "C:",
    "*",
    "-rf",
    "a:b",
    "%2e%2e",
    "e\u{301}",
    "\u{202e}rtl",
];

/// They can be read, listed and found.
pub async fn odd_names_are_names_like_others(mut files: Files) {
    for name in ODD {
        files.write(&format!("/odd/{name}"), name).await.unwrap();
        files.write(&format!("/in/{name}/file"), name).await.unwrap();
    }
    for name in ODD {
        assert_eq!(files.read(&format!("/odd/{name}")).await.unwrap(), name.as_bytes());
        assert_eq!(files.list(&format!("/in/{name}")).await.unwrap(), [format!("/in/{name}/file")]);
    }
    let mut want: Vec<String> = ODD.iter().map(|name| format!("/odd/{name}")).collect();
    want.sort();
    assert_eq!(files.list("/odd").await.unwrap(), want);
    want.retain(|path| !path.starts_with("/odd/."));
    assert_eq!(files.found("/odd", "*").await, want);
    assert_eq!(files.found("/odd", "\\[...slug\\]").await, ["/odd/[...slug]"]);
}

/// A name may have 255 bytes, in any script.
pub async fn the_longest_names_are_kept(mut files: Files) {
    for name in ["n".repeat(255), "é".repeat(127)] {
        let path = format!("/{name}");
        files.write(&path, "x").await.unwrap();
        assert_eq!(files.read(&path).await.unwrap(), b"x");
    }
    assert_eq!(files.list("/").await.unwrap().len(), 2);
}
