//! What every backend must do, as one function over a fresh, empty backend.

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{Schema, State};
use deepagents_fs::edit::{self, Edit, EditError, Edited};
use deepagents_fs::lines::{LineRange, LineWindow};
use deepagents_fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Stopped};
use deepagents_fs::{Backend, ByteRange, FsError, Kind, VPath, Version, WriteMode};

/// A backend with the state it works on; every operation applies the update it returns.
pub(crate) struct Files {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) state: State,
}

pub(crate) fn p(text: &str) -> VPath {
    VPath::parse(text).unwrap()
}

impl Files {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        let state = State::new(Arc::new(Schema::new(backend.channels()).unwrap()));
        Self { backend, state }
    }

    pub(crate) async fn write_mode(
        &mut self,
        path: &str,
        data: impl Into<Bytes>,
        mode: WriteMode,
    ) -> Result<Version, FsError> {
        let written = self.backend.write(&self.state, &p(path), data.into(), mode).await?;
        self.state.apply(&written.update).unwrap();
        Ok(written.version)
    }

    pub(crate) async fn write(&mut self, path: &str, data: impl Into<Bytes>) -> Result<Version, FsError> {
        self.write_mode(path, data, WriteMode::Overwrite).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), FsError> {
        let update = self.backend.delete(&self.state, &p(path)).await?;
        self.state.apply(&update).unwrap();
        Ok(())
    }

    pub(crate) async fn edit(&mut self, path: &str, edits: &[Edit]) -> Result<Edited, EditError> {
        let edited = edit::edit(&*self.backend, &self.state, &p(path), edits, None).await?;
        self.state.apply(&edited.update).unwrap();
        Ok(edited)
    }

    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        Ok(self.backend.read(&self.state, &p(path), ByteRange::ALL).await?.bytes.to_vec())
    }

    pub(crate) async fn version(&self, path: &str) -> Version {
        self.backend.stat(&self.state, &p(path)).await.unwrap().version
    }

    pub(crate) async fn lines(&self, path: &str, offset: u64, limit: u64) -> Result<LineWindow, FsError> {
        self.backend.read_lines(&self.state, &p(path), LineRange::new(offset, limit)).await
    }

    pub(crate) async fn glob(&self, query: &GlobQuery) -> Result<GlobOutcome, FsError> {
        self.backend.glob(&self.state, query).await
    }

    pub(crate) async fn grep(&self, query: &GrepQuery) -> Result<GrepOutcome, FsError> {
        self.backend.grep(&self.state, query).await
    }

    /// The files that a pattern finds below a path.
    pub(crate) async fn found(&self, path: &str, pattern: &str) -> Vec<String> {
        let out = self.glob(&GlobQuery::new(pattern, p(path)).unwrap()).await.unwrap();
        assert_eq!((out.stopped, out.problems.count), (None, 0));
        out.files.iter().map(ToString::to_string).collect()
    }

    /// Matches as `path:number:text`, with `-` instead of `:` for lines around them.
    pub(crate) async fn lines_with(&self, query: &GrepQuery) -> Vec<String> {
        shown(&self.grep(query).await.unwrap())
    }

    /// Paths of a directory's children, directories with a slash at the end.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, FsError> {
        let listing = self.backend.list(&self.state, &p(path)).await?;
        let show = |e: &deepagents_fs::Entry| format!("{}{}", e.path, if e.kind == Kind::Directory { "/" } else { "" });
        Ok(listing.entries.iter().map(show).collect())
    }
}

