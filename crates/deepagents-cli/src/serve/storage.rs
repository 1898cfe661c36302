//! Where threads, runs and what clients store are kept.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::journal::Journal;
use deepagents::core::store::Store;
use deepagents_persist::Postgres;

use super::project::StoreSection;
use crate::args::Database;
use crate::model_choice::env;
use crate::threads::database;

/// A database that was opened.
pub(super) struct Storage {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) store: Arc<dyn Store>,
    /// Its file, where it has one that somebody named.
    pub(super) file: Option<PathBuf>,
}

/// Opens what is named: on the command line, or else in the file.
pub(super) async fn open(given: &Database, section: &StoreSection) -> Result<Storage> {
    if let (None, Some(name)) = (&given.db, &section.postgres_env) {
        let Some(url) = env(name) else {
            bail!("the variable {name} with the address of the database is not set");
        };
        // The address may hold a password, so it is not repeated.
        let postgres = Postgres::connect(&url).await.map_err(|error| anyhow!("the database of {name}: {error}"))?;
        let database = Arc::new(postgres);
        return Ok(Storage { journal: database.clone(), store: database, file: None });
    }
    let given = Database { db: given.db.clone().or_else(|| section.sqlite.clone()) };
    let database = Arc::new(database::open(&given).await?);
    Ok(Storage { journal: database.clone(), store: database, file: given.db })
}
