//! Method forwarding for journals around an inner journal.

/// Generates methods of [`Journal`](crate::journal::Journal) that call the same method on an inner journal: on the
/// expression `self` followed by what is in the brackets.
///
/// A wrapper lists the methods that it forwards, `storage` among them if both are the same storage. To change what
/// happens to whole threads, return `self` from `threads` and use [`forward_threads!`](crate::forward_threads).
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use deepagents_core::forward_journal;
/// use deepagents_core::futures_core::future::BoxFuture;
/// use deepagents_core::journal::{Appended, Fence, Journal, JournalError, LogPosition, Record};
///
/// /// Counts the records that are appended.
/// struct Counted<J> {
///     journal: J,
///     appended: AtomicUsize,
/// }
///
/// impl<J: Journal> Journal for Counted<J> {
///     forward_journal!([.journal]; claim, renew, release, load, read, put_snapshot, threads, storage);
///
///     fn append<'a>(
///         &'a self,
///         thread: &'a str,
///         fence: Fence,
///         expected: LogPosition,
///         records: Vec<Record>,
///     ) -> BoxFuture<'a, Result<Appended, JournalError>> {
///         self.appended.fetch_add(records.len(), Ordering::Relaxed);
///         self.journal.append(thread, fence, expected, records)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_journal {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward_journal!(@ $inner $method); )* };
    (@ $i:tt claim) => {
        $crate::forward_journal!(
            @future $i claim(thread: &'a str, claim: $crate::journal::Claim) -> $crate::journal::Fence
        );
    };
    (@ $i:tt renew) => {
        $crate::forward_journal!(
            @future $i renew(thread: &'a str, fence: $crate::journal::Fence, lease: ::std::time::Duration) -> ()
        );
    };
    (@ $i:tt release) => {
        $crate::forward_journal!(@future $i release(thread: &'a str, fence: $crate::journal::Fence) -> ());
    };
    (@ $i:tt append) => {
        $crate::forward_journal!(@future $i append(
            thread: &'a str,
            fence: $crate::journal::Fence,
            expected: $crate::journal::LogPosition,
            records: Vec<$crate::journal::Record>
        ) -> $crate::journal::Appended);
    };
    (@ $i:tt load) => {
        $crate::forward_journal!(
            @future $i load(thread: &'a str, at: Option<$crate::journal::LogPosition>) -> $crate::journal::Loaded
        );
    };
    (@ $i:tt read) => {
        $crate::forward_journal!(@future $i read(
            thread: &'a str, positions: ::std::ops::Range<$crate::journal::LogPosition>
        ) -> Vec<$crate::journal::LogEntry>);
    };
    (@ $i:tt put_snapshot) => {
        $crate::forward_journal!(@future $i put_snapshot(
            thread: &'a str, fence: $crate::journal::Fence, snapshot: $crate::journal::Snapshot
        ) -> u64);
    };
    (@ [$($i:tt)*] threads) => {
        fn threads(&self) -> &dyn $crate::journal::Threads {
            self $($i)* .threads()
        }
    };
    (@ $i:tt storage) => { $crate::forward_journal!(@future $i storage() -> Option<String>); };
    (@future [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name<'a>(
            &'a self,
            $($arg: $type),*
        ) -> $crate::futures_core::future::BoxFuture<'a, ::std::result::Result<$out, $crate::journal::JournalError>> {
            self $($i)* .$name($($arg),*)
        }
    };
}

/// Generates methods of [`Threads`](crate::journal::Threads) that call the same method on an inner value: on the
/// expression `self` followed by what is in the brackets.
///
/// ```
/// use deepagents_core::futures_core::future::BoxFuture;
/// use deepagents_core::journal::{Journal, JournalError, Threads};
/// use deepagents_core::{forward_journal, forward_threads};
///
/// /// Deletes no thread.
/// struct Keeping<J>(J);
///
/// impl<J: Journal> Journal for Keeping<J> {
///     forward_journal!([.0]; claim, renew, release, append, load, read, put_snapshot, storage);
///
///     fn threads(&self) -> &dyn Threads {
///         self
///     }
/// }
///
/// impl<J: Journal> Threads for Keeping<J> {
///     forward_threads!([.0.threads()]; get, list, set_metadata, update_metadata, set_parent, set_ttl, copy, remove);
///
///     fn delete<'a>(&'a self, _thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>> {
///         Box::pin(async { Err(JournalError::Storage("threads are kept".into())) })
///     }
///
///     fn sweep(&self) -> BoxFuture<'_, Result<u64, JournalError>> {
///         Box::pin(async { Ok(0) })
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_threads {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward_threads!(@ $inner $method); )* };
    (@ $i:tt get) => {
        $crate::forward_journal!(@future $i get(thread: &'a str) -> Option<$crate::journal::ThreadInfo>);
    };
    (@ $i:tt list) => {
        $crate::forward_journal!(
            @future $i list(query: &'a $crate::journal::ThreadQuery) -> Vec<$crate::journal::ThreadInfo>
        );
    };
    (@ $i:tt set_metadata) => { $crate::forward_threads!(@metadata $i set_metadata); };
    (@ $i:tt update_metadata) => { $crate::forward_threads!(@metadata $i update_metadata); };
    (@ $i:tt set_parent) => {
        $crate::forward_journal!(@future $i set_parent(thread: &'a str, parent: Option<&'a str>) -> ());
    };
    (@ $i:tt set_ttl) => {
        $crate::forward_journal!(@future $i set_ttl(thread: &'a str, ttl: Option<::std::time::Duration>) -> ());
    };
    (@ $i:tt copy) => {
        $crate::forward_journal!(
            @future $i copy(from: &'a str, to: &'a str, until: Option<$crate::journal::LogPosition>) -> ()
        );
    };
    (@ $i:tt delete) => { $crate::forward_journal!(@future $i delete(thread: &'a str) -> bool); };
    (@ $i:tt remove) => {
        $crate::forward_journal!(@future $i remove(
            thread: &'a str,
            fence: $crate::journal::Fence,
            positions: ::std::ops::Range<$crate::journal::LogPosition>
        ) -> ());
    };
    (@ $i:tt sweep) => { $crate::forward_journal!(@future $i sweep() -> u64); };
    (@metadata $i:tt $name:ident) => {
        $crate::forward_journal!(@future $i $name(
            thread: &'a str, metadata: $crate::serde_json::Map<String, $crate::serde_json::Value>
        ) -> ());
    };
}