/// Runs every case, each on an empty backend of its own.
pub(crate) async fn run(new: impl Fn() -> Arc<dyn Backend>) {
    let fresh = || Files::new(new());
    reads_what_was_written(fresh()).await;
    reads_parts(fresh()).await;
    pages_lines(fresh()).await;
    tells_what_is_missing(fresh()).await;
    a_path_is_a_file_or_a_directory(fresh()).await;
    the_root_is_fixed(fresh()).await;
    lists_direct_children_in_order(fresh()).await;
    deletes_trees_by_component(fresh()).await;
    writes_under_conditions(fresh()).await;
    edits(fresh()).await;
    keeps_odd_names(fresh()).await;
    finds_files_by_name(fresh()).await;
    finds_lines(fresh()).await;
    limits_searches(fresh()).await;
    searches_odd_content(fresh()).await;
    honours_gitignore_when_asked(fresh()).await;
}

async fn reads_what_was_written(mut files: Files) {
    for content in [&b""[..], b"one\ntwo", b"\r\n\r\n", b"\xff\x00binary\xfe", "🦀".as_bytes()] {
        let written = files.write("/dir/sub/file.txt", content.to_vec()).await.unwrap();
        assert_eq!(files.read("dir/sub/file.txt").await.unwrap(), content);
        let stat = files.backend.stat(&files.state, &p("/dir/sub/file.txt")).await.unwrap();
        assert_eq!((stat.kind, stat.size, &stat.version), (Kind::File, content.len() as u64, &written));
        assert!(stat.modified.is_some());
    }
}

async fn reads_parts(mut files: Files) {
    files.write("/f", "0123456789").await.unwrap();
    for (offset, length, want) in
        [(0, Some(3), "012"), (8, None, "89"), (8, Some(5), "89"), (10, None, ""), (99, Some(1), ""), (4, Some(0), "")]
    {
        let read = files.backend.read(&files.state, &p("/f"), ByteRange { offset, length }).await.unwrap();
        assert_eq!((&read.bytes[..], read.stat.size), (want.as_bytes(), 10));
    }
}

async fn pages_lines(mut files: Files) {
    files.write("/f", "one\r\ntwo\nthree\x0c\u{2028}\u{85}\rx\n").await.unwrap();
    let all = files.lines("/f", 0, 100).await.unwrap();
    assert_eq!(all.lines, ["one", "two", "three\x0c\u{2028}\u{85}\rx"]);
    assert_eq!((all.total, all.next), (Some(3), None));
    let middle = files.lines("/f", 1, 1).await.unwrap();
    assert_eq!((middle.lines, middle.total, middle.next), (vec!["two".to_owned()], Some(3), Some(2)));
    let past = files.lines("/f", 3, 5).await.unwrap();
    assert_eq!((past.lines.len(), past.total, past.next), (0, Some(3), None));
    files.write("/empty", "").await.unwrap();
    assert_eq!(files.lines("/empty", 0, 5).await.unwrap().total, Some(0));
}

async fn tells_what_is_missing(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    let missing = |path: &str| FsError::NotFound { path: p(path) };
    assert_eq!(files.read("/none").await.unwrap_err(), missing("/none"));
    assert_eq!(files.list("/none").await.unwrap_err(), missing("/none"));
    assert_eq!(files.delete("/none").await.unwrap_err(), missing("/none"));
    assert_eq!(files.delete("/no/ne").await.unwrap_err(), missing("/no/ne"));
    assert_eq!(files.backend.stat(&files.state, &p("/no/ne")).await.unwrap_err(), missing("/no/ne"));
    assert_eq!(files.read("/d").await.unwrap_err(), FsError::IsDirectory { path: p("/d") });
    assert_eq!(files.lines("/d", 0, 1).await.unwrap_err(), FsError::IsDirectory { path: p("/d") });
    assert!(matches!(files.list("/d/f").await.unwrap_err(), FsError::NotADirectory { .. }));
    assert!(matches!(files.read("/d/f/g").await.unwrap_err(), FsError::NotADirectory { .. }));
    assert!(matches!(files.delete("/d/f/g").await.unwrap_err(), FsError::NotADirectory { .. }));
}

