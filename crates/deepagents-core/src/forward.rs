//! Methods that only call those of an inner value.

/// Defines methods of a trait that call the same method of an inner value, such as that behind an `Arc`.
macro_rules! forward {
    ($inner:expr; $(
        fn $method:ident $(<$lifetime:lifetime>)? (&$($borrow:lifetime)? $this:ident $(, $arg:ident: $type:ty)* $(,)?)
            -> $output:ty;
    )*) => { $(
        fn $method $(<$lifetime>)? (&$($borrow)? $this $(, $arg: $type)*) -> $output {
            $inner.$method($($arg),*)
        }
    )* };
}

pub(crate) use forward;
