//! Groups of rows: dense ids from composite keys, and statistics over them.

pub mod ids;
pub mod normalize;
mod partition;
pub mod rank;

/// Empties a buffer, and gives back to the system what is more than `kept` entries of it.
fn trim<T>(buffer: &mut Vec<T>, kept: usize) {
    // A vector never shrinks below its content.
    buffer.clear();
    buffer.shrink_to(kept);
}
