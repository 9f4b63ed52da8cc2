//! `fairlist verify`: whether a file that was downloaded is sound, by nothing but the file.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use chrono::SecondsFormat;

use crate::config::{AnchorArgument, VerifyArguments};
use crate::domain::audit::anchor::Anchor;
use crate::domain::audit::file::{self, Sound, Unsound};
use crate::domain::draw::file::{DrawFault, DrawFile};
use crate::domain::standing::grouped;

/// What came of it.
enum Verdict {
    Sound(String),
    Unsound(String),
    /// Nothing can be said.
    Unchecked(String),
}

/// Prints what is to be said of the file. The exit code says it to programs.
pub(super) fn verify(arguments: &VerifyArguments) -> ExitCode {
    match verdict(arguments).unwrap_or_else(Verdict::Unchecked) {
        Verdict::Sound(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Verdict::Unsound(text) => {
            println!("{text}");
            ExitCode::from(1)
        }
        Verdict::Unchecked(problem) => {
            eprintln!("Error: {problem}");
            ExitCode::from(2)
        }
    }
}

fn verdict(arguments: &VerifyArguments) -> Result<Verdict, String> {
    let anchor = match &arguments.anchor {
        None => None,
        Some(AnchorArgument::Given(anchor)) => Some(*anchor),
        Some(AnchorArgument::File(path)) => {
            let text = std::fs::read_to_string(path).map_err(at(path))?;
            Some(Anchor::from_json(&text).map_err(at(path))?)
        }
    };
    let path = &arguments.file;
    let mut file = BufReader::new(File::open(path).map_err(at(path))?);
    if is_json(&mut file).map_err(at(path))? {
        if anchor.is_some() {
            return Err("An anchor is for an audit, and this file is none.".to_owned());
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(at(path))?;
        return Ok(of_json(&text));
    }
    Ok(match file::verify(file, anchor.as_ref()).map_err(at(path))? {
        Ok(sound) => Verdict::Sound(said(&sound, anchor.as_ref())),
        Err(Unsound { line, fault }) => {
            let line = line.map_or_else(String::new, |line| format!("Line {line}: "));
            Verdict::Unsound(format!("Not sound. {line}{fault}"))
        }
    })
}

/// A problem with the file of that name.
fn at<E: Display>(path: &Path) -> impl Fn(E) -> String {
    let path = path.display().to_string();
    move |problem| format!("{path}: {problem}")
}

/// Whether the first thing in it begins an object. Nothing is taken from the file.
fn is_json(file: &mut impl BufRead) -> io::Result<bool> {
    let begins = file.fill_buf()?;
    let begins = begins.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(begins);
    Ok(begins.trim_ascii_start().first() == Some(&b'{'))
}

fn of_json(text: &str) -> Verdict {
    if Anchor::from_json(text).is_ok() {
        return Verdict::Unchecked(
            "This is an anchor. Give the audit, and the anchor with --anchor.".to_owned(),
        );
    }
    let Ok(draw) = serde_json::from_str::<DrawFile>(text) else {
        return Verdict::Unchecked("This is neither an audit nor a draw.".to_owned());
    };
    match draw.verify() {
        Ok(()) => Verdict::Sound(drawn(&draw)),
        // Nothing is wrong with it, and there is nothing to check.
        Err(fault @ (DrawFault::Format | DrawFault::NotDrawn)) => Verdict::Unchecked(format!("{fault}.")),
        Err(fault) => Verdict::Unsound(format!("Not sound: {fault}.")),
    }
}

/// What a sound draw proves, and what it does not.
fn drawn(draw: &DrawFile) -> String {
    let DrawFile { event, draw: number, pool, pool_digest, frozen_at, commitment, link, beacon, .. } = draw;
    let entries = match pool.len() {
        1 => "1 entry".to_owned(),
        len => format!("{} entries", grouped(i64::try_from(len).unwrap_or(i64::MAX))),
    };
    let by = match beacon {
        Some(beacon) => format!(
            "The tickets were made with round {} of the beacon, which did not exist yet when the pool was frozen: nobody \
             could choose.",
            beacon.round
        ),
        None => "Without a beacon, whoever has the secrets could know the order before freezing the pool."
            .to_owned(),
    };
    format!(
        "Sound: draw {number} of {event} ranks the {entries} of its pool by their tickets, in this order and no other.\n\
         The pool was frozen on {frozen_at}; its SHA-256 is {pool_digest}.\n\
         The secret is link {link} of the chain that begins with {commitment}: it proves something if that was published \
         before the draw.\n{by}"
    )
}

/// What a sound audit proves, and what it does not.
fn said(sound: &Sound, anchor: Option<&Anchor>) -> String {
    let Sound { records, head, last_at, event, notes, notes_erased } = sound;
    let whose = event.map_or_else(|| "an organization".to_owned(), |event| format!("event {event}"));
    let mut lines = vec![
        match records {
            1 => {
                format!("Sound: the only record in the audit of {whose} has the hash that its content gives.")
            }
            _ => format!(
                "Sound: all {} records in the audit of {whose}, each sealed by the hash of the one before.",
                grouped(*records)
            ),
        },
        format!(
            "The last is record {records}, written on {}, with the hash {}.",
            last_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            hex::encode(head)
        ),
    ];
    if *notes > 0 {
        lines.push(format!("Notes that are as they were written: {}.", grouped(notes.cast_signed())));
    }
    if *notes_erased > 0 {
        lines.push(format!(
            "Notes that were erased, so that only their digests are left: {}.",
            grouped(notes_erased.cast_signed())
        ));
    }
    lines.push(match anchor {
        None => "Whether records were cut off at the end, or all of them written anew, a file alone cannot tell: compare \
                 it with an anchor that was kept elsewhere (--anchor)."
            .to_owned(),
        Some(anchor) if anchor.seq == *records => format!("It ends with the record of the anchor{}.", anchor.taken()),
        Some(anchor) => format!(
            "Record {} is that of the anchor{}. For the {} that came later only a later anchor can vouch.",
            anchor.seq,
            anchor.taken(),
            grouped(records - anchor.seq)
        ),
    });
    lines.push(
        "Names of staff (the column “by”) are put beside the records, and nothing seals them.".to_owned(),
    );
    lines.join("\n")
}
