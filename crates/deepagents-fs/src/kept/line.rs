//! The rows of one thread in one directory: what was changed, in order.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use super::store::write_aside;
use super::{FileVersion, Store, hash_of};
use crate::VPath;

/// Names the rows of a thread in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineId {
    pub(crate) line: String,
    pub(crate) thread: String,
    pub(crate) root: String,
}

/// What a copied thread has of the threads it was copied from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    /// The last one last.
    pub(crate) threads: Vec<String>,
    /// The number of the last change that it has.
    pub(crate) until: u64,
}

/// Who made a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// The agent.
    #[default]
    Agent,
    /// Going back to a checkpoint.
    Rewind,
    /// Somebody else; it was found when a rewind replaced it.
    Other,
}

/// A change to be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewStep {
    pub(crate) path: VPath,
    pub(crate) before: FileVersion,
    pub(crate) after: FileVersion,
    #[serde(default, skip_serializing_if = "is_agent")]
    pub(crate) by: By,
    /// Whether a rewind put back what somebody else had made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) others: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_agent(by: &By) -> bool {
    *by == By::Agent
}

/// A change that was written down.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) seq: u64,
    pub(crate) change: NewStep,
    /// Whether it is known to have been made; otherwise the process ended at it.
    pub(crate) done: bool,
}

/// A row, and the number of the next change after it.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    next: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
enum What {
    Begin(LineId),
    Change {
        seq: u64,
        #[serde(flatten)]
        change: NewStep,
    },
    /// The changes with these numbers were made.
    Done {
        first: u64,
        last: u64,
    },
    /// They were not.
    Failed {
        first: u64,
        last: u64,
    },
}

impl Store {
    fn file(&self, id: &LineId) -> PathBuf {
        let name: String = hash_of(format!("{}\0{}\0{}", id.line, id.thread, id.root).as_bytes());
        self.lines().join(format!("{}.jsonl", name.chars().take(40).collect::<String>()))
    }

    /// Writes changes down that are about to be made, and returns their numbers.
    pub(crate) fn append(
        &self,
        id: &LineId,
        earlier: &Earlier,
        changes: Vec<NewStep>,
        sync: bool,
    ) -> io::Result<RangeInclusive<u64>> {
        let _appending = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut file, first) = self.open_line(id, earlier)?;
        let mut rows = Vec::new();
        let mut seq = first;
        for change in changes {
            push(&mut rows, seq + 1, What::Change { seq, change })?;
            seq += 1;
        }
        file.write_all(&rows)?;
        if sync {
            file.sync_data()?;
        }
        Ok(first..=seq.saturating_sub(1))
    }

    /// Writes down what became of changes.
    pub(crate) fn mark(&self, id: &LineId, changes: &RangeInclusive<u64>, done: bool) -> io::Result<()> {
        let _appending = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut file, next) = self.open_line(id, &Earlier::default())?;
        let (first, last) = (*changes.start(), *changes.end());
        let mut rows = Vec::new();
        push(&mut rows, next, if done { What::Done { first, last } } else { What::Failed { first, last } })?;
        file.write_all(&rows)
    }

    /// Opens the rows for appending, locked against other processes, and finds the number of the next change.
    fn open_line(&self, id: &LineId, earlier: &Earlier) -> io::Result<(File, u64)> {
        let path = self.file(id);
        let open = || OpenOptions::new().read(true).append(true).open(&path);
        let mut file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.begin(id, earlier, &path)?;
                open()?
            }
            opened => opened?,
        };
        file.lock()?;
        let next = mend(&mut file)?;
        Ok((file, next))
    }

    /// Begins the rows of a thread; a copy begins with those of the thread that it was copied from.
    fn begin(&self, id: &LineId, earlier: &Earlier, path: &Path) -> io::Result<()> {
        let mut rows = Vec::new();
        push(&mut rows, 1, What::Begin(id.clone()))?;
        let mut next = 1;
        for step in self.earlier_steps(id, earlier)? {
            let seq = step.seq;
            next = seq + 1;
            push(&mut rows, next, What::Change { seq, change: step.change })?;
            if step.done {
                push(&mut rows, next, What::Done { first: seq, last: seq })?;
            }
        }
        // Numbers that the state knows are not given again.
        if next <= earlier.until {
            push(&mut rows, earlier.until + 1, What::Done { first: next, last: earlier.until })?;
        }
        write_aside(&self.lines(), &rows, false, |temporary| match fs::hard_link(temporary, path) {
            Err(error) => match error.kind() {
                ErrorKind::AlreadyExists => Ok(()),
                // A file system without hard links.
                ErrorKind::PermissionDenied | ErrorKind::Unsupported => fs::rename(temporary, path),
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        })
    }

    /// The changes of a thread that were made or may have been made, in order.
    pub(crate) fn steps(&self, id: &LineId, earlier: &Earlier) -> io::Result<Vec<Step>> {
        match read(&self.file(id))? {
            Some(steps) => Ok(steps),
            None => self.earlier_steps(id, earlier),
        }
    }

    fn earlier_steps(&self, id: &LineId, earlier: &Earlier) -> io::Result<Vec<Step>> {
        for thread in earlier.threads.iter().rev().filter(|thread| **thread != id.thread) {
            let other = LineId { thread: thread.clone(), ..id.clone() };
            if let Some(mut steps) = read(&self.file(&other))? {
                steps.retain(|step| step.seq <= earlier.until);
                return Ok(steps);
            }
        }
        Ok(Vec::new())
    }

    /// Forgets what is needed only to go back before a number.
    pub(crate) fn trim(&self, id: &LineId, since: u64) -> io::Result<()> {
        let _alone = self.exclusive()?;
        let _appending = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.file(id);
        let Some(steps) = read(&path)? else { return Ok(()) };
        let (_, next) = self.open_line(id, &Earlier::default())?;
        let (mut rows, mut seen) = (Vec::new(), HashSet::new());
        push(&mut rows, 1, What::Begin(id.clone()))?;
        let needed = |step: &&Step| step.seq > since || seen.insert(step.change.path.clone());
        let mut kept: Vec<&Step> = steps.iter().rev().filter(needed).collect();
        kept.reverse();
        for step in kept {
            let seq = step.seq;
            push(&mut rows, seq + 1, What::Change { seq, change: step.change.clone() })?;
            if step.done {
                push(&mut rows, seq + 1, What::Done { first: seq, last: seq })?;
            }
        }
        let last = next.saturating_sub(1);
        push(&mut rows, next, What::Done { first: last, last })?;
        // What it replaces is all there is, so it is on the disk first.
        write_aside(&self.lines(), &rows, true, |temporary| fs::rename(temporary, &path))
    }
}

