//! Behaviour of the core through its public interface.
