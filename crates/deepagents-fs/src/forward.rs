//! Method forwarding for wrappers around an inner backend.

/// Generates methods of [`Backend`](crate::Backend) that call the same method on an inner backend: on the expression
/// `self` followed by what is in the brackets.
///
/// A wrapper lists the methods it forwards, not those it overrides, so that a method added to the trait cannot bypass a
/// restricting wrapper. Such a wrapper does not forward `pinned`, which would return the inner backend alone.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use deepagents_core::state::State;
/// use deepagents_fs::{Backend, FsError, FsFuture, VPath, WriteMode, Written, forward};
///
/// /// Refuses to write empty files.
/// struct NotEmpty<B>(B);
///
/// impl<B: Backend> Backend for NotEmpty<B> {
///     forward!([.0]; stat, read, read_to_change, read_lines, list, delete, glob, grep, resolve, lock);
///     forward!([.0]; change_access, capabilities, shell_visible, shell_unreachable, channels);
///
///     fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, on: WriteMode) -> FsFuture<'a, Written> {
///         let refused = || FsError::io(path, std::io::ErrorKind::InvalidInput, "it would be empty");
///         Box::pin(async move {
///             if data.is_empty() { Err(refused()) } else { self.0.write(state, path, data, on).await }
///         })
///     }
///
///     fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
///         Some(Arc::new(NotEmpty(self.0.pinned(path, place)?)))
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward!(@ $inner $method); )* };
    (@ $i:tt stat) => { $crate::forward!(@async $i stat(path: &'a $crate::VPath) -> $crate::Stat); };
    (@ $i:tt read) => {
        $crate::forward!(@async $i read(path: &'a $crate::VPath, range: $crate::ByteRange) -> $crate::FileRead);
    };
    (@ $i:tt read_to_change) => {
        $crate::forward!(@async $i read_to_change(path: &'a $crate::VPath) -> $crate::FileRead);
    };
    (@ $i:tt read_lines) => {
        $crate::forward!(
            @async $i read_lines(path: &'a $crate::VPath, range: $crate::lines::LineRange) -> $crate::lines::LineWindow
        );
    };
    (@ $i:tt list) => { $crate::forward!(@async $i list(path: &'a $crate::VPath) -> $crate::Listing); };
    (@ $i:tt write) => {
        $crate::forward!(
            @async $i
            write(path: &'a $crate::VPath, data: $crate::bytes::Bytes, mode: $crate::WriteMode) -> $crate::Written
        );
    };
    (@ $i:tt delete) => {
        $crate::forward!(@async $i delete(path: &'a $crate::VPath) -> $crate::deepagents_core::state::Update);
    };
    (@ $i:tt glob) => {
        $crate::forward!(@async $i glob(query: &'a $crate::search::GlobQuery) -> $crate::search::GlobOutcome);
    };
    (@ $i:tt grep) => {
        $crate::forward!(@async $i grep(query: &'a $crate::search::GrepQuery) -> $crate::search::GrepOutcome);
    };
    (@ $i:tt resolve) => { $crate::forward!(@async $i resolve(path: &'a $crate::VPath) -> $crate::VPath); };
    (@ $i:tt lock) => { $crate::forward!(@future $i lock -> Option<$crate::PathGuard>); };
    (@ $i:tt change_access) => { $crate::forward!(@future $i change_access -> $crate::permissions::AccessMode); };
    (@ $i:tt capabilities) => { $crate::forward!(@plain $i capabilities() -> $crate::Capabilities); };
    (@ $i:tt pinned) => {
        $crate::forward!(
            @plain $i pinned(path: &$crate::VPath, place: &$crate::VPath) -> Option<std::sync::Arc<dyn $crate::Backend>>
        );
    };
    (@ $i:tt shell_visible) => { $crate::forward!(@plain $i shell_visible(path: &$crate::VPath) -> bool); };
    (@ $i:tt shell_unreachable) => { $crate::forward!(@plain $i shell_unreachable() -> Vec<$crate::VPath>); };
    (@ $i:tt channels) => {
        $crate::forward!(@plain $i channels() -> Vec<$crate::deepagents_core::state::ChannelSpec>);
    };
    (@ $i:tt shell) => { $crate::forward!(@plain $i shell() -> Option<&dyn $crate::shell::Shell>); };
    (@async [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name<'a>(
            &'a self,
            state: &'a $crate::deepagents_core::state::State,
            $($arg: $type),*
        ) -> $crate::FsFuture<'a, $out> {
            self $($i)* .$name(state, $($arg),*)
        }
    };
    (@future [$($i:tt)*] $name:ident -> $out:ty) => {
        fn $name<'a>(
            &'a self,
            path: &'a $crate::VPath,
        ) -> $crate::deepagents_core::futures_core::future::BoxFuture<'a, $out> {
            self $($i)* .$name(path)
        }
    };
    (@plain [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name(&self, $($arg: $type),*) -> $out {
            self $($i)* .$name($($arg),*)
        }
    };
}

pub(crate) use forward;
