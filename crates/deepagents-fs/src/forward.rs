//! Method forwarding for wrappers around an inner backend.

/// Generates methods of [`Backend`](crate::Backend) that call the same method on the expression `self` followed by
/// `$inner`.
///
/// A wrapper lists the methods it forwards, not those it overrides, so that a method added to the trait cannot bypass a
/// restricting wrapper.
macro_rules! forward {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward::forward!(@ $inner $method); )* };
    (@ $i:tt stat) => { $crate::forward::forward!(@async $i stat(path: &'a $crate::VPath) -> $crate::Stat); };
    (@ $i:tt read) => {
        $crate::forward::forward!(@async $i read(path: &'a $crate::VPath, range: $crate::ByteRange) -> $crate::FileRead);
    };
    (@ $i:tt read_to_change) => {
        $crate::forward::forward!(@async $i read_to_change(path: &'a $crate::VPath) -> $crate::FileRead);
    };
    (@ $i:tt read_lines) => {
        $crate::forward::forward!(
            @async $i read_lines(path: &'a $crate::VPath, range: $crate::lines::LineRange) -> $crate::lines::LineWindow
        );
    };
    (@ $i:tt list) => { $crate::forward::forward!(@async $i list(path: &'a $crate::VPath) -> $crate::Listing); };
    (@ $i:tt write) => {
        $crate::forward::forward!(
            @async $i write(path: &'a $crate::VPath, data: bytes::Bytes, mode: $crate::WriteMode) -> $crate::Written
        );
    };
    (@ $i:tt delete) => {
        $crate::forward::forward!(@async $i delete(path: &'a $crate::VPath) -> deepagents_core::state::Update);
    };
    (@ $i:tt glob) => {
        $crate::forward::forward!(@async $i glob(query: &'a $crate::search::GlobQuery) -> $crate::search::GlobOutcome);
    };
    (@ $i:tt grep) => {
        $crate::forward::forward!(@async $i grep(query: &'a $crate::search::GrepQuery) -> $crate::search::GrepOutcome);
    };
    (@ $i:tt resolve) => { $crate::forward::forward!(@async $i resolve(path: &'a $crate::VPath) -> $crate::VPath); };
    (@ $i:tt capabilities) => { $crate::forward::forward!(@plain $i capabilities() -> $crate::Capabilities); };
    (@ $i:tt pinned) => {
        $crate::forward::forward!(
            @plain $i pinned(path: &$crate::VPath, place: &$crate::VPath) -> Option<std::sync::Arc<dyn $crate::Backend>>
        );
    };
    (@ [$($i:tt)*] change_access) => {
        fn change_access<'a>(
            &'a self,
            path: &'a $crate::VPath,
        ) -> futures_core::future::BoxFuture<'a, $crate::permissions::AccessMode> {
            self $($i)* .change_access(path)
        }
    };
    (@ $i:tt shell_visible) => { $crate::forward::forward!(@plain $i shell_visible(path: &$crate::VPath) -> bool); };
    (@ $i:tt channels) => {
        $crate::forward::forward!(@plain $i channels() -> Vec<deepagents_core::state::ChannelSpec>);
    };
    (@ $i:tt shell) => { $crate::forward::forward!(@plain $i shell() -> Option<&dyn $crate::shell::Shell>); };
    (@ [$($i:tt)*] lock) => {
        fn lock<'a>(&'a self, path: &'a $crate::VPath) -> futures_core::future::BoxFuture<'a, Option<$crate::PathGuard>> {
            self $($i)* .lock(path)
        }
    };
    (@async [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name<'a>(&'a self, state: &'a deepagents_core::state::State, $($arg: $type),*) -> $crate::FsFuture<'a, $out> {
            self $($i)* .$name(state, $($arg),*)
        }
    };
    (@plain [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name(&self, $($arg: $type),*) -> $out {
            self $($i)* .$name($($arg),*)
        }
    };
}

pub(crate) use forward;
