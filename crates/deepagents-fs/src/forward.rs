//! Methods that a wrapper leaves to the backend inside of it.

/// Writes methods of [`Backend`](crate::Backend) that call the same method of what `self` followed by `$inner` is.
macro_rules! forward {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward::forward!(@ $inner $method); )* };
    (@ [$($inner:tt)*] stat) => {
        fn stat<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::Stat, $crate::FsError>> {
            self $($inner)* .stat(state, path)
        }
    };
    (@ [$($inner:tt)*] read) => {
        fn read<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
            range: $crate::ByteRange,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::FileRead, $crate::FsError>> {
            self $($inner)* .read(state, path, range)
        }
    };
    (@ [$($inner:tt)*] read_to_change) => {
        fn read_to_change<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::FileRead, $crate::FsError>> {
            self $($inner)* .read_to_change(state, path)
        }
    };
    (@ [$($inner:tt)*] read_lines) => {
        fn read_lines<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
            range: $crate::lines::LineRange,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::lines::LineWindow, $crate::FsError>> {
            self $($inner)* .read_lines(state, path, range)
        }
    };
    (@ [$($inner:tt)*] list) => {
        fn list<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::Listing, $crate::FsError>> {
            self $($inner)* .list(state, path)
        }
    };
    (@ [$($inner:tt)*] write) => {
        fn write<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
            data: bytes::Bytes,
            mode: $crate::WriteMode,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::Written, $crate::FsError>> {
            self $($inner)* .write(state, path, data, mode)
        }
    };
    (@ [$($inner:tt)*] delete) => {
        fn delete<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Result<deepagents_core::state::Update, $crate::FsError>> {
            self $($inner)* .delete(state, path)
        }
    };
    (@ [$($inner:tt)*] glob) => {
        fn glob<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            query: &'a $crate::search::GlobQuery,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::search::GlobOutcome, $crate::FsError>> {
            self $($inner)* .glob(state, query)
        }
    };
    (@ [$($inner:tt)*] grep) => {
        fn grep<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            query: &'a $crate::search::GrepQuery,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::search::GrepOutcome, $crate::FsError>> {
            self $($inner)* .grep(state, query)
        }
    };
    (@ [$($inner:tt)*] resolve) => {
        fn resolve<'a>(
            &'a self,
            state: &'a deepagents_core::state::State,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Result<$crate::VPath, $crate::FsError>> {
            self $($inner)* .resolve(state, path)
        }
    };
    (@ [$($inner:tt)*] lock) => {
        fn lock<'a>(
            &'a self,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, Option<$crate::PathGuard>> {
            self $($inner)* .lock(path)
        }
    };
    (@ [$($inner:tt)*] capabilities) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self $($inner)* .capabilities()
        }
    };
    (@ [$($inner:tt)*] commands_reach) => {
        fn commands_reach(&self, path: &$crate::VPath) -> bool {
            self $($inner)* .commands_reach(path)
        }
    };
    (@ [$($inner:tt)*] channels) => {
        fn channels(&self) -> Vec<deepagents_core::state::ChannelSpec> {
            self $($inner)* .channels()
        }
    };
    (@ [$($inner:tt)*] shell) => {
        fn shell(&self) -> Option<&dyn $crate::shell::Shell> {
            self $($inner)* .shell()
        }
    };
}

pub(crate) use forward;