async fn a_path_is_a_file_or_a_directory(mut files: Files) {
    files.write("/a", "x").await.unwrap();
    files.write("/d/f", "x").await.unwrap();
    assert_eq!(files.write("/a/b", "x").await.unwrap_err(), FsError::NotADirectory { path: p("/a") });
    assert_eq!(files.write("/a/b/c", "x").await.unwrap_err(), FsError::NotADirectory { path: p("/a") });
    assert_eq!(files.write("/d", "x").await.unwrap_err(), FsError::IsDirectory { path: p("/d") });
    assert_eq!(files.read("/a").await.unwrap(), b"x");
    assert_eq!(files.list("/").await.unwrap(), ["/a", "/d/"]);
}

async fn the_root_is_fixed(mut files: Files) {
    files.write("/a", "x").await.unwrap();
    assert_eq!(files.delete("/").await.unwrap_err(), FsError::Fixed { path: p("/") });
    assert_eq!(files.write("/", "x").await.unwrap_err(), FsError::IsDirectory { path: p("/") });
    assert_eq!(files.read("/").await.unwrap_err(), FsError::IsDirectory { path: p("/") });
    assert_eq!(files.backend.stat(&files.state, &p("/")).await.unwrap().kind, Kind::Directory);
    assert_eq!(files.list("/").await.unwrap(), ["/a"]);
}

async fn lists_direct_children_in_order(mut files: Files) {
    assert!(files.list("/").await.unwrap().is_empty());
    for path in ["/b/x", "/b/y/z", "/b-c", "/b.txt", "/a", "/.hidden", "/bb"] {
        files.write(path, "12345").await.unwrap();
    }
    assert_eq!(files.list("/").await.unwrap(), ["/.hidden", "/a", "/b/", "/b-c", "/b.txt", "/bb"]);
    assert_eq!(files.list("/b").await.unwrap(), ["/b/x", "/b/y/"]);
    let listing = files.backend.list(&files.state, &p("/b")).await.unwrap();
    assert_eq!(listing.entries.iter().map(|e| (e.size, e.link)).collect::<Vec<_>>(), [(5, false), (0, false)]);
    assert_eq!(listing.unnameable, 0);
}

async fn deletes_trees_by_component(mut files: Files) {
    for path in ["/a/b/c", "/a/b/d/e", "/a-b", "/ab", "/a/x"] {
        files.write(path, "x").await.unwrap();
    }
    files.delete("/a/b").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a/", "/a-b", "/ab"]);
    assert_eq!(files.list("/a").await.unwrap(), ["/a/x"]);
    files.delete("/a").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a-b", "/ab"]);
    files.delete("/ab").await.unwrap();
    files.write("/a", "now a file").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a", "/a-b"]);
}

async fn writes_under_conditions(mut files: Files) {
    let first = files.write_mode("/f", "1", WriteMode::Create).await.unwrap();
    let taken = files.write_mode("/f", "2", WriteMode::Create).await.unwrap_err();
    assert_eq!(taken, FsError::AlreadyExists { path: p("/f") });
    let second = files.write_mode("/f", "2", WriteMode::IfVersion(first.clone())).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(files.version("/f").await, second);
    let late = files.write_mode("/f", "3", WriteMode::IfVersion(first.clone())).await.unwrap_err();
    assert_eq!(late, FsError::Changed { path: p("/f") });
    assert_eq!(files.read("/f").await.unwrap(), b"2");
    files.delete("/f").await.unwrap();
    let gone = files.write_mode("/f", "3", WriteMode::IfVersion(second)).await.unwrap_err();
    assert_eq!(gone, FsError::Changed { path: p("/f") });
    assert!(files.list("/").await.unwrap().is_empty());
}

