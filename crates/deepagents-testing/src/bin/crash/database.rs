//! Where the threads are stored.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deepagents_core::journal::Journal;
use deepagents_core::store::Store;
use deepagents_persist::{DatabaseError, PostgresOptions, Sqlite};

#[derive(Clone)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    Postgres { url: String, server: Option<PathBuf> },
}

impl Place {
    pub(crate) fn parse(text: &str) -> Self {
        if text.starts_with("postgres") {
            Self::Postgres { url: text.to_owned(), server: None }
        } else {
            Self::Sqlite(text.into())
        }
    }

    /// Returns an argument for [`parse`](Self::parse).
    pub(crate) fn argument(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// Returns a separate place for a parallel worker if workers would block each other.
    pub(crate) fn of_worker(&self, worker: usize) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(path.with_extension(format!("{worker}.db"))),
            Self::Postgres { .. } => self.clone(),
        }
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Journal>> {
        Ok(self.open_with_store().await?.0)
    }

    pub(crate) async fn open_with_store(&self) -> Result<(Arc<dyn Journal>, Arc<dyn Store>)> {
        match self {
            Self::Sqlite(path) => {
                let database = Arc::new(Sqlite::open(path).await?);
                Ok((database.clone(), database))
            }
            Self::Postgres { url, .. } => loop {
                let options =
                    PostgresOptions { schema: "crash".to_owned(), connections: 2, ..PostgresOptions::default() };
                match options.connect(url).await {
                    Ok(database) => {
                        let database = Arc::new(database);
                        return Ok((database.clone(), database));
                    }
                    // A killed server recovers before it accepts connections.
                    Err(DatabaseError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                    Err(other) => return Err(other.into()),
                }
            },
        }
    }

    /// Checks the integrity of the database.
    pub(crate) async fn check(&self) -> Result<()> {
        if let Self::Sqlite(path) = self {
            Sqlite::open(path).await?.check().await?;
        }
        Ok(())
    }

    pub(crate) fn has_server(&self) -> bool {
        matches!(self, Self::Postgres { server: Some(_), .. })
    }

    /// Kills the server and starts it again.
    pub(crate) fn kill_server(&self) -> Result<()> {
        let Self::Postgres { server: Some(folder), .. } = self else { return Ok(()) };
        for action in ["kill", "again"] {
            let done = Command::new(".ci/postgres.sh").arg(action).arg(folder).output();
            let done = done.context(".ci/postgres.sh cannot be started; run this in the root of the repository")?;
            ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(())
    }
}
