//! Figures that a run of the tests is to show.

use std::io::Write as _;

/// Says it among the tests' results. What a test that passes prints by `println!` nobody sees.
pub fn report(line: &str) {
    // If nobody can read it, nothing is lost.
    let _ = writeln!(std::io::stderr().lock(), "  {line}");
}