fn push(rows: &mut Vec<u8>, next: u64, what: What) -> io::Result<()> {
    serde_json::to_writer(&mut *rows, &Row { next, what })?;
    rows.push(b'\n');
    Ok(())
}

/// Cuts off a row that a process was ended in, and reads the number of the next change from the last one.
fn mend(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    for window in [64 << 10, length] {
        let start = length.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rows = tail.get(..whole).unwrap_or_default();
        let last = rows.split(|byte| *byte == b'\n').rev().find(|row| !row.is_empty());
        let Some(row) = last.and_then(|row| serde_json::from_slice::<Row>(row).ok()) else { continue };
        if whole < tail.len() {
            file.set_len(start + whole as u64)?;
        }
        return Ok(row.next);
    }
    Err(io::Error::new(ErrorKind::InvalidData, "what is kept of the thread is damaged"))
}

fn rows(path: &Path) -> io::Result<Option<Vec<Row>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut file, mut rows, mut line) = (BufReader::new(file), Vec::new(), Vec::new());
    // A row without its end is one that a process was ended in: it was never acted on.
    while file.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        rows.push(serde_json::from_slice(&line)?);
        line.clear();
    }
    Ok(Some(rows))
}

fn read(path: &Path) -> io::Result<Option<Vec<Step>>> {
    let Some(rows) = rows(path)? else { return Ok(None) };
    let mut steps: Vec<Step> = Vec::new();
    for row in rows {
        match row.what {
            What::Begin(_) => {}
            What::Change { seq, change } => steps.push(Step { seq, change, done: false }),
            What::Done { first, last } => {
                // Marks follow their changes closely.
                let of = steps.iter_mut().rev().take_while(|step| step.seq >= first).filter(|step| step.seq <= last);
                of.for_each(|step| step.done = true);
            }
            What::Failed { first, last } => steps.retain(|step| step.seq < first || step.seq > last),
        }
    }
    Ok(Some(steps))
}

/// The thread whose rows a file holds.
pub(super) fn thread_of(path: &Path) -> io::Result<Option<String>> {
    let mut first = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut first)?;
    Ok(match serde_json::from_slice(&first) {
        Ok(Row { what: What::Begin(id), .. }) => Some(id.thread),
        _ => None,
    })
}

/// The contents that the rows of a file need.
pub(super) fn hashes(path: &Path, into: &mut HashSet<String>) -> io::Result<()> {
    for step in read(path)?.unwrap_or_default() {
        into.extend(step.change.before.hash().map(str::to_owned));
        into.extend(step.change.after.hash().map(str::to_owned));
    }
    Ok(())
}
