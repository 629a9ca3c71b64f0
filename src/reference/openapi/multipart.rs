//! Bodies of `multipart/form-data`: one part for each member, files as files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// What a document says of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// It is sent as a file.
    pub is_file: bool,
    /// Its content type, where the document says one.
    pub kind: Option<String>,
}

/// What is told of parts that are files.
pub const NOTE: &str = "A part that is a file takes its text, or its bytes as `data:TYPE;base64,…`.";

/// The content type and the bytes of a body.
///
/// # Errors
/// A `data:` URL that cannot be read, for a model.
pub fn body(members: &Map<String, Value>, parts: &IndexMap<String, Part>) -> Result<(String, Vec<u8>), String> {
    let usual = Part::default();
    let mut written: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in members {
        let part = parts.get(name).unwrap_or(&usual);
        let items = match value {
            Value::Array(items) => items.iter().collect(),
            value => vec![value],
        };
        for item in items.into_iter().filter(|item| !item.is_null()) {
            written.push(one(name, item, part)?);
        }
    }
    // A digest of everything stands in nothing of it.
    let mut digest = Sha256::new();
    written.iter().for_each(|(head, bytes)| {
        digest.update(head);
        digest.update(bytes);
    });
    let boundary: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut body = Vec::new();
    for (head, bytes) in &written {
        body.extend_from_slice(format!("--{boundary}\r\n{head}\r\n\r\n").as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), body))
}

/// The head of a part, and its bytes.
fn one(name: &str, value: &Value, part: &Part) -> Result<(String, Vec<u8>), String> {
    let shown = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let mut head = format!("Content-Disposition: form-data; name=\"{shown}\"");
    let (bytes, own) = match value {
        Value::String(text) if part.is_file => match text.strip_prefix("data:") {
            Some(url) => data(url).map_err(|why| format!("`{name}`: {why}"))?,
            None => (text.clone().into_bytes(), None),
        },
        Value::String(text) => (text.clone().into_bytes(), None),
        Value::Object(_) => (value.to_string().into_bytes(), Some("application/json".to_owned())),
        value => (value.to_string().into_bytes(), None),
    };
    if part.is_file {
        head.push_str(&format!("; filename=\"{shown}\""));
    }
    let usual = || part.is_file.then(|| "application/octet-stream".to_owned());
    if let Some(kind) = own.or_else(|| part.kind.clone()).or_else(usual) {
        head.push_str(&format!("\r\nContent-Type: {kind}"));
    }
    Ok((head, bytes))
}

/// The bytes and the type of a `data:` URL without its scheme.
fn data(url: &str) -> Result<(Vec<u8>, Option<String>), String> {
    let (about, content) = url.split_once(',').ok_or("this is no `data:` URL: it has no comma")?;
    let Some(kind) = about.strip_suffix(";base64") else {
        return Err("bytes are given as `data:TYPE;base64,…`".to_owned());
    };
    let bytes = STANDARD.decode(content.trim()).map_err(|why| format!("this is no base64: {why}"))?;
    let is_plain = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    Ok((bytes, is_plain.then(|| kind.to_owned())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_parts_lists_several_and_files_files() {
        let members = json!({"title": "Rex", "tags": ["a", 2], "about": {"age": 3}, "photo": "data:image/png;base64,AP8=",
            "text": "plain", "none": null});
        let file = Part { is_file: true, kind: None };
        let parts = IndexMap::from([("photo".to_owned(), file.clone()), ("text".to_owned(), file)]);
        let (kind, bytes) = body(members.as_object().expect("members"), &parts).expect("a body");
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").expect("a boundary");
        let text = String::from_utf8_lossy(&bytes).replace(boundary, "B").replace("\r\n", "\n");
        assert_eq!(
            text,
            "--B\nContent-Disposition: form-data; name=\"title\"\n\nRex\n\
             --B\nContent-Disposition: form-data; name=\"tags\"\n\na\n\
             --B\nContent-Disposition: form-data; name=\"tags\"\n\n2\n\
             --B\nContent-Disposition: form-data; name=\"about\"\nContent-Type: application/json\n\n{\"age\":3}\n\
             --B\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo\"\nContent-Type: image/png\n\n\0\u{fffd}\n\
             --B\nContent-Disposition: form-data; name=\"text\"; filename=\"text\"\nContent-Type: application/octet-stream\n\nplain\n\
             --B--\n"
        );
        let wrong = json!({"photo": "data:image/png,x"});
        assert!(body(wrong.as_object().expect("members"), &parts).expect_err("no base64").contains("`photo`: bytes"));
    }
}
