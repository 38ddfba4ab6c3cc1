//! Services that end well.
