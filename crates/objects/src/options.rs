//! What is known of a store before it is asked: endpoint, region, style of addresses, profile.
