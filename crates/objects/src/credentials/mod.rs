//! Who we are to a store.
