//! Language models: one trait, one file per wire, capability data, retries and prices.
