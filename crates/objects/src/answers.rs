//! What stores answer: XML, errors, dates.