async fn edits(mut files: Files) {
    files.write("/f", "\u{feff}one\r\ntwo\r\ntwo\r\n").await.unwrap();
    let edited = files.edit("/f", &[Edit::new("one\ntwo", "1\n2\n2.5")]).await.unwrap();
    assert_eq!(files.read("/f").await.unwrap(), "\u{feff}1\r\n2\r\n2.5\r\ntwo\r\n".as_bytes());
    assert_eq!((edited.replaced, edited.version), (vec![1], files.version("/f").await));
    let failed = files.edit("/f", &[Edit::new("two", "3"), Edit::new("nowhere", "")]).await.unwrap_err();
    assert!(matches!(failed, EditError::NotFound { index: 1, .. }), "{failed}");
    assert!(files.read("/f").await.unwrap().ends_with(b"two\r\n"));
    let stale = Version::new("stale");
    let late = edit::edit(&*files.backend, &files.state, &p("/f"), &[Edit::new("1", "2")], Some(&stale)).await;
    assert_eq!(late.unwrap_err(), EditError::Fs(FsError::Changed { path: p("/f") }));
    assert!(matches!(files.edit("/none", &[Edit::new("a", "b")]).await, Err(EditError::Fs(FsError::NotFound { .. }))));
}

async fn keeps_odd_names(mut files: Files) {
    let names =
        ["foo..bar", "...", "[...slug]", "a b ", "new\nline", "🦀", ".env", "~x", "C:", "*", "-rf", "a:b", "%2e%2e"];
    for name in names {
        files.write(&format!("/odd/{name}"), name).await.unwrap();
    }
    for name in names {
        assert_eq!(files.read(&format!("/odd/{name}")).await.unwrap(), name.as_bytes());
    }
    let mut want: Vec<String> = names.iter().map(|name| format!("/odd/{name}")).collect();
    want.sort();
    assert_eq!(files.list("/odd").await.unwrap(), want);
}

pub(crate) fn shown(out: &GrepOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &out.files {
        for line in &file.lines {
            let mark = if line.matched { ':' } else { '-' };
            lines.push(format!("{}{mark}{}{mark}{}", file.path, line.number, line.text));
        }
    }
    lines
}

async fn finds_files_by_name(mut files: Files) {
    for path in ["/a.py", "/s/a.py", "/s/b.rs", "/s/t/a.py", "/s-x/a.py", "/.hid/a.py", "/s/.env", "/s/.d/x.py", "/z"] {
        files.write(path, "").await.unwrap();
    }
    assert_eq!(files.found("/", "*.py").await, ["/a.py", "/s-x/a.py", "/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/s", "*.py").await, ["/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/", "/*.py").await, ["/a.py"]);
    assert_eq!(files.found("/", "s/**/*.py").await, ["/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/s", "/s/*.py").await, ["/s/a.py"], "the path may be repeated in the pattern");
    assert_eq!(files.found("/s", "t/*").await, ["/s/t/a.py"]);
    assert_eq!(files.found("/", "**").await, ["/a.py", "/s-x/a.py", "/s/a.py", "/s/b.rs", "/s/t/a.py", "/z"]);
    assert_eq!(files.found("/", "{a.py,*.rs}").await.len(), 5);
    assert_eq!(files.found("/", ".env").await, ["/s/.env"]);
    assert_eq!(files.found("/", ".hid/*.py").await, ["/.hid/a.py"]);
    assert_eq!(files.found("/.hid", "*.py").await, ["/.hid/a.py"]);
    assert_eq!(files.found("/", "s").await, Vec::<String>::new(), "directories are not found");
    assert_eq!(files.found("/s/a.py", "*.py").await, ["/s/a.py"]);
    assert_eq!(files.found("/s/a.py", "*.rs").await, Vec::<String>::new());
    let none = files.glob(&GlobQuery::new("*", p("/none")).unwrap()).await.unwrap_err();
    assert_eq!(none, FsError::NotFound { path: p("/none") });
    for bad in ["", "../x", "{1..2000}", "{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}"] {
        assert!(matches!(GlobQuery::new(bad, p("/")), Err(FsError::Pattern { .. })), "{bad}");
    }
}

