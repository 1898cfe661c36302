//! A file of lines of JSON.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::ExportError;

/// A file of lines, or whatever else takes bytes. It is written on a thread that may wait.
#[derive(Clone)]
pub struct LineFile(Arc<Mutex<Box<dyn Write + Send>>>);

impl LineFile {
    /// Writes to this.
    pub fn new(file: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(file))))
    }

    /// Writes a line, and hands it to the system.
    pub(super) async fn write(&self, line: Bytes) -> Result<(), ExportError> {
        let file = self.0.clone();
        let write = move || {
            let mut line = Vec::from(line);
            line.push(b'\n');
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&line)?;
            file.flush()
        };
        let written = tokio::task::spawn_blocking(write).await;
        written.unwrap_or_else(|_| Err(io::Error::other("writing was cancelled"))).map_err(ExportError::File)
    }
}

impl fmt::Debug for LineFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineFile")
    }
}
