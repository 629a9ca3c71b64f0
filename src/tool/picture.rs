//! Pictures in what tools give: models see them as pictures, and a line that says so stands in the result's text.
//!
//! A picture is an object such as the built-in type `Image` has, `{mime, data}`, at any place of a result: servers of MCP
//! give them so. What no provider takes (other media, other formats, too large, broken) is told in words, never sent: a
//! provider that refuses one picture refuses the whole conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::llm::{Picture, picture_format};

/// The most pictures that are shown of one result.
const PICTURES_MAX: usize = 16;
/// The most bytes of a picture that every provider takes.
const PICTURE_BYTES_MAX: usize = 3_750_000;
/// The deepest nesting in which pictures are looked for.
const DEPTH_MAX: usize = 32;

/// The result with a line in the place of each picture, and the pictures; `None` when it has no bytes of such a kind.
pub fn take(value: &Value) -> Option<(Value, Vec<Picture>)> {
    let mut taken = Taken::default();
    let value = taken.value(value, 0);
    if taken.found == 0 {
        return None;
    }
    // Texts and pictures in a row read as one text.
    let texts = value.as_array().and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<&str>>>());
    let joined = texts.map(|texts| Value::from(texts.join("\n")));
    Some((joined.unwrap_or(value), taken.pictures))
}

#[derive(Default)]
struct Taken {
    pictures: Vec<Picture>,
    /// How many objects with bytes there were.
    found: usize,
}

impl Taken {
    fn value(&mut self, value: &Value, depth: usize) -> Value {
        match value {
            Value::Object(map) => match bytes_of(map) {
                Some((mime, data)) => self.bytes(mime, data),
                None if depth >= DEPTH_MAX => value.clone(),
                None => map.iter().map(|(key, value)| (key.clone(), self.value(value, depth + 1))).collect(),
            },
            Value::Array(items) if depth < DEPTH_MAX => items.iter().map(|item| self.value(item, depth + 1)).collect(),
            other => other.clone(),
        }
    }

    /// The line for bytes; a picture that can be shown is kept.
    fn bytes(&mut self, mime: &str, data: &str) -> Value {
        self.found += 1;
        let plain: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let Ok(bytes) = STANDARD.decode(&plain) else {
            return Value::from(format!("[{mime}: bytes that are no base64]"));
        };
        let size = bytes.len();
        let not_shown = |why: &str| Value::from(format!("[{mime}, {size} bytes: not shown, {why}]"));
        if !mime.starts_with("image/") {
            return not_shown("it is no picture");
        }
        // Providers refuse a picture that is not what it says.
        let Some(mime) = picture_format(&bytes) else { return not_shown("only PNG, JPEG, GIF and WebP are") };
        if size > PICTURE_BYTES_MAX {
            return not_shown(&format!("the most is {PICTURE_BYTES_MAX}"));
        }
        if self.pictures.len() >= PICTURES_MAX {
            return not_shown(&format!("the most is {PICTURES_MAX} pictures of a result"));
        }
        self.pictures.push(Picture { mime: mime.to_owned(), data: plain });
        Value::from(format!("[picture {}: {mime}, {size} bytes]", self.pictures.len()))
    }
}

/// The media type and the data of an object that is only that.
fn bytes_of(map: &Map<String, Value>) -> Option<(&str, &str)> {
    let is_own = |key: &String| matches!(key.as_str(), "mime" | "data" | "path" | "url");
    let is_absent = |key: &str| map.get(key).is_none_or(Value::is_null);
    let (mime, data) = (map.get("mime")?.as_str()?, map.get("data")?.as_str()?);
    let is_mime = mime.split_once('/').is_some_and(|(kind, of)| !kind.is_empty() && !of.is_empty());
    (is_mime && mime.len() < 128 && map.keys().all(is_own) && is_absent("path") && is_absent("url"))
        .then_some((mime, data))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The first bytes of a PNG.
    const PNG: &str = "iVBORw0KGgo=";

    #[test]
    fn a_picture_leaves_a_line_in_its_place() {
        let (value, pictures) = take(&json!({"mime": "image/jpeg", "data": PNG})).unwrap();
        assert_eq!(value, "[picture 1: image/png, 8 bytes]");
        assert_eq!(pictures, [Picture { mime: "image/png".into(), data: PNG.into() }]);
        let mixed =
            json!(["Two:", {"mime": "image/png", "data": PNG}, {"mime": "image/gif", "data": "R0lGODlh"}, "Done"]);
        let (value, pictures) = take(&mixed).unwrap();
        assert_eq!(value, "Two:\n[picture 1: image/png, 8 bytes]\n[picture 2: image/gif, 6 bytes]\nDone");
        assert_eq!(pictures.len(), 2);
        let inside = json!({"title": "x", "chart": {"mime": "image/png", "data": PNG, "url": null}});
        assert_eq!(take(&inside).unwrap().0, json!({"title": "x", "chart": "[picture 1: image/png, 8 bytes]"}));
    }

    #[test]
    fn what_cannot_be_shown_is_told_in_words() {
        for (bytes, line) in [
            (json!({"mime": "audio/wav", "data": "UklGRg=="}), "[audio/wav, 4 bytes: not shown, it is no picture]"),
            (
                json!({"mime": "image/svg+xml", "data": "PHN2Zz4="}),
                "[image/svg+xml, 5 bytes: not shown, only PNG, JPEG, GIF and WebP are]",
            ),
            (json!({"mime": "image/png", "data": "no base64!"}), "[image/png: bytes that are no base64]"),
        ] {
            assert_eq!(take(&bytes), Some((Value::from(line), Vec::new())));
        }
        let large = format!("iVBO{}", "AAAA".repeat(PICTURE_BYTES_MAX / 3 + 1));
        assert!(take(&json!({"mime": "image/png", "data": large})).unwrap().1.is_empty());
        let many: Vec<Value> = (0..20).map(|_| json!({"mime": "image/png", "data": PNG})).collect();
        assert_eq!(take(&json!(many)).unwrap().1.len(), PICTURES_MAX);
        for other in [
            json!("x"),
            json!({"mime": "text", "data": "x"}),
            json!({"mime": "image/png", "data": "x", "more": 1}),
            json!([1, null]),
        ] {
            assert_eq!(take(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_sent_that_are_no_picture(mime in "(image/(png|x)|audio/a|.{0,8})", data in "([A-Za-z0-9+/= \n]{0,24}|.{0,12})") {
            if let Some((_, pictures)) = take(&json!([{"mime": mime, "data": data}])) {
                for picture in pictures {
                    let bytes = STANDARD.decode(&picture.data);
                    prop_assert_eq!(bytes.ok().as_deref().and_then(picture_format), Some(picture.mime.as_str()));
                }
            }
        }
    }
}
