//! What `fairlist verify` is told.

use std::path::PathBuf;

use clap::Args;

use crate::domain::audit::anchor::{Anchor, NoAnchor};

/// Which file, and what it must fit.
#[derive(Args, Clone, Debug)]
pub struct VerifyArguments {
    /// An audit (CSV) or a draw (JSON), as it was downloaded
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Compare an audit with a head that was kept elsewhere: a downloaded anchor, or a record's number and hash
    ///
    /// A chain proves that nothing in it was altered. That its end was not cut off, and that not all of it was
    /// written anew, is proved only by an earlier head that was kept where nobody could change it.
    #[arg(long, value_name = "FILE|SEQ:HASH", value_parser = parse_anchor)]
    pub anchor: Option<AnchorArgument>,
}

/// A head that was kept, as it is given.
#[derive(Clone, Debug)]
pub enum AnchorArgument {
    /// Typed.
    Given(Anchor),
    /// In a file.
    File(PathBuf),
}

fn parse_anchor(text: &str) -> Result<AnchorArgument, NoAnchor> {
    match Anchor::parse_pair(text) {
        Ok(anchor) => Ok(AnchorArgument::Given(anchor)),
        // A file's name may hold a colon, too.
        Err(NoAnchor::Pair) => Ok(AnchorArgument::File(PathBuf::from(text))),
        Err(problem) => Err(problem),
    }
}
