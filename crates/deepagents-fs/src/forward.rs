//! Method forwarding for wrappers around an inner backend.

/// Generates methods of [`Backend`](crate::Backend) that call the same method on the expression `self` followed by
/// `$inner`.
///
/// A wrapper lists the methods it forwards, not those it overrides, so that a method added to the trait cannot bypass a
/// restricting wrapper.
macro_rules! forward {
    ($inner:tt; $($method:ident),* $(,)?) => { $( forward!(@ $inner $method); )* };
    (@ $i:tt stat) => { forward!(@async $i stat(path: &'a $crate::VPath) -> $crate::Stat); };
    (@ $i:tt read) => {
        forward!(@async $i read(path: &'a $crate::VPath, range: $crate::ByteRange) -> $crate::FileRead);
    };
    (@ $i:tt read_to_change) => { forward!(@async $i read_to_change(path: &'a $crate::VPath) -> $crate::FileRead); };
    (@ $i:tt read_lines) => {
        forward!(
            @async $i read_lines(path: &'a $crate::VPath, range: $crate::lines::LineRange) -> $crate::lines::LineWindow
        );
    };
    (@ $i:tt list) => { forward!(@async $i list(path: &'a $crate::VPath) -> $crate::Listing); };
    (@ $i:tt write) => {
        forward!(
            @async $i write(path: &'a $crate::VPath, data: bytes::Bytes, mode: $crate::WriteMode) -> $crate::Written
        );
    };
    (@ $i:tt delete) => { forward!(@async $i delete(path: &'a $crate::VPath) -> deepagents_core::state::Update); };
    (@ $i:tt glob) => {
        forward!(@async $i glob(query: &'a $crate::search::GlobQuery) -> $crate::search::GlobOutcome);
    };
    (@ $i:tt grep) => {
        forward!(@async $i grep(query: &'a $crate::search::GrepQuery) -> $crate::search::GrepOutcome);
    };
    (@ $i:tt resolve) => { forward!(@async $i resolve(path: &'a $crate::VPath) -> $crate::VPath); };
    (@ $i:tt lock) => { forward!(@future $i lock -> Option<$crate::PathGuard>); };
    (@ $i:tt change_access) => { forward!(@future $i change_access -> $crate::permissions::AccessMode); };
    (@ $i:tt capabilities) => { forward!(@plain $i capabilities() -> $crate::Capabilities); };
    (@ $i:tt pinned) => {
        forward!(
            @plain $i pinned(path: &$crate::VPath, place: &$crate::VPath) -> Option<std::sync::Arc<dyn $crate::Backend>>
        );
    };
    (@ $i:tt shell_visible) => { forward!(@plain $i shell_visible(path: &$crate::VPath) -> bool); };
    (@ $i:tt channels) => { forward!(@plain $i channels() -> Vec<deepagents_core::state::ChannelSpec>); };
    (@ $i:tt shell) => { forward!(@plain $i shell() -> Option<&dyn $crate::shell::Shell>); };
    (@async [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name<'a>(&'a self, state: &'a deepagents_core::state::State, $($arg: $type),*) -> $crate::FsFuture<'a, $out> {
            self $($i)* .$name(state, $($arg),*)
        }
    };
    (@future [$($i:tt)*] $name:ident -> $out:ty) => {
        fn $name<'a>(&'a self, path: &'a $crate::VPath) -> futures_core::future::BoxFuture<'a, $out> {
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
