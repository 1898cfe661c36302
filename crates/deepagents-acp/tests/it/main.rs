//! Agents in editors.
