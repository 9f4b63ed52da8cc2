//! What pages are made with: the stylesheet, the script and the icon, inside the binary, at addresses that name
//! their content, so that browsers keep them for ever; and each organization's accent.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::WebState;
use super::error::Error;
use super::extract::Path;
use crate::domain::ids::OrganizationId;

/// A file inside the binary.
struct Asset {
    name: &'static str,
    ending: &'static str,
    kind: &'static str,
    content: &'static str,
}

const CSS: Asset = Asset {
    name: "app",
    ending: "css",
    kind: "text/css; charset=utf-8",
    content: include_str!("../../static/app.css"),
};
const JS: Asset = Asset {
    name: "app",
    ending: "js",
    kind: "text/javascript; charset=utf-8",
    content: include_str!("../../static/app.js"),
};
const ICON: Asset = Asset {
    name: "icon",
    ending: "svg",
    kind: "image/svg+xml",
    content: include_str!("../../static/icon.svg"),
};

fn digest(content: &str) -> String {
    hex::encode(&Sha256::digest(content.as_bytes())[..8])
}

impl Asset {
    fn file(&self) -> String {
        format!("{}.{}.{}", self.name, digest(self.content), self.ending)
    }
}

/// The addresses of the assets, and the build that belongs to them: an open tab reloads when it changes.
#[derive(Debug)]
pub struct Addresses {
    /// Of the stylesheet.
    pub css: String,
    /// Of the script.
    pub js: String,
    /// Of the icon.
    pub icon: String,
    /// Changes with any of them, and with the program's version.
    pub build: String,
}

/// The addresses, computed once.
pub static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses {
    css: format!("/static/{}", CSS.file()),
    js: format!("/static/{}", JS.file()),
    icon: format!("/static/{}", ICON.file()),
    build: digest(&[CSS.file(), JS.file(), ICON.file(), env!("CARGO_PKG_VERSION").to_owned()].concat()),
});

const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// `GET /static/{file}`
///
/// # Errors
/// Not found, for any other name.
pub async fn file(Path(file): Path<String>) -> Result<Response, Error> {
    let asset = [&CSS, &JS, &ICON].into_iter().find(|asset| asset.file() == file).ok_or(Error::NotFound)?;
    Ok(([(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, FOR_EVER)], asset.content).into_response())
}

/// `GET /theme/{organization}.css`: the accent and what follows from it, light and dark.
///
/// # Errors
/// Not found, for no organization's id.
pub async fn theme(State(state): State<WebState>, Path(file): Path<String>) -> Result<Response, Error> {
    let id: OrganizationId =
        file.strip_suffix(".css").and_then(|id| id.parse().ok()).ok_or(Error::NotFound)?;
    let accent = state.db.accent(id).await?.ok_or(Error::NotFound)?;
    let css = stylesheet(Colour::parse(&accent).unwrap_or(Colour(0x24, 0x56, 0xa6)));
    Ok(([(CONTENT_TYPE, CSS.kind), (CACHE_CONTROL, "public, max-age=300")], css).into_response())
}

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Colour(u8, u8, u8);

const WHITE: Colour = Colour(0xff, 0xff, 0xff);
const BLACK: Colour = Colour(0x10, 0x12, 0x16);
const DARK_GROUND: Colour = Colour(0x15, 0x17, 0x1b);

impl Colour {
    fn parse(text: &str) -> Option<Self> {
        let bytes = hex::decode(text.strip_prefix('#')?).ok()?;
        let [r, g, b] = bytes.try_into().ok()?;
        Some(Self(r, g, b))
    }

    fn css(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// `share` percent of `other` in it.
    fn mix(self, other: Self, share: u16) -> Self {
        let part = |a: u8, b: u8| {
            let mixed = (u16::from(a) * (100 - share) + u16::from(b) * share) / 100;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        Self(part(self.0, other.0), part(self.1, other.1), part(self.2, other.2))
    }

    /// Relative luminance (WCAG 2.2).
    fn luminance(self) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(self.0) + 0.7152 * part(self.1) + 0.0722 * part(self.2)
    }

    /// Contrast ratio (WCAG 2.2).
    fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Moved towards `goal` until text of this colour can be read on each of `grounds`.
    fn readable(self, grounds: [Self; 2], goal: Self) -> Self {
        (0..=100)
            .step_by(4)
            .map(|share| self.mix(goal, share))
            .find(|colour| grounds.iter().all(|ground| colour.contrast(*ground) >= 4.8))
            .unwrap_or(goal)
    }
}

/// Whatever colour an organization chose, text stays readable: links are moved away from the ground, and text on
/// a fill is black or white, whichever reads better.
fn stylesheet(accent: Colour) -> String {
    let block = |fill: Colour, ground: Colour, away: Colour, soft: u16| {
        let ink = if fill.contrast(WHITE) >= fill.contrast(BLACK) { WHITE } else { BLACK };
        let tint = accent.mix(ground, soft);
        let text = accent.readable([ground, tint], away);
        format!(
            "--accent: {}; --accent-ink: {}; --accent-text: {}; --accent-soft: {};",
            fill.css(),
            ink.css(),
            text.css(),
            tint.css()
        )
    };
    let light = block(accent, WHITE, BLACK, 90);
    // A dark fill on a dark ground would vanish.
    let fill = (0..=60)
        .step_by(4)
        .map(|share| accent.mix(WHITE, share))
        .find(|colour| colour.contrast(DARK_GROUND) >= 3.2)
        .unwrap_or(accent);
    let dark = block(fill, DARK_GROUND, WHITE, 82);
    format!(":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_accent_is_chosen_text_can_be_read() {
        for accent in ["#2456a6", "#ffff00", "#000000", "#ffffff", "#ff2d55", "#00ff7f", "#7f7f7f", "#0b0b3b"]
        {
            let css = stylesheet(Colour::parse(accent).expect("a colour"));
            for (block, ground) in css.lines().zip([WHITE, DARK_GROUND]) {
                let value = |name: &str| {
                    let (_, rest) = block.split_once(&format!("{name}: ")).expect("named");
                    Colour::parse(&rest[..7]).expect("a colour")
                };
                assert!(value("--accent-ink").contrast(value("--accent")) >= 4.5, "{accent}: {block}");
                assert!(value("--accent-text").contrast(ground) >= 4.5, "{accent}: {block}");
                assert!(value("--accent-text").contrast(value("--accent-soft")) >= 4.5, "{accent}: {block}");
            }
        }
    }
}
