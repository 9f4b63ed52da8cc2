//! What `fairlist import` is told.

use std::path::PathBuf;

use clap::Args;

use crate::domain::import::Field;

/// Which file, and for which event.
#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// CSV file in UTF-8, with commas or semicolons and the columns' names in its first line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The event whose list they join: the last part of its address, such as `spring-concert`
    #[arg(long, value_name = "SLUG")]
    pub event: String,

    /// Which column holds what: `--map name=Who --map email="E-mail"`
    ///
    /// Fields are name, email, phone, joined, party, status, priority and language; name and email are needed. Of
    /// several columns with one name, `Date#2` is the second; `#3` is the third column. A waiting list exported by
    /// pretix is recognised and needs no mapping. Without `joined` the order is that of the file.
    #[arg(long = "map", value_name = "FIELD=COLUMN", value_parser = parse_map)]
    pub map: Vec<(Field, String)>,

    /// Only report what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Write to those who are put in the line; otherwise nobody is told
    #[arg(long)]
    pub tell: bool,
}

fn parse_map(text: &str) -> Result<(Field, String), String> {
    let (field, column) = text.split_once('=').ok_or("must be a field, `=`, and the name of a column")?;
    let known = || Field::ALL.map(Field::key).join(", ");
    let field = Field::from_key(&field.trim().to_lowercase())
        .ok_or_else(|| format!("has no field of ours: {}", known()))?;
    Ok((field, column.to_owned()))
}
