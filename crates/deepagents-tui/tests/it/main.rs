//! The screens, as a person at a terminal meets them.
