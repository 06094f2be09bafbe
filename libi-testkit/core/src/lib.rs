//! What tests, benchmarks and fuzz targets of libi-core and libi-launch share.

pub mod inputs;
pub mod processor;
