//! The pure half of tallystick: algorithms over columns, without Python and without I/O.
//!
//! Floors go upwards: [`error`], [`cpu`], [`threads`] and [`ragged`] know nothing of the rest; [`groups`], [`states`],
//! [`random`] and [`rows`] stand on them.

pub mod canonical;
pub mod cpu;
pub mod error;
pub mod groups;
pub mod hash;
pub mod ragged;
pub mod random;
pub mod rows;
pub mod states;
pub mod threads;

pub use error::{Error, Result};
