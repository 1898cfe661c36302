//! Reading recordings: YAML files of documents with `when` and `then`.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A recorded response and the path of its request.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Document")]
pub(crate) struct Answer {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Deserialize)]
struct Document {
    when: When,
    then: Then,
}

#[derive(Deserialize)]
struct When {
    path: String,
}

#[derive(Deserialize)]
struct Then {
    status: u16,
    #[serde(default)]
    header: Option<Vec<Header>>,
    #[serde(default)]
    body: Option<String>,
    /// `base64` for a binary body.
    #[serde(default)]
    body_encoding: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

impl TryFrom<Document> for Answer {
    type Error = String;

    fn try_from(document: Document) -> Result<Self, String> {
        let headers = document.then.header.unwrap_or_default();
        let body = document.then.body.unwrap_or_default();
        let body = match document.then.body_encoding.as_deref() {
            Some("base64") => BASE64_STANDARD.decode(body.trim()).map_err(|error| format!("the body: {error}"))?,
            None => body.into_bytes(),
            Some(other) => return Err(format!("the body is encoded in a way that is not known: {other}")),
        };
        Ok(Self {
            path: document.when.path,
            status: document.then.status,
            headers: headers.into_iter().map(|header| (header.name, header.value)).collect(),
            body,
        })
    }
}

/// Returns the recordings below a folder, sorted by name.
pub(crate) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the answers in a file, or for each invalid one the reason.
pub(crate) fn read(file: &Path) -> io::Result<Vec<Result<Answer, String>>> {
    let bytes = std::fs::read(file)?;
    let text = String::from_utf8_lossy(&bytes);
    let documents = || serde_yaml_ng::Deserializer::from_str(&text);
    // After invalid YAML, the parser repeats the same error endlessly.
    let whole = documents().map(IgnoredAny::deserialize).take_while(Result::is_ok).count();
    Ok(documents()
        .take(whole + 1)
        .map(|document| Answer::deserialize(document).map_err(|error| format!("not a recording: {error}")))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_past_invalid_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let good = "when:\n  path: /v1/messages\nthen:\n  status: 200\n  body: x\n";
        for broken in ["when: [\n", "\t- a: {\n", "a: b: c\n", "%bad\n---\n"] {
            let file = folder.path().join("recording.yaml");
            std::fs::write(&file, format!("{good}---\n{broken}---\n{good}")).unwrap();
            let answers = read(&file).unwrap();
            assert!(answers.first().is_some_and(|first| first.as_ref().is_ok_and(|answer| answer.body == b"x")));
            assert!(answers.len() <= 3 && answers.iter().any(Result::is_err), "{broken}: {answers:?}");
        }
    }
}
