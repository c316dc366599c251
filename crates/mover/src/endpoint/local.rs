//! Local file systems.
