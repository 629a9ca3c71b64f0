//! Signatures of requests to Amazon's services (Signature Version 4).

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::secret::Secret;

/// Who signs.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    /// The id of the key; no secret, but shown nowhere either.
    pub(crate) access_key_id: Secret,
    /// The key.
    pub(crate) secret_access_key: Secret,
    /// Goes along with keys that expire.
    pub(crate) session_token: Option<Secret>,
}

/// What is signed.
pub(crate) struct Signed<'a> {
    /// `POST`.
    pub(crate) method: &'a str,
    /// The path as it is sent.
    pub(crate) path: &'a str,
    /// The query as it is sent, its names sorted; empty for none.
    pub(crate) query: &'a str,
    /// Names in lower case and values, sorted; `host` and `x-amz-date` are among them.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub(crate) body: &'a [u8],
    /// `20150830T123600Z`.
    pub(crate) time: &'a str,
    /// `us-east-1`.
    pub(crate) region: &'a str,
    /// `bedrock`.
    pub(crate) service: &'a str,
}

/// The value of the header `authorization`.
pub(crate) fn authorization(credentials: &Credentials, signed: &Signed<'_>) -> String {
    let headers: String = signed.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names: Vec<&str> = signed.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let request = format!(
        "{}\n{}\n{}\n{headers}\n{names}\n{}",
        signed.method,
        encoded_path(signed.path),
        signed.query,
        hex(&Sha256::digest(signed.body))
    );
    let date = signed.time.get(..8).unwrap_or_default();
    let scope = format!("{date}/{}/{}/aws4_request", signed.region, signed.service);
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", signed.time, hex(&Sha256::digest(request.as_bytes())));
    let first = format!("AWS4{}", credentials.secret_access_key.expose()).into_bytes();
    let key = [date, signed.region, signed.service, "aws4_request"].iter().fold(first, |key, text| mac(&key, text));
    let signature = hex(&mac(&key, &text));
    let id = credentials.access_key_id.expose();
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
}

/// The time in the form that is signed.
pub(crate) fn amz_time(now: jiff::Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The path encoded once more, as every service but storage wants it: `%3A` becomes `%253A`.
fn encoded_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(service: &str, query: &str, headers: &[(&str, &str)]) -> String {
        let credentials = Credentials {
            access_key_id: Secret::new("AKIDEXAMPLE"),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
        };
        let signed = Signed {
            method: "GET",
            path: "/",
            query,
            headers,
            body: b"",
            time: "20150830T123600Z",
            region: "us-east-1",
            service,
        };
        authorization(&credentials, &signed).rsplit_once("Signature=").unwrap().1.to_string()
    }

    /// The examples that Amazon publishes: of its test suite `get-vanilla`, and of its guide.
    #[test]
    fn the_published_examples_come_out() {
        let vanilla = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        assert_eq!(
            signature("service", "", &vanilla),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        let guide = [
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("host", "iam.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        assert_eq!(
            signature("iam", "Action=ListUsers&Version=2010-05-08", &guide),
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[test]
    fn paths_are_encoded_again_and_times_have_no_punctuation() {
        assert_eq!(
            encoded_path("/model/anthropic.claude-v1%3A0/converse"),
            "/model/anthropic.claude-v1%253A0/converse"
        );
        assert_eq!(amz_time("2015-08-30T12:36:00.5Z".parse().unwrap()), "20150830T123600Z");
    }
}
