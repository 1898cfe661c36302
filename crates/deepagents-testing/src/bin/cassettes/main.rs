//! Replays recorded provider responses through the real clients, without a network.
//!
//! `cassettes DIR [--dump FILE]` walks the YAML recordings below `DIR`. Each response with status 200 of a known wire
//! is decoded. The message that the next request would send back is then built and compared, in order, with what the
//! model said. Each error response becomes an error, which is compared with the provider's message.
//!
//! `--dump` writes one JSON line per response. The exit status is 1 if a response failed or there was none to check.

mod check;
mod recording;
mod refusal;
mod said;
mod wire;

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use check::Checked;
use recording::Answer;
use wire::Wire;

const USAGE: &str = "usage: cassettes DIR [--dump FILE]";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "cassettes: {error}");
            ExitCode::from(2)
        }
    }
}

/// The folder of recordings and the dump file.
struct Arguments {
    dir: PathBuf,
    dump: Option<PathBuf>,
}

/// Parses the arguments. Returns `None` if help is requested.
fn arguments() -> Result<Option<Arguments>, Box<dyn Error>> {
    let (mut dir, mut dump) = (None, None);
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--dump") => dump = Some(PathBuf::from(args.next().ok_or("--dump needs the name of a file")?)),
            Some("-h" | "--help") => return Ok(None),
            Some(flag) if flag.starts_with('-') => return Err(format!("unknown option {flag}; {USAGE}").into()),
            _ if dir.is_none() => dir = Some(PathBuf::from(arg)),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(Some(Arguments { dir: dir.ok_or(USAGE)?, dump }))
}

/// Returns whether all answers passed.
fn run() -> Result<bool, Box<dyn Error>> {
    let arguments = arguments()?;
    let mut out = BufWriter::new(stdout().lock());
    let Some(Arguments { dir, dump }) = arguments else {
        writeln!(out, "{USAGE}")?;
        return Ok(true);
    };
    let mut dump = dump.map(File::create).transpose()?.map(BufWriter::new);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let files = if dir.is_dir() { recording::files(&dir)? } else { Vec::new() };
    for file in files {
        let name = file.strip_prefix(&dir).unwrap_or(&file).display().to_string();
        for (index, answer) in recording::read(&file)?.into_iter().enumerate() {
            let place = format!("{name} #{index}");
            let (answer, wire) = match answer.and_then(|answer| wire_of_answer(&answer).map(|wire| (answer, wire))) {
                Ok(usable) => usable,
                Err(reason) => {
                    skipped += 1;
                    writeln!(out, "skip {place}: {reason}")?;
                    continue;
                }
            };
            let Checked { message, decoded, problem } = check::check(wire, dialect_hint(&file), &answer);
            match problem {
                None => passed += 1,
                Some(problem) => {
                    failed += 1;
                    writeln!(out, "FAIL {place}: {problem}")?;
                }
            }
            if let (Some(dump), Some(decoded)) = (&mut dump, decoded) {
                let (input, output) = wire.usage_fields();
                let usage = json!({"input": decoded.usage.get(input), "output": decoded.usage.get(output)});
                let line = json!({
                    "file": name, "index": index, "wire": wire.name(),
                    "message": message, "usage": usage, "stop": decoded.stop,
                });
                writeln!(dump, "{line}")?;
            }
        }
    }
    if let Some(mut dump) = dump {
        dump.flush()?;
    }
    writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
    out.flush()?;
    if passed + failed == 0 {
        writeln!(stderr(), "cassettes: nothing was checked: there are no recorded answers below {}", dir.display())?;
    }
    Ok(failed == 0 && passed > 0)
}

/// Returns the wire of an answer, or why the answer is skipped.
fn wire_of_answer(answer: &Answer) -> Result<Wire, String> {
    let wire = Wire::of_path(&answer.path).ok_or_else(|| no_conversation(&answer.path))?;
    match answer.status {
        200 if answer.body.trim_ascii().is_empty() => Err("the answer has no body".to_owned()),
        200 if is_unfinished(&answer.body) => Err("the answer is made in the background".to_owned()),
        _ => Ok(wire),
    }
}

/// Whether the answer is still being generated in the background.
fn is_unfinished(body: &[u8]) -> bool {
    let answer = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    answer.get("status").and_then(|status| status.as_str()).is_some_and(|s| matches!(s, "in_progress" | "queued"))
}

/// Describes a path that is not for conversations.
fn no_conversation(path: &str) -> String {
    let what = [
        ("mbed", "embeddings"),
        ("/audio/", "speech"),
        ("/images/", "pictures"),
        ("/files", "uploaded files"),
        ("/cachedContents", "administration of cached prompts"),
        ("/models", "a list of models"),
        ("/tags", "a list of models"),
        ("/props", "settings of a server"),
    ];
    let known = what.iter().find(|(part, _)| path.contains(part)).map_or("no wire that is known", |(_, what)| what);
    format!("{known}: {path}")
}

/// Returns the folders of a recording, innermost first.
fn dialect_hint(file: &Path) -> impl Iterator<Item = &str> {
    file.parent().into_iter().flat_map(Path::iter).rev().filter_map(|part| part.to_str())
}
