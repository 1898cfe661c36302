//! Deterministic test files.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A word that few files of the tree contain.
pub(super) const RARE: &str = "zyzzyva";
/// One file in this many contains the rare word.
pub(super) const RARE_EVERY: usize = 25_000;
/// One file in this many is a `.rs` file.
pub(super) const RS_EVERY: usize = 5;

const EXTENSIONS: [&str; RS_EVERY] = ["rs", "md", "toml", "txt", "json"];
const WORDS: [&str; 16] = [
    "let", "value", "match", "result", "agent", "return", "struct", "stream", "model", "error", "state", "fn", "path",
    "line", "tool", "self",
];
const FILES_PER_DIRECTORY: usize = 20;

/// A deterministic pseudo-random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }

    fn line(&mut self) -> String {
        let words: Vec<&str> =
            (0..4 + self.below(10)).filter_map(|_| WORDS.get(self.below(WORDS.len())).copied()).collect();
        format!("{}\n", words.join(" "))
    }
}

/// Creates a tree of the given number of files, three directories deep and with up to 60 lines each, unless it exists.
pub(super) fn tree(scratch: &Path, files: usize) -> Result<PathBuf> {
    let tree = scratch.join(format!("tree-{files}"));
    if tree.is_dir() {
        return Ok(tree);
    }
    // Built under another name until it is complete.
    let partial = scratch.join(format!("tree-{files}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    let mut numbers = Numbers(1);
    let lines: Vec<String> = (0..4000).map(|_| numbers.line()).collect();
    let mut directory = partial.clone();
    for n in 0..files {
        if n % FILES_PER_DIRECTORY == 0 {
            let at = n / FILES_PER_DIRECTORY;
            directory = partial.join(format!("crate{}/part{}/src{at}", at / 200, at / 10 % 20));
            fs::create_dir_all(&directory)?;
        }
        let from = numbers.below(lines.len() - 60);
        let mut text = lines.iter().skip(from).take(1 + numbers.below(60)).map(String::as_str).collect::<String>();
        if n % RARE_EVERY == RARE_EVERY / 2 {
            text.push_str(&format!("// the {RARE} of {n}\n"));
        }
        let extension = EXTENSIONS.get(n % RS_EVERY).copied().unwrap_or("txt");
        fs::write(directory.join(format!("file{n}.{extension}")), text)?;
    }
    fs::rename(&partial, &tree)?;
    Ok(tree)
}

/// Returns the number of files in a tree that contain the rare word.
pub(super) fn rare(files: usize) -> usize {
    (0..files).filter(|n| n % RARE_EVERY == RARE_EVERY / 2).count()
}

/// Writes a text of at least the given size. Each line contains its number, from 1. Returns the number of lines.
pub(super) fn text(path: &Path, bytes: u64) -> Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).context("the text cannot be made")?);
    let (mut written, mut lines) = (0, 0);
    while written < bytes {
        lines += 1;
        let line = format!("line {lines:010} {FILLER}\n");
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    out.flush()?;
    Ok(lines)
}

/// Fills lines to about 100 bytes.
const FILLER: &str = "of a file that is much larger than what a model reads of it, page after page, in no hurry";
