//! A file of JSON lines.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::ExportError;

/// A destination for lines: a file or any other writer. Writes run on the blocking thread pool.
#[derive(Clone)]
pub struct LineFile(Arc<Mutex<Box<dyn Write + Send>>>);

impl LineFile {
    /// Creates a destination from a writer.
    pub fn new(file: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(file))))
    }

    /// Writes a line and flushes the writer.
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
