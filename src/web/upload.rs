//! A file that comes with a form: its token is checked before a byte of the file is kept, and what is too large is
//! read to its end, so that the browser shows our page instead of a broken connection.

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, FromRequestParts, Multipart, Request};
use tower_sessions::Session;

use super::body;
use super::csrf;
use super::error::Error;
use super::{BODY_LIMIT, WebState};
use crate::domain::contact::inert;
use crate::domain::import::MAX_UPLOAD_BYTES;

/// The most bytes that are read, kept or not. A route that takes files sets it as its body limit.
pub const READ_LIMIT: usize = 4 * MAX_UPLOAD_BYTES;

/// What came with a form whose token was checked.
#[derive(Debug)]
pub enum VerifiedUpload {
    /// A file.
    File {
        /// What it is called, safe to print.
        name: String,
        /// What is in it.
        bytes: Vec<u8>,
    },
    /// No file was chosen.
    Nothing,
    /// The file has more than [`MAX_UPLOAD_BYTES`].
    TooLarge,
}

impl FromRequest<WebState> for VerifiedUpload {
    type Rejection = Error;

    async fn from_request(request: Request, state: &WebState) -> Result<Self, Error> {
        let (mut parts, body) = request.into_parts();
        let session = Session::from_request_parts(&mut parts, state)
            .await
            .map_err(|_| Error::internal("a form on a route without sessions"))?;
        let request = Request::from_parts(parts, body);
        let form = Multipart::from_request(request, state).await.map_err(|_| broken())?;
        read(form, &session).await
    }
}

fn broken() -> Error {
    Error::BadRequest("What was sent broke off before its end, or is no file. Nothing was saved.".into())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn multipart(error: MultipartError) -> Error {
    match body::problem(error.status(), &error) {
        Error::BadRequest(_) => broken(),
        problem => problem,
    }
}

/// The token comes before the file: the form has it first, and who sends another order has no form of ours.
async fn read(mut form: Multipart, session: &Session) -> Result<VerifiedUpload, Error> {
    let mut verified = false;
    let mut upload = VerifiedUpload::Nothing;
    while let Some(mut field) = form.next_field().await.map_err(multipart)? {
        if field.name() == Some(csrf::FIELD) {
            let token = bytes(&mut field, BODY_LIMIT).await?.ok_or(Error::TooLarge)?;
            csrf::verify(session, std::str::from_utf8(&token).ok()).await?;
            verified = true;
        } else if field.name() == Some("file") {
            if !verified {
                return Err(Error::StaleForm);
            }
            let name = base_name(field.file_name().unwrap_or_default());
            upload = match bytes(&mut field, MAX_UPLOAD_BYTES).await? {
                None => VerifiedUpload::TooLarge,
                Some(bytes) if bytes.is_empty() && name.is_empty() => VerifiedUpload::Nothing,
                Some(bytes) => VerifiedUpload::File { name, bytes },
            };
        }
    }
    if verified { Ok(upload) } else { Err(Error::StaleForm) }
}

/// The field's bytes, or `None` when there are more than `most`; then it is read to its end all the same.
async fn bytes(field: &mut Field<'_>, most: usize) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Some(Vec::new());
    while let Some(chunk) = field.chunk().await.map_err(multipart)? {
        bytes = bytes.filter(|kept: &Vec<u8>| kept.len() + chunk.len() <= most);
        if let Some(kept) = &mut bytes {
            kept.extend_from_slice(&chunk);
        }
    }
    Ok(bytes)
}

/// What a file is called, safe to print: some browsers send a whole path.
#[must_use]
pub fn base_name(path: &str) -> String {
    inert(path.rsplit(['/', '\\']).next().unwrap_or_default(), 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_part_of_a_path_is_a_name() {
        assert_eq!(base_name("C:\\Users\\me\\list.csv"), "list.csv");
        assert_eq!(base_name("../../etc/list\n.csv"), "list\u{FFFD}.csv");
        assert_eq!(base_name(""), "");
    }
}
