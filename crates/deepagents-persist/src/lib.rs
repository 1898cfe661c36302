//! Persistent threads and long-term memory: [`Sqlite`] stores them in one file for one machine, [`Postgres`] on a
//! server for many.
//!
//! Both implement [`Journal`](deepagents_core::journal::Journal) and [`Store`](deepagents_core::store::Store).
//! `deepagents-core` decides what a log means, when a snapshot is due and how a run resumes, the same for both.
//!
//! ```
//! use deepagents_core::journal::Journal;
//! use deepagents_persist::Sqlite;
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("threads.db");
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let journal = Sqlite::open(path).await?;
//! assert!(journal.threads().list(&Default::default()).await?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod append;
mod blob;
mod blobs;
mod check;
mod convert;
mod database;
mod error;
mod executor;
mod lease;
mod listing;
mod log;
mod namespace_key;
mod postgres;
mod row;
mod schema;
mod sqlite;
mod statement;
mod store;
mod thread_row;
mod threads;

pub use database::Database;
pub use error::DatabaseError;
pub use postgres::{Postgres, PostgresEngine, PostgresOptions};
pub use sqlite::{Sqlite, SqliteEngine, SqliteOptions, Synchronous};
