//! Postgres.
/// X
#[derive(Debug)]
pub struct Postgres;
/// X
#[derive(Debug)]
pub struct PostgresOptions;
