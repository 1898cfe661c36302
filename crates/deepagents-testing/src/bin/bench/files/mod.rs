//! Searching, reading and editing on disk, compared with `rg` and `find`.

mod tree;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deepagents::State;
use deepagents::fs::edit::{Edit, edit};
use deepagents::fs::lines::LineRange;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::search::{GlobQuery, GrepQuery};
use deepagents::fs::{Backend, LocalBackend, VPath};
use serde_json::{Map, Value, json};

use crate::bars::Bars;
use crate::{Bench, timed, usage};

/// Number of runs per measurement, of which the median counts. One more run comes first as a warm-up.
const RUNS: usize = 7;
const EDITED: u64 = 16_000_000;

struct Options {
    files: usize,
    /// Size of the text to read.
    megabytes: u64,
    scratch: PathBuf,
}

impl Options {
    fn from_args(args: &[String]) -> Result<Self> {
        let mut options = Self { files: 100_000, megabytes: 1024, scratch: PathBuf::from("target/bench-files") };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let value = args.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--files" => options.files = value.parse().context("--files is a number")?,
                "--megabytes" => options.megabytes = value.parse().context("--megabytes is a number")?,
                "--dir" => options.scratch = PathBuf::from(value),
                other => bail!("there is no option `{other}`"),
            }
        }
        Ok(options)
    }
}

/// Figures in milliseconds and megabytes, and their limits.
#[derive(Default)]
struct Figures {
    out: Map<String, Value>,
    bars: Bars,
}

impl Figures {
    /// Records a figure, or that its tool is missing.
    fn put(&mut self, name: &str, figure: Option<f64>) -> Option<f64> {
        self.out.insert(name.to_owned(), figure.map_or(json!("skipped"), |figure| json!(figure)));
        figure
    }

    fn at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.put(name, figure);
        self.bars.at_most(name, figure, limit);
    }

    /// Like `at_most`, for a time.
    fn takes_at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.put(name, figure);
        self.bars.takes_at_most(name, figure, limit);
    }
}

impl Bench {
    /// `files [--files N] [--megabytes N] [--dir DIR]`: the test files stay in the directory, except for the large
    /// texts.
    pub(crate) async fn files(&self) -> Result<Map<String, Value>> {
        let options = Options::from_args(&self.args)?;
        fs::create_dir_all(&options.scratch)?;
        let tree = tree::tree(&options.scratch, options.files)?;
        let texts = tempfile::tempdir_in(&options.scratch)?;
        let (started, cpu) = (Instant::now(), usage::cpu());
        let mut figures = Figures::default();
        windows(texts.path(), options.megabytes, &mut figures).await?;
        edits(texts.path(), &mut figures).await?;
        drop(texts);
        grep(&tree, options.files, &mut figures).await?;
        glob(&tree, options.files, &mut figures).await?;
        filter(&mut figures)?;
        let mut out = timed(started.elapsed(), usage::cpu().saturating_sub(cpu));
        out.extend(figures.out);
        out.insert("bars".to_owned(), figures.bars.into_value());
        Ok(out)
    }
}

/// Reads pages of a text of the given size.
async fn windows(directory: &Path, megabytes: u64, figures: &mut Figures) -> Result<()> {
    let path = directory.join("large.txt");
    let lines = tree::text(&path, megabytes << 20)?;
    let files = LocalBackend::open(directory)?;
    let (state, name) = (State::default(), VPath::parse("/large.txt")?);
    for (what, offset, count) in [("lines_100_to_200", 99, 101), ("last_lines", lines - 100, 100)] {
        let range = LineRange::new(offset, count);
        let (mut times, mut scans, mut memory) = (Vec::new(), Vec::new(), 0.0_f64);
        for _ in 0..=RUNS {
            let held = forget_peak();
            let started = Instant::now();
            let window = files.read_lines(&state, &name, range).await?;
            times.push(started.elapsed());
            memory = memory.max(usage::peak_mb() - held);
            let first = window.lines.first().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            ensure!(first == Some(offset + 1) && window.lines.len() as u64 == count, "other lines were read");
            if what == "last_lines" {
                scans.push(scan(&path, lines)?);
            }
        }
        let ms = median(times);
        figures.put(&format!("{what}_ms"), Some(ms));
        figures.at_most(&format!("{what}_mb"), Some(memory), 5.0);
        if scans.is_empty() {
            figures.bars.takes_at_most(&format!("{what}_ms"), Some(ms), 5.0);
        } else {
            let scan = median(scans);
            figures.put("scan_ms", Some(scan));
            figures.takes_at_most("last_lines_to_scan", Some(ms / scan), 1.2);
        }
    }
    Ok(())
}

/// Returns the time to read a file once and count its lines.
fn scan(path: &Path, lines: u64) -> Result<Duration> {
    let started = Instant::now();
    let mut file = File::open(path)?;
    let (mut chunk, mut count) = (vec![0; 64 << 10], 0);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        // Counting in bytes lets the compiler generate the fastest scan.
        let counts = chunk.get(..read).unwrap_or_default().chunks(usize::from(u8::MAX)).map(newlines);
        count += counts.map(u64::from).sum::<u64>();
    }
    ensure!(count == lines, "the text has {count} lines instead of {lines}");
    Ok(started.elapsed())
}

/// Counts the newlines in at most 255 bytes.
fn newlines(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |count, byte| count.wrapping_add(u8::from(*byte == b'\n')))
}

