//! The text of a reply while its JSON is still coming.

/// Takes the pieces of a JSON object and gives what is new of one of its texts, such as `content`.
///
/// Only a member of the outermost object counts; of what is no such object nothing comes.
#[derive(Debug, Default)]
pub(super) struct FieldStream {
    field: &'static str,
    text: String,
    /// Where in `text` the value begins, and how many bytes of it were given out.
    value: Option<(usize, usize)>,
    ended: bool,
}

impl FieldStream {
    /// A stream for the text under a key.
    pub(super) fn of(field: &'static str) -> FieldStream {
        FieldStream { field, ..FieldStream::default() }
    }

    /// Takes a piece and gives what is new of the text.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        if self.ended {
            return String::new();
        }
        if self.value.is_none() {
            let Some(at) = self.find() else { return String::new() };
            self.value = Some((at, 0));
        }
        let Some((start, given)) = self.value else { return String::new() };
        let (text, ended) = decoded(&self.text[start..]);
        self.ended = ended;
        let new = text.get(given..).unwrap_or_default().to_owned();
        self.value = Some((start, text.len()));
        new
    }

    /// Where the value of the field begins, after its opening quote.
    fn find(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (0, 0_u32);
        let mut key: Option<(usize, usize)> = None;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let end = closing_quote(bytes, at + 1)?;
                    key = (depth == 1).then_some((at + 1, end));
                    at = end;
                }
                b':' => {
                    let is_field = key.is_some_and(|(start, end)| &self.text[start..end] == self.field);
                    let rest = self.text[at + 1..].trim_start();
                    if is_field && rest.starts_with('"') {
                        return Some(self.text.len() - rest.len() + 1);
                    }
                    if is_field && rest.is_empty() {
                        return None;
                    }
                    key = None;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// The position of the quote that closes a JSON string which begins at `start`.
fn closing_quote(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The text of a JSON string whose end may not have come yet, as far as it is sure, and whether the end is there.
fn decoded(raw: &str) -> (String, bool) {
    if let Some(end) = closing_quote(raw.as_bytes(), 0) {
        return (serde_json::from_str(&format!("\"{}\"", &raw[..end])).unwrap_or_default(), true);
    }
    // An escape may be cut anywhere: up to twelve bytes (a pair of surrogates) are left for the next piece.
    for cut in (raw.len().saturating_sub(12)..=raw.len()).rev().filter(|cut| raw.is_char_boundary(*cut)) {
        if let Ok(text) = serde_json::from_str::<String>(&format!("\"{}\"", &raw[..cut])) {
            return (text, false);
        }
    }
    (String::new(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a text in pieces of `size` bytes (at character boundaries).
    fn fed(text: &str, size: usize) -> String {
        let mut stream = FieldStream::of("content");
        let (mut out, mut start) = (String::new(), 0);
        while start < text.len() {
            let mut end = (start + size).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            out.push_str(&stream.push(&text[start..end]));
            start = end;
        }
        out
    }

    #[test]
    fn the_text_comes_out_whatever_the_pieces() {
        let cases = [
            (r#"{"content": "Hi \"there\"\n\u00e9 \ud83d\ude00 ü"}"#, "Hi \"there\"\né 😀 ü"),
            (r#"{"other": {"content": "no"}, "list": ["content"], "content" : "yes"}"#, "yes"),
            (r#"{"content": ""}"#, ""),
            (r#"{"content": 7}"#, ""),
            ("plain text", ""),
        ];
        for (text, expected) in cases {
            for size in 1..text.len() {
                assert_eq!(fed(text, size), expected, "{text} by {size}");
            }
        }
    }
}
