//! Implements [`Backend`] for `Arc`.

use std::sync::Arc;

use crate::Backend;
use crate::forward::forward;

impl<B: Backend + ?Sized> Backend for Arc<B> {
    forward!([.as_ref()]; stat, read, read_to_change, read_lines, list, write, delete, glob, grep, resolve, lock);
    forward!([.as_ref()]; capabilities, pinned, change_access, shell_visible, channels, shell);
}