/// Makes an edit in the middle of a 16 MB text, and undoes it.
async fn edits(directory: &Path, figures: &mut Figures) -> Result<()> {
    let lines = tree::text(&directory.join("edited.txt"), EDITED)?;
    let files = LocalBackend::open(directory)?;
    let (state, name) = (State::default(), VPath::parse("/edited.txt")?);
    let (here, there) = (format!("line {:010}", lines / 2), format!("LINE {:010}", lines / 2));
    let mut times = Vec::new();
    for run in 0..=RUNS {
        let change = if run % 2 == 0 { Edit::new(&here, &there) } else { Edit::new(&there, &here) };
        let started = Instant::now();
        let edited = edit(&files, &state, &name, &[change], None).await?;
        times.push(started.elapsed());
        ensure!(edited.replaced == [1], "the edit was not made");
    }
    figures.takes_at_most("edit_16_mb_ms", Some(median(times)), 50.0);
    Ok(())
}

/// Searches for a word that few files contain.
async fn grep(tree: &Path, count: usize, figures: &mut Figures) -> Result<()> {
    let files = LocalBackend::open(tree)?;
    let (state, query) = (State::default(), GrepQuery::new(tree::RARE, VPath::root()));
    let expected = tree::rare(count);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // The programs alternate, so that other load affects both.
    for _ in 0..=RUNS {
        let started = Instant::now();
        let found = files.grep(&state, &query).await?;
        ours.push(started.elapsed());
        ensure!(found.truncation.is_none() && found.files.len() == expected, "{} files found", found.files.len());
        theirs.extend(tool(tree, "rg", &["--no-ignore", "-nF", tree::RARE, "."], expected)?);
    }
    let ours = median(ours);
    figures.put("grep_ms", Some(ours));
    let rg = figures.put("grep_rg_ms", some_median(theirs));
    figures.takes_at_most("grep_to_rg", rg.map(|rg| ours / rg), 1.3);
    Ok(())
}

/// Finds files by name.
async fn glob(tree: &Path, count: usize, figures: &mut Figures) -> Result<()> {
    let files = LocalBackend::open(tree)?;
    let (state, query) = (State::default(), GlobQuery::new("**/*.rs", VPath::root())?);
    let expected = count.div_ceil(tree::RS_EVERY);
    let (mut ours, mut by_rg, mut by_find) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=RUNS {
        let started = Instant::now();
        let found = files.glob(&state, &query).await?;
        ours.push(started.elapsed());
        ensure!(found.truncation.is_none() && found.files.len() == expected, "{} files found", found.files.len());
        by_rg.extend(tool(tree, "rg", &["--no-ignore", "--files", "-g", "*.rs", "."], expected)?);
        by_find.extend(tool(tree, "find", &[".", "-type", "f", "-name", "*.rs"], expected)?);
    }
    let ours = median(ours);
    figures.put("glob_ms", Some(ours));
    let rg = figures.put("glob_rg_ms", some_median(by_rg));
    figures.put("glob_find_ms", some_median(by_find));
    figures.takes_at_most("glob_to_rg", rg.map(|rg| ours / rg), 2.0);
    Ok(())
}

/// Checks paths against rules of which none matches, so that every rule is evaluated.
fn filter(figures: &mut Figures) -> Result<()> {
    let patterns = [
        "/secrets/**",
        "/**/.env",
        "/etc/*/private/**",
        "/home/{a,b}/**/x?",
        "/var/log/*.log",
        "/**/node_modules/**/*.map",
        "/**/[!a-z]*.pem",
        "/a/**/b/**/c",
        "/tmp/*",
        "/w/[a-c]*/**",
    ];
    let rules = Permissions::new(patterns.map(|pattern| Rule::new(AccessMode::Deny, [pattern])))?;
    let paths = (0..20_000).map(|n| VPath::parse(&format!("/src/module{}/sub{}/file{n}.rs", n % 100, n % 7)));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::new();
    for _ in 0..=RUNS {
        // This measures pure computation, so CPU time excludes other load.
        let before = usage::cpu();
        let allowed = paths.iter().filter(|path| rules.decide(Operation::Read, path).mode == AccessMode::Allow).count();
        times.push(usage::cpu().saturating_sub(before));
        ensure!(allowed == paths.len(), "{allowed} paths were allowed");
    }
    figures.takes_at_most("filter_20000_ms", Some(median(times)), 50.0);
    Ok(())
}

/// Returns the time a program takes in a directory to print the given number of lines, or `None` if it is not
/// installed.
fn tool(directory: &Path, program: &str, args: &[&str], lines: usize) -> Result<Option<Duration>> {
    let started = Instant::now();
    let out = Command::new(program).args(args).current_dir(directory).stdin(Stdio::null()).output();
    let elapsed = started.elapsed();
    let out = match out {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        out => out.with_context(|| format!("`{program}` cannot be run"))?,
    };
    let count = out.stdout.iter().filter(|byte| **byte == b'\n').count();
    ensure!(count == lines, "`{program}` printed {count} lines instead of {lines}");
    Ok(Some(elapsed))
}

/// Resets the peak memory and returns the current memory in MB. If the kernel does not permit the reset, the older peak
/// remains, and figures based on it are too high rather than too low.
fn forget_peak() -> f64 {
    let _ = fs::write("/proc/self/clear_refs", "5");
    usage::resident_bytes() as f64 / 1e6
}

fn some_median(times: Vec<Duration>) -> Option<f64> {
    (!times.is_empty()).then(|| median(times))
}

/// Returns the median in milliseconds, without the first run, which is the warm-up.
fn median(times: Vec<Duration>) -> f64 {
    let mut times: Vec<Duration> = times.into_iter().skip(1).collect();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |middle| middle.as_secs_f64() * 1000.0)
}