async fn finds_lines(mut files: Files) {
    files.write("/a.txt", "one\nTwo 2.0\nthree\nfour\n").await.unwrap();
    files.write("/d/b.txt", "two\r\none\r\n").await.unwrap();
    files.write("/d/c.rs", "one").await.unwrap();
    files.write("/.hid/x", "one").await.unwrap();
    let one = GrepQuery::new("one", p("/"));
    assert_eq!(files.lines_with(&one).await, ["/a.txt:1:one", "/d/b.txt:2:one", "/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&GrepQuery::new("one", p("/d/c.rs"))).await, ["/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&GrepQuery::new("one", p("/.hid"))).await, ["/.hid/x:1:one"]);
    let only = |glob: &str| one.clone().only(glob).unwrap();
    assert_eq!(files.lines_with(&only("*.txt")).await, ["/a.txt:1:one", "/d/b.txt:2:one"]);
    assert_eq!(files.lines_with(&only("d/*")).await, ["/d/b.txt:2:one", "/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&only(".hid/*")).await, ["/.hid/x:1:one"]);
    assert_eq!(files.lines_with(&GrepQuery::new("2.0", p("/"))).await, ["/a.txt:2:Two 2.0"]);
    assert_eq!(files.lines_with(&GrepQuery::new("o.0", p("/"))).await, Vec::<String>::new(), "text is literal");
    let regex = |pattern: &str| GrepQuery { regex: true, ..GrepQuery::new(pattern, p("/")) };
    assert_eq!(
        files.lines_with(&regex("^(one|f.*)$")).await,
        ["/a.txt:1:one", "/a.txt:4:four", "/d/b.txt:2:one", "/d/c.rs:1:one",]
    );
    let fold = GrepQuery { ignore_case: true, ..GrepQuery::new("TWO", p("/")) };
    assert_eq!(files.lines_with(&fold).await, ["/a.txt:2:Two 2.0", "/d/b.txt:1:two"]);
    let around = GrepQuery { context: 1, ..GrepQuery::new("three", p("/")) };
    assert_eq!(files.lines_with(&around).await, ["/a.txt-2-Two 2.0", "/a.txt:3:three", "/a.txt-4-four"]);
    assert_eq!(files.lines_with(&GrepQuery::new("one\r\n", p("/d"))).await.len(), 2);
    assert!(matches!(files.grep(&regex("(")).await, Err(FsError::Pattern { .. })));
    assert!(matches!(files.grep(&GrepQuery::new("a\nb", p("/"))).await, Err(FsError::Pattern { .. })));
    assert!(matches!(files.grep(&GrepQuery::new("one", p("/none"))).await, Err(FsError::NotFound { .. })));
}

async fn limits_searches(mut files: Files) {
    for file in 0..50 {
        files.write(&format!("/d{}/f{file:02}", file % 3), "hit\nmiss\nhit\n").await.unwrap();
    }
    let all = shown(&files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap());
    assert_eq!(all.len(), 100);
    for max in [0, 1, 2, 3, 99, 100, 101] {
        let out = files.grep(&GrepQuery { max_count: Some(max), ..GrepQuery::new("hit", p("/")) }).await.unwrap();
        assert_eq!(shown(&out), all[..max.min(100)], "{max}");
        assert_eq!((out.matches, out.stopped), (max.min(100), (max < 100).then_some(Stopped::Limit)), "{max}");
    }
    let first = files.grep(&GrepQuery { max_per_file: Some(1), ..GrepQuery::new("hit", p("/")) }).await.unwrap();
    assert_eq!((first.matches, first.files.len(), first.stopped), (50, 50, None));
    let names = files.found("/", "*").await;
    for max in [0, 1, 49, 50, 51] {
        let out =
            files.glob(&GlobQuery { max_files: Some(max), ..GlobQuery::new("*", p("/")).unwrap() }).await.unwrap();
        let found: Vec<String> = out.files.iter().map(ToString::to_string).collect();
        assert_eq!(found, names[..max.min(50)]);
        assert_eq!(out.stopped, (max < 50).then_some(Stopped::Limit));
    }
    // What may not be seen takes nothing from the limit.
    let mut hidden = GrepQuery { max_count: Some(4), ..GrepQuery::new("hit", p("/")) };
    hidden.scope.visible = Some(Arc::new(|path| path.as_str().starts_with("/d2")));
    let out = files.grep(&hidden).await.unwrap();
    assert!(out.matches == 4 && out.files.iter().all(|file| file.path.as_str().starts_with("/d2")));
    let mut over = GrepQuery::new("hit", p("/"));
    over.scope.deadline = Some(std::time::Duration::ZERO);
    let out = files.grep(&over).await.unwrap();
    assert_eq!((out.matches, out.stopped), (0, Some(Stopped::Deadline)));
    let over = GlobQuery { scope: over.scope, ..GlobQuery::new("*", p("/")).unwrap() };
    assert_eq!(files.glob(&over).await.unwrap().stopped, Some(Stopped::Deadline));
}

async fn searches_odd_content(mut files: Files) {
    files.write("/bad", &b"x\n\xff needle \xfe\n"[..]).await.unwrap();
    files.write("/bin", &b"needle\n\0"[..]).await.unwrap();
    files.write("/bom", "\u{feff}needle\r\n").await.unwrap();
    files.write("/cr", "a\rneedle\rb\x0c\n").await.unwrap();
    files.write("/long", format!("{}needle{}\n", "é".repeat(5000), "z".repeat(9000))).await.unwrap();
    let mut large = "filler line\n".repeat(200_000);
    large.push_str("needle at the end");
    files.write("/large", large).await.unwrap();
    files.write("/empty", "").await.unwrap();
    let out = files.grep(&GrepQuery::new("needle", p("/"))).await.unwrap();
    assert_eq!((out.binary, out.problems.count), (1, 0));
    let found: Vec<_> = out.files.iter().map(|f| (f.path.as_str(), f.lines[0].number)).collect();
    assert_eq!(found, [("/bad", 2), ("/bom", 1), ("/cr", 1), ("/large", 200_001), ("/long", 1)]);
    assert_eq!(out.files[0].lines[0].text, "\u{fffd} needle \u{fffd}");
    assert_eq!(out.files[1].lines[0].text, "needle");
    let long = &out.files[4].lines[0];
    assert!(long.clipped && long.text.len() <= 4096 && long.text.contains("éneedlez"));
}

async fn honours_gitignore_when_asked(mut files: Files) {
    files.write("/.gitignore", "*.log\n/target\n!keep.log\n").await.unwrap();
    files.write("/sub/.gitignore", "!deep.log\nown/\n").await.unwrap();
    for path in ["/a.log", "/keep.log", "/target/x", "/sub/target/y", "/sub/deep.log", "/sub/own/z", "/sub/b.log"] {
        files.write(path, "hit").await.unwrap();
    }
    assert_eq!(files.found("/", "*").await.len(), 7, "by default nothing is ignored");
    let mut query = GlobQuery::new("*", p("/")).unwrap();
    query.scope.respect_gitignore = true;
    let kept: Vec<_> = files.glob(&query).await.unwrap().files.iter().map(ToString::to_string).collect();
    assert_eq!(kept, ["/keep.log", "/sub/deep.log", "/sub/target/y"]);
    let mut below = GlobQuery::new("*", p("/sub")).unwrap();
    below.scope.respect_gitignore = true;
    let below: Vec<_> = files.glob(&below).await.unwrap().files.iter().map(ToString::to_string).collect();
    assert_eq!(below, ["/sub/deep.log", "/sub/target/y"], "rules from above hold below");
    let grep = GrepQuery { scope: query.scope, ..GrepQuery::new("hit", p("/")) };
    assert_eq!(files.grep(&grep).await.unwrap().files.len(), 3);
}
