//! Methods that only call those of an inner value, or of another trait.

/// Defines methods of a trait that call the same method of an inner value, such as that behind an `Arc`, or with `as`
/// the same method of another trait.
macro_rules! forward {
    (as $other:ident; $(
        fn $method:ident(&$this:ident $(, $arg:ident: $type:ty)*) -> $output:ty;
    )*) => { $(
        fn $method(&$this $(, $arg: $type)*) -> $output {
            $other::$method($this $(, $arg)*)
        }
    )* };
    ($inner:expr; $(
        fn $method:ident $(<$lifetime:lifetime>)? (&$($borrow:lifetime)? $this:ident $(, $arg:ident: $type:ty)*)
            -> $output:ty;
    )*) => { $(
        fn $method $(<$lifetime>)? (&$($borrow)? $this $(, $arg: $type)*) -> $output {
            $inner.$method($($arg),*)
        }
    )* };
}

pub(crate) use forward;
