//! The storage of threads, runs and client data.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::journal::Journal;
use deepagents::core::store::Store;
use deepagents_persist::Postgres;

use super::project::StoreSection;
use crate::args::Database;
use crate::model_choice::env;
use crate::threads::artifacts::remove_leftovers;
use crate::threads::{Artifacts, database, with_artifacts};

/// An open database.
pub(super) struct Storage {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) store: Arc<dyn Store>,
    /// Its file, if one was named.
    pub(super) file: Option<PathBuf>,
    /// Where what is too long for conversations is kept.
    pub(super) artifacts: Option<Artifacts>,
}

/// Opens the database named on the command line, or else in the file.
pub(super) async fn open(given: &Database, section: &StoreSection) -> Result<Storage> {
    if let (None, Some(name)) = (&given.db, &section.postgres_env) {
        let Some(url) = env(name) else {
            bail!("the variable {name}, which holds the address of the database, is not set");
        };
        // The address may contain a password, so do not repeat it.
        let postgres = Postgres::connect(&url).await.map_err(|error| anyhow!("the database of {name}: {error}"))?;
        let database = Arc::new(postgres);
        let artifacts = Some(Artifacts::stored(database.clone()));
        let journal = with_artifacts(database.clone(), artifacts.as_ref());
        remove_leftovers(artifacts.clone(), journal.clone());
        return Ok(Storage { journal, store: database, file: None, artifacts });
    }
    let given = Database { db: given.db.clone().or_else(|| section.sqlite.clone()) };
    let artifacts = Artifacts::beside(&given)?;
    let database = Arc::new(database::open(&given).await?);
    let journal = with_artifacts(database.clone(), artifacts.as_ref());
    remove_leftovers(artifacts.clone(), journal.clone());
    Ok(Storage { journal, store: database, file: given.db, artifacts })
}
