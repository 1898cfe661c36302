//! Tests of the server over HTTP, with a client that knows only the wire format.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail where something is missing")]

mod a2a;
mod access;
mod approvals;
mod at_once;
mod budgets;
mod connections;
mod counted;
mod crons;
mod document;
mod histories;
mod hooked;
mod inputs;
mod issuer;
mod jwt;
mod kills;
mod nested;
mod others;
mod outages;
mod page;
mod protocol;
mod refusals;
mod restart;
mod runs;
mod sdk;
mod sdk_states;
mod search;
mod stopped;
mod storage;
mod streams;
mod support;
mod tasks;
mod threads;
mod tls;
mod ttl;
mod webhooks;
