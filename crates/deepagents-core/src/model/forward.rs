//! Method forwarding for models around an inner model.

/// Generates methods of [`ChatModel`](crate::model::ChatModel) that call the same method on an inner model: on the
/// expression `self` followed by what is in the brackets.
///
/// A wrapper lists the methods that it forwards. A method in neither the list nor the wrapper has its default, which
/// for `profile`, `server` and `count_tokens` says that nothing is known. `invoke` is forwarded only by a wrapper that
/// leaves `stream` as it is: its default drains the stream.
///
/// ```
/// use deepagents_core::forward_model;
/// use deepagents_core::futures_core::stream::BoxStream;
/// use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
///
/// /// Always answers with the same seed.
/// struct Seeded<M>(M);
///
/// impl<M: ChatModel> ChatModel for Seeded<M> {
///     forward_model!([.0]; name, profile, server, count_tokens);
///
///     fn stream(&self, mut request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
///         request.settings.extra.insert("seed".to_owned(), 7.into());
///         self.0.stream(request)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_model {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward_model!(@ $inner $method); )* };
    (@ $i:tt name) => { $crate::forward_model!(@plain $i name() -> &str); };
    (@ $i:tt profile) => { $crate::forward_model!(@plain $i profile() -> $crate::model::ModelProfile); };
    (@ $i:tt server) => { $crate::forward_model!(@plain $i server() -> Option<$crate::model::ModelServer>); };
    (@ $i:tt stream) => {
        $crate::forward_model!(
            @plain $i stream(request: $crate::model::ModelRequest) -> $crate::futures_core::stream::BoxStream<
                'static, ::std::result::Result<$crate::model::ModelEvent, $crate::model::ModelError>
            >
        );
    };
    (@ $i:tt invoke) => { $crate::forward_model!(@future $i invoke -> $crate::model::ModelOutput); };
    (@ $i:tt count_tokens) => { $crate::forward_model!(@future $i count_tokens -> Option<u64>); };
    (@future $i:tt $name:ident -> $out:ty) => {
        $crate::forward_model!(
            @plain $i $name(request: $crate::model::ModelRequest)
                -> $crate::futures_core::future::BoxFuture<'static, ::std::result::Result<$out, $crate::model::ModelError>>
        );
    };
    (@plain [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name(&self, $($arg: $type),*) -> $out {
            self $($i)* .$name($($arg),*)
        }
    };
}
